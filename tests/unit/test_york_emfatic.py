"""Emfatic texts are read, checked with the place of each problem, and become Ecore models."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.tree import ROOT
from threadbus.agents.teams.york.emfatic import check, to_ecore, to_mermaid

CORPUS = ROOT / "tests" / "golden" / "emfatic"

LIBRARY = """\
@namespace(uri="http://library", prefix="lib")
package library;

class Library {
  id attr String[1] name;
  val Book[*]#library books;
  val Writer[+] writers;
  op Book find(String title, int[?] year);
}

/* what has pages */
abstract class Item { attr int pages = 100; attr Category category = Novel; }

class Book extends Item {
  ref Library#books library;
  ref Writer[1..*]#books authors;
  readonly transient derived attr boolean old;
}

class Writer { ref Book[*]#authors books; attr Date born; !unique attr String[] names; }

enum Category { Novel = 1; Poetry; Essay = 7; }  // three kinds
datatype Date : java.util.Date;
mapentry Loan : String -> Book;
package people { class Reader extends library.Writer { ref Book book; } }
"""


def loaded(content: bytes, folder: Path) -> Any:
    """Read a model as other tools of Ecore do."""
    resources: Any = import_module("pyecore.resources")
    path = folder / "model.ecore"
    path.write_bytes(content)
    return resources.ResourceSet().get_resource(resources.URI(str(path))).contents[0]


def test_a_right_text_becomes_a_model_that_other_tools_read(tmp_path: Path) -> None:
    """Types, bounds, links, defaults and namespaces are those of the text."""
    checked = check(LIBRARY)
    assert checked.problems == ()
    assert checked.package is not None

    model = loaded(to_ecore(checked.package), tmp_path)

    assert (model.name, model.nsURI, model.nsPrefix) == ("library", "http://library", "lib")
    book, library = model.getEClassifier("Book"), model.getEClassifier("Library")
    books = library.findEStructuralFeature("books")
    assert (books.lowerBound, books.upperBound, books.containment) == (0, -1, True)
    assert books.eOpposite is book.findEStructuralFeature("library")
    assert library.findEStructuralFeature("name").iD
    assert book.findEStructuralFeature("authors").lowerBound == 1
    assert book.findEStructuralFeature("old").changeable is False
    assert [one.name for one in book.eSuperTypes] == ["Item"]
    assert book.findEStructuralFeature("pages").defaultValueLiteral == "100"
    literals = model.getEClassifier("Category").eLiterals
    assert [(one.name, one.value) for one in literals] == [
        ("Novel", 1),
        ("Poetry", 2),
        ("Essay", 7),
    ]
    names = model.getEClassifier("Writer").findEStructuralFeature("names")
    assert (names.unique, names.upperBound) == (False, -1)
    (find,) = library.eOperations
    assert [(one.name, one.eType.name) for one in find.eParameters] == [
        ("title", "EString"),
        ("year", "EInt"),
    ]
    assert [one.name for one in model.eSubpackages] == ["people"]


def test_a_right_text_is_drawn() -> None:
    """Parts, links and inheritance are in the diagram, each link once."""
    checked = check(LIBRARY)
    assert checked.package is not None
    drawn = to_mermaid(checked.package).splitlines()

    assert drawn[0] == "classDiagram"
    assert '  Library "0..1" *-- "0..*" Book : books' in drawn
    assert '  Book "0..*" -- "1..*" Writer : authors' in drawn
    assert "  Item <|-- Book" in drawn
    assert sum("authors" in line for line in drawn) == 1


@pytest.mark.parametrize(
    ("body", "place", "says"),
    [
        ("class A { attr Strin x; }", (2, 16), "there is no type 'Strin'; did you mean String?"),
        ("class A { ref String x; }", (2, 15), "String is no class, so 'x' is no reference"),
        ("class A { attr A x; }", (2, 16), "A is a class, so 'x' is no attribute"),
        ("class A { attr String x }", (2, 25), "there is '}' where it cannot be"),
        ("class A { attr String x;", (2, 25), "the text ends where it cannot be"),
        (
            "class A { attr String[3..1] x; }",
            (2, 16),
            "the lower bound 3 is over the upper bound 1",
        ),
        ("class A { attr String[0..0] x; }", (2, 16), "the upper bound"),
        ("class A { attr int x = 1.5; }", (2, 20), "it takes a whole number"),
        ("class A { attr int x; attr int x; }", (2, 32), "already has a 'x' at line 2, column 20"),
        ("class A extends B {} class B extends A {}", (2, 7), "break the circle"),
        ("class A extends A {}", (2, 17), "class A extends itself"),
        ("class A { ref B#as b; } class B { ref A[*] as; }", (2, 20), "write `A#b as` there"),
        ("class A { ref B#c b; } class B { ref A a; }", (2, 19), "its references are a"),
        ("class A { val A#b a; val A#a b; }", (2, 19), "both contain"),
        (
            "class A { val B[*]#a b; } class B { ref A[*]#b a; }",
            (2, 48),
            "a part has one container",
        ),
        ("class A<T, T> {}", (2, 12), "already has a 'T'"),
        ("class A { ref A<A> a; }", (2, 15), "takes no type arguments"),
        ("class A<T extends A> { ref A<? extends B> a; } class B {}", (2, 40), "not extend A"),
        ("enum E { A = 1; B = 1; }", (2, 17), "make them differ"),
        ("enum E { }", (2, 6), "has no values"),
        ("enum E { A; } class C { attr E e = B; }", (2, 32), "it takes one of A"),
        ("class A { id attr int i; id attr int j; }", (2, 23), "more than one id"),
        ("class A { id ref A a; }", (2, 20), "'id' cannot be said of a reference"),
        ("class A {} class A {}", (2, 18), "already has a 'A'"),
        ("class B { attr int x; } class A extends B { attr int x; }", (2, 54), "inherits a 'x'"),
    ],
)
def test_each_problem_is_told_with_its_place(body: str, place: tuple[int, int], says: str) -> None:
    """Line and column are where it is wrong, and the message says what would be right."""
    problems = check(f"package p;\n{body}").problems
    first = problems[0]
    assert (first.place.line, first.place.column) == place
    assert says in first.message


def test_what_is_too_large_or_too_deep_is_refused() -> None:
    """The message names the limit."""
    assert "over the limit of 100,000" in check("x" * 100_001).problems[0].message
    deep = "package p;" + "package q {" * 40 + "}" * 40
    assert "deeper than 16" in check(deep).problems[0].message


def test_generic_types_are_exported_as_ecore_has_them() -> None:
    """Parameters with limits, arguments, wildcards both ways, and supers, each in its element."""
    text = (CORPUS / "right" / "generics.emf").read_text(encoding="utf-8")
    package = check(text).package
    assert package is not None
    root = ElementTree.fromstring(to_ecore(package))  # noqa: S314 -- our own
    xsi = "{http://www.w3.org/2001/XMLSchema-instance}type"

    def shape(element: ElementTree.Element) -> list[object]:
        said = {key: value for key, value in element.attrib.items() if key != xsi}
        return [element.tag, said, *map(shape, element)]

    by_name = {element.get("name", ""): element for element in root.iter() if element.get("name")}
    assert shape(by_name["T"]) == [
        "eTypeParameters",
        {"name": "T"},
        ["eBounds", {"eClassifier": "#//Thing"}],
    ]
    assert shape(by_name["index"])[2:] == [
        [
            "eGenericType",
            {"eClassifier": "#//Map"},
            [
                "eTypeArguments",
                {"eClassifier": "ecore:EDataType http://www.eclipse.org/emf/2002/Ecore#//EString"},
            ],
            [
                "eTypeArguments",
                {"eClassifier": "#//List"},
                ["eTypeArguments", {}, ["eUpperBound", {"eClassifier": "#//Thing"}]],
            ],
        ]
    ]
    assert shape(by_name["rest"])[2:] == [
        ["eGenericType", {"eClassifier": "#//List"}, ["eTypeArguments", {}]]
    ]
    assert shape(by_name["held"])[2:] == [["eGenericType", {"eTypeParameter": "#//Box/T"}]]
    assert shape(by_name["take"])[2:4] == [
        [
            "eTypeParameters",
            {"name": "U"},
            ["eBounds", {"eTypeParameter": "#//Box/T"}],
        ],
        ["eGenericType", {"eTypeParameter": "#//Box/take/U"}],
    ]
    assert shape(by_name["into"])[2:] == [
        [
            "eGenericType",
            {"eClassifier": "#//List"},
            ["eTypeArguments", {}, ["eLowerBound", {"eTypeParameter": "#//Box/T"}]],
        ]
    ]
    assert shape(by_name["StoneBox"])[2] == [
        "eGenericSuperTypes",
        {"eClassifier": "#//Box"},
        ["eTypeArguments", {"eClassifier": "#//Stone"}],
    ]
    assert "eSuperTypes" not in by_name["StoneBox"].attrib


def test_type_parameters_are_bounded() -> None:
    """What would take very long to check is refused: many of them, with many limits each."""
    many = ", ".join(f"T{number} extends T{number + 1}" for number in range(4_000))
    (problem,) = check(f"package p;\nclass A<{many}> {{}}").problems
    assert problem.message == "there are more than 32 type parameters; use fewer"
    limits = " & ".join(["A"] * 17)
    (problem,) = check(f"package p;\nclass A {{}}\nclass B<T extends {limits}> {{}}").problems
    assert problem.message == "there are more than 16 limits of a type; use fewer"
    doubled = ", ".join(f"T{number} extends T{number + 1} & T{number + 1}" for number in range(31))
    body = f"class B<{doubled}, T31> {{ val C<T0> c; }}\nclass C<U extends A> {{}}"
    (problem,) = check(f"package p;\nclass A {{}}\n{body}").problems
    assert "T0 does not extend A" in problem.message


def test_parameters_may_be_named_by_words_of_python() -> None:
    """A model is exported whatever its operations and their parameters are called."""
    package = check(
        "package p;\nclass A { op void import(int from, int class_, int not); }"
    ).package
    assert package is not None
    assert b'name="from"' in to_ecore(package)
