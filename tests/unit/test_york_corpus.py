"""The corpus of Emfatic texts: right ones become models, wrong ones are told where and why.

A wrong text begins with ``//! LINE:COLUMN MESSAGE``: the place of its first problem, and a piece of
what is said of it.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tree import ROOT
from threadbus.agents.teams.york.emfatic import Package, check, to_ecore, to_mermaid
from threadbus.agents.teams.york.emfatic.checking import MAX_PROBLEMS
from threadbus.agents.teams.york.emfatic.refusing import MAX_CHARS

CORPUS = ROOT / "tests" / "golden" / "emfatic"
RIGHT = sorted((CORPUS / "right").glob("*.emf"))
WRONG = sorted((CORPUS / "wrong").glob("*.emf"))
PIECES = sorted(
    {
        piece
        for path in (*RIGHT, *WRONG)
        if path.stem != "many_classes"
        for piece in re.findall(r"\w+|\s+|.", path.read_text(encoding="utf-8"))
    }
)


def stem(path: Path) -> str:
    """Name a case by its file."""
    return path.stem


def right(path: Path) -> Package:
    """Read a text in which nothing is wrong."""
    checked = check(path.read_text(encoding="utf-8"))
    assert checked.problems == ()
    assert checked.package is not None
    return checked.package


def load(content: bytes, folder: Path) -> Any:
    """Read a model with pyecore, from a file as other tools do."""
    resources: Any = import_module("pyecore.resources")
    path = folder / "model.ecore"
    path.write_bytes(content)
    resource = resources.ResourceSet().get_resource(resources.URI(str(path)))
    # pyecore leaves the file to the garbage collector.
    resource.uri.close_stream()
    return resource.contents[0]


def saved(model: Any, path: Path) -> bytes:
    """Write a model that pyecore has read."""
    resources: Any = import_module("pyecore.resources")
    ecore: Any = import_module("pyecore.ecore")
    for one in model.eAllContents():
        if isinstance(one, ecore.EReference) and one.eOpposite is not None:
            # pyecore 0.15 does not note that it is set, and then does not write it.
            one._isset.add(ecore.EReference.eOpposite_)
    resource = resources.ResourceSet().create_resource(resources.URI(str(path)))
    resource.append(model)
    resource.save()
    return path.read_bytes()


def shape(package: Any) -> list[Any]:
    """Return what a model of pyecore says, as plain data: names, types, bounds, links, values."""
    return [
        [package.name, package.nsURI, package.nsPrefix],
        [classifier_shape(one) for one in package.eClassifiers],
        [shape(one) for one in package.eSubpackages],
    ]


def type_shape(typed: Any) -> Any:
    """Return the type of a feature, operation or parameter; None for ``void``."""
    if typed.eGenericType is not None:
        return generic_shape(typed.eGenericType)
    return None if typed.eType is None else typed.eType.name


def generic_shape(generic: Any) -> Any:
    """Return a type with its arguments, or a wildcard with its limits."""
    if generic is None:
        return None
    named = generic.eTypeParameter or generic.eClassifier
    limits = [generic_shape(generic.eUpperBound), generic_shape(generic.eLowerBound)]
    return [named and named.name, limits, [generic_shape(one) for one in generic.eTypeArguments]]


def parameters_shape(generic: Any) -> list[Any]:
    """Return the type parameters of a classifier or operation, with their limits."""
    return [
        [one.name, [generic_shape(limit) for limit in one.eBounds]]
        for one in generic.eTypeParameters
    ]


def classifier_shape(one: Any) -> list[Any]:
    """Return one classifier of a model."""
    kind = type(one).__name__
    said: list[Any] = [kind, one.name, parameters_shape(one)]
    if kind == "EEnum":
        return [*said, [(literal.name, literal.value) for literal in one.eLiterals]]
    if kind == "EDataType":
        return [*said, one.instanceClassName, one.serializable]
    said += [bool(one.abstract), bool(one.interface), [up.name for up in one.eSuperTypes]]
    said.append([generic_shape(up) for up in one.eGenericSuperTypes])
    for feature in one.eStructuralFeatures:
        said.append(
            [
                type(feature).__name__,
                *(feature.name, type_shape(feature), feature.lowerBound, feature.upperBound),
                *(feature.unique, feature.ordered, feature.changeable, feature.transient),
                *(feature.derived, feature.volatile, feature.defaultValueLiteral),
                getattr(feature, "containment", None),
                getattr(feature, "iD", None),
                getattr(getattr(feature, "eOpposite", None), "name", None),
            ]
        )
    for operation in one.eOperations:
        taken = [(p.name, type_shape(p), p.upperBound) for p in operation.eParameters]
        thrown = [e.name for e in operation.eExceptions]
        generic = parameters_shape(operation)
        said.append([operation.name, generic, type_shape(operation), taken, thrown])
    return said


def said_shape(package: Package) -> list[tuple[str, list[str]]]:
    """Return the names that a text declares: each class with its features."""
    return [
        (one.name, [feature.name for feature in one.features()])
        for inner in package.walk()
        for one in inner.classes()
    ]


def loaded_names(package: Any) -> list[tuple[str, list[str]]]:
    """Return the same names from a model that was read, without the entries of maps."""
    own = [
        (one.name, [feature.name for feature in one.eStructuralFeatures])
        for one in package.eClassifiers
        if type(one).__name__ == "EClass"
        and [feature.name for feature in one.eStructuralFeatures] != ["key", "value"]
    ]
    return [*own, *(name for inner in package.eSubpackages for name in loaded_names(inner))]


def test_the_corpus_is_large_and_half_of_it_is_wrong() -> None:
    """At least sixty texts, the library model among the right ones."""
    assert len(RIGHT) >= 30
    assert len(WRONG) >= 30
    assert "library" in map(stem, RIGHT)


@pytest.mark.parametrize("path", RIGHT, ids=stem)
def test_a_right_text_goes_through_pyecore_and_back(path: Path, tmp_path: Path) -> None:
    """What pyecore reads is what the text says, and what it writes again is the same model."""
    package = right(path)
    model = load(to_ecore(package), tmp_path)
    first = shape(model)

    assert loaded_names(model) == sorted_as(loaded_names(model), said_shape(package))
    assert shape(load(saved(model, tmp_path / "again.ecore"), tmp_path)) == first
    assert to_mermaid(package).startswith("classDiagram\n")


def sorted_as(found: list[Any], wanted: list[Any]) -> list[Any]:
    """Return *wanted*, in the order of *found* where both hold the same."""
    return found if sorted(found) == sorted(wanted) else wanted


@pytest.mark.parametrize("path", WRONG, ids=stem)
def test_a_wrong_text_is_told_where_and_why(path: Path) -> None:
    """The first problem stands at the place that the text names, with the words it names."""
    text = path.read_text(encoding="utf-8")
    wanted = re.match(r"//! (\d+):(\d+) (.*)", text)
    assert wanted is not None
    first = check(text).problems[0]

    assert (first.place.line, first.place.column) == (int(wanted[1]), int(wanted[2])), first
    assert wanted[3] in first.message


HEAD = "package p;\n"
HOSTILE = {
    "nul": (HEAD + "class A\0 {}", "U+0000 cannot be seen"),
    "escape": (HEAD + "class A { attr String s = '\x1b'; }", "U+001B cannot be seen"),
    "bidi": (HEAD + "class A { attr int \u202ex; }", "U+202E cannot be seen"),
    "zero width": (HEAD + "class A\u200b {}", "U+200B cannot be seen"),
    "half of a character": (HEAD + 'class A { attr String s = "\ud800"; }', "U+D800"),
    "huge": ("x" * (MAX_CHARS + 1), "over the limit of 100,000"),
    "gigantic": (" " * 20_000_000, "over the limit of 100,000"),
    "empty": ("", "the text ends where it cannot be; expected '@' or 'package'"),
    "blank": (" \n\t\n", "the text ends"),
    "comment": ("/*" + "*" * 90_000, "this comment is never closed"),
    "comment of comments": ("/*/" * 30_000, "where it cannot be"),
    "quotes": (HEAD + 'class A : "' + "\\" * 90_000, "does not end in its line"),
    "braces": (HEAD + "{" * 90_000, "where it cannot be"),
    "parentheses": (HEAD + "class A { op void x" + "(" * 90_000, "where it cannot be"),
    "open packages": (HEAD + "package q {" * 8_000, "the text ends"),
    "deep packages": (HEAD + "package q{" * 8_000 + "}" * 8_000, "nested deeper than 16"),
    "deep inheritance": (
        HEAD + "".join(f"class C{i} extends C{i + 1} {{}}" for i in range(2_000)) + "class C2000{}",
        "inherits from more than 100 classes",
    ),
    "many classes": (HEAD + "".join(f"class C{i}{{}}" for i in range(6_000)), "more than 5,000"),
    "many features": (HEAD + "class A{" + "attr int x;" * 6_000 + "}", "more than 5,000 features"),
    "long number": (HEAD + f"enum E {{ A = {'9' * 9_000}; }}", "no 32-bit number"),
    "long bound": (HEAD + f"class A {{ attr int[{'9' * 9_000}] x; }}", "a bound of this type"),
    "long default": (HEAD + f"class A {{ attr int x = {'9' * 9_000}; }}", "a whole number"),
    "long name": (HEAD + f"class A {{ ref {'a.' * 30_000}b x; }}", "there is no type 'a.a."),
    "digits of others": (HEAD + "class A { attr int[٣] x; }", "where it cannot be"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_gives_a_short_problem(name: str) -> None:
    """Nothing is raised, and what is said of it is short, whatever the text is."""
    text, says = HOSTILE[name]
    problems = check(text).problems

    assert says in problems[0].message
    assert len(problems) <= MAX_PROBLEMS
    assert all(len(problem.message) < 400 for problem in problems)
    assert all(problem.message.isprintable() for problem in problems)


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_lines(ending: str) -> None:
    """A place is the one that an editor shows; a mark of the encoding is no problem."""
    text = "\ufeff" + ending.join(["package p;", "class A {", "  attr Strin x;", "}"])
    assert str(check(text).problems[0].place) == "line 3, column 8"


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=300),
        st.lists(st.sampled_from(PIECES), max_size=120).map("".join),
        st.lists(st.sampled_from(PIECES), max_size=120).map("".join).map((HEAD + "{}").format),
        st.tuples(
            st.sampled_from([path.read_text(encoding="utf-8") for path in RIGHT[:12]]),
            st.integers(0, 400),
            st.integers(0, 40),
            st.sampled_from(PIECES),
        ).map(lambda cut: cut[0][: cut[1]] + cut[3] + cut[0][cut[1] + cut[2] :]),
    )
)
def test_no_text_raises_and_each_is_a_problem_or_a_model(text: str) -> None:
    """Whatever is read is told in bounds, or becomes an Ecore model and a diagram."""
    checked = check(text)

    assert len(checked.problems) <= MAX_PROBLEMS
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= problem.place.line <= lines for problem in checked.problems)
    assert all(problem.place.column >= 1 for problem in checked.problems)
    assert all(len(problem.message) < 2_000 for problem in checked.problems)
    if checked.ok:
        assert checked.package is not None
        assert to_ecore(checked.package).startswith(b"<?xml")
        assert to_mermaid(checked.package).startswith("classDiagram")
