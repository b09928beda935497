"""The rules that a text must keep beyond its grammar: names, types, bounds, links, defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from threadbus.agents.teams.york.emfatic.generics import Use
from threadbus.agents.teams.york.emfatic.model import (
    UNBOUNDED,
    Attribute,
    ClassDef,
    DataTypeDef,
    Element,
    EnumDef,
    MapEntryDef,
    Operation,
    Package,
    Place,
    Primitive,
    Problem,
    Reference,
    TypeParameter,
    TypeRef,
)
from threadbus.agents.teams.york.emfatic.reading import read
from threadbus.agents.teams.york.emfatic.scope import MAX_ANCESTORS, BuiltInClass, Found, Scope
from threadbus.agents.teams.york.emfatic.values import wanted_of
from threadbus.schemas import shorten

MAX_PROBLEMS: Final = 50
_MAX_FOUND: Final = 4 * MAX_PROBLEMS
_LARGEST: Final = 2**31 - 1
_ATTRIBUTE_ONLY: Final = frozenset({"id"})
_REFERENCE_ONLY: Final = frozenset({"resolve"})


class Checked(msgspec.Struct, frozen=True):
    """A text that was looked at."""

    package: Package | None
    """What it says; nothing where it breaks the grammar."""
    problems: tuple[Problem, ...] = ()
    """In the order of the text, at most :data:`MAX_PROBLEMS`."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check(text: str) -> Checked:
    """Read a text and say every problem with its place.

    A text that breaks the grammar has one problem: the first place where it does. Of a text with
    very many problems the first that are found are told.
    """
    found = read(text)
    if isinstance(found, Problem):
        return Checked(None, (found,))
    problems = sorted(
        islice(_problems(found, Scope(found)), _MAX_FOUND),
        key=lambda one: (one.place.line, one.place.column),
    )
    return Checked(found, tuple(problems[:MAX_PROBLEMS]))


def _problems(root: Package, scope: Scope) -> Iterator[Problem]:
    for package in root.walk():
        yield from _twice([*package.classifiers, *package.packages], f"package {package.name}")
        for classifier in package.classifiers:
            match classifier:
                case ClassDef():
                    yield from _class(classifier, scope)
                case EnumDef():
                    yield from _enum(classifier)
                case MapEntryDef():
                    for ref in (classifier.key, classifier.value):
                        yield from Use(scope, classifier).problems(ref)
                case DataTypeDef():
                    yield from _generic(classifier, scope)


def _twice(elements: Iterable[Element], where: str) -> Iterator[Problem]:
    seen: dict[str, Element] = {}
    for element in elements:
        first = seen.setdefault(element.name, element)
        if first is not element:
            yield Problem(
                element.place,
                f"{where} already has a {element.name!r} at {first.place}; rename one of the two",
                "name",
            )


def _enum(found: EnumDef) -> Iterator[Problem]:
    yield from _twice(found.literals, f"enum {found.name}")
    if not found.literals:
        message = f"enum {found.name} has no values; add one, as `{found.name.upper()}_A = 0;`"
        yield Problem(found.place, message, "enum")
    values: dict[int, str] = {}
    for literal in found.literals:
        if not -_LARGEST - 1 <= literal.value <= _LARGEST:
            message = f"the value of {literal.name} is no 32-bit number; use one up to {_LARGEST:,}"
            yield Problem(literal.place, message, "enum")
            continue
        first = values.setdefault(literal.value, literal.name)
        if first != literal.name:
            yield Problem(
                literal.place,
                f"{literal.name} and {first} both have the value {literal.value}; make them differ",
                "enum",
            )


def _generic(found: ClassDef | DataTypeDef, scope: Scope) -> Iterator[Problem]:
    yield from _twice(found.type_parameters, found.name)
    yield from Use(scope, found).parameters(found.type_parameters)


def _class(found: ClassDef, scope: Scope) -> Iterator[Problem]:
    yield from _generic(found, scope)
    yield from _supers(found, scope)
    yield from _twice(found.features(), f"class {found.name}")
    yield from _inherited(found, scope)
    for attribute in found.attributes:
        yield from _attribute(attribute, found, scope)
    for reference in found.references:
        yield from _reference(reference, found, scope)
    signatures: dict[tuple[str, ...], Operation] = {}
    for operation in found.operations:
        yield from _operation(operation, found, scope)
        key = (operation.name, *(one.type.name for one in operation.parameters))
        first = signatures.setdefault(key, operation)
        if first is not operation:
            yield Problem(
                operation.place,
                f"class {found.name} already has an operation {operation.name!r} with these "
                f"parameters at {first.place}; rename one of the two",
                "name",
            )


def _supers(found: ClassDef, scope: Scope) -> Iterator[Problem]:
    seen: set[str] = set()
    for ref in found.supers:
        target = scope.target(ref, found)
        yield from Use(scope, found).supers(ref)
        if target is not None and not isinstance(target, ClassDef | BuiltInClass):
            yield Problem(ref.place, f"{ref.name} is no class, so nothing can extend it", "extends")
        elif target is found:
            yield Problem(ref.place, f"class {found.name} extends itself", "extends")
        if ref.name in seen:
            yield Problem(ref.place, f"{ref.name} is extended twice; leave one out", "extends")
        seen.add(ref.name)
    ancestors = scope.ancestors(found)
    if len(ancestors) > MAX_ANCESTORS:
        message = f"class {found.name} inherits from more than {MAX_ANCESTORS} classes; flatten it"
        yield Problem(found.place, message, "size")
    if any(one is found for one in ancestors) and all(
        one is not found for one in scope.supers(found)
    ):
        yield Problem(
            found.place,
            f"class {found.name} extends itself by way of others; break the circle",
            "extends",
        )


def _inherited(found: ClassDef, scope: Scope) -> Iterator[Problem]:
    own = {feature.name: feature for feature in found.features()}
    for owner, feature in scope.features(found):
        mine = own.get(feature.name)
        if owner is not found and mine is not None and mine is not feature:
            yield Problem(
                mine.place,
                f"class {found.name} inherits a {mine.name!r} from {owner.name}; rename or drop it",
                "name",
            )
    yield from _from_two(found, own, scope)
    ids = [
        (owner, feature)
        for owner, feature in scope.features(found)
        if isinstance(feature, Attribute) and feature.modifiers.get("id")
    ]
    if len(ids) > 1 and any(owner is found for owner, _ in ids):
        names = ", ".join(feature.name for _, feature in ids)
        place = next(feature.place for owner, feature in ids if owner is found)
        message = f"class {found.name} has more than one id attribute: {names}; keep one"
        yield Problem(place, message, "id")


def _from_two(
    found: ClassDef, own: dict[str, Attribute | Reference], scope: Scope
) -> Iterator[Problem]:
    """Look for two inherited features of one name; where they meet first, and not below."""
    if len(found.supers) < 2:
        return
    met: dict[str, tuple[ClassDef, Attribute | Reference]] = {}
    for owner, feature in scope.features(found):
        if owner is found or feature.name in own:
            continue
        first, same = met.setdefault(feature.name, (owner, feature))
        # Where one class extends the other, the problem is told there.
        related = owner in scope.ancestors(first) or first in scope.ancestors(owner)
        if same is not feature and not related:
            yield Problem(
                found.place,
                f"class {found.name} inherits a {feature.name!r} from {first.name} and another "
                f"from {owner.name}; rename one of the two",
                "name",
            )


def _bounds(ref: TypeRef) -> Iterator[Problem]:
    lower, upper = ref.bounds.lower, ref.bounds.upper
    if max(lower, upper) > _LARGEST:
        message = f"a bound of this type is over {_LARGEST:,}; use a smaller one, or *"
        yield Problem(ref.place, message, "bounds")
    elif upper == 0:
        message = f"the upper bound of [{ref.bounds}] is 0: there could be no value; use 1 or *"
        yield Problem(ref.place, message, "bounds")
    elif upper not in (UNBOUNDED, lower) and lower > upper:
        message = f"the lower bound {lower} is over the upper bound {upper}; swap them"
        yield Problem(ref.place, message, "bounds")


def _modifiers(feature: Attribute | Reference, banned: frozenset[str]) -> Iterator[Problem]:
    for modifier in feature.modifiers:
        if modifier in banned:
            kind = "a reference" if isinstance(feature, Reference) else "an attribute"
            yield Problem(
                feature.place, f"{modifier!r} cannot be said of {kind}; take it away", "modifier"
            )


def _attribute(found: Attribute, owner: ClassDef, scope: Scope) -> Iterator[Problem]:
    target = scope.target(found.type, owner)
    yield from Use(scope, owner).problems(found.type)
    yield from _bounds(found.type)
    yield from _modifiers(found, _REFERENCE_ONLY)
    if isinstance(scope.erased(target, owner), ClassDef | BuiltInClass | MapEntryDef):
        yield Problem(
            found.type.place,
            f"{found.type.name} is a class, so {found.name!r} is no attribute; "
            "use `ref` for a link or `val` for a part",
            "type",
        )
    elif target is not None and found.default is not None:
        yield from _default(found, target)


def _default(found: Attribute, target: Found) -> Iterator[Problem]:
    value = found.default or ""
    wanted = ""
    if found.type.bounds.is_many:
        wanted = "no default: it has many values"
    elif isinstance(target, EnumDef):
        names = [literal.name for literal in target.literals]
        if value.rpartition(".")[2] not in names:
            wanted = f"one of {', '.join(names[:10])}"
    elif isinstance(target, Primitive):
        wanted = wanted_of(target, value)
    if wanted:
        message = (
            f"the default {shorten(value)!r} of {found.name!r} does not fit; it takes {wanted}"
        )
        yield Problem(found.place, message, "default")


def _reference(found: Reference, owner: ClassDef, scope: Scope) -> Iterator[Problem]:
    target = scope.target(found.type, owner)
    yield from Use(scope, owner).problems(found.type)
    yield from _bounds(found.type)
    yield from _modifiers(found, _ATTRIBUTE_ONLY)
    if found.default is not None:
        yield Problem(
            found.place, f"a reference has no default; drop that of {found.name!r}", "default"
        )
    erased = scope.erased(target, owner)
    if isinstance(target, TypeParameter) and isinstance(erased, Primitive):
        message = (
            f"{target.name} may be any type, so {found.name!r} is no reference; "
            f"write <{target.name} extends …> with a class, or use `attr`"
        )
        yield Problem(found.type.place, message, "type")
    elif erased is not None and not isinstance(erased, ClassDef | BuiltInClass | MapEntryDef):
        yield Problem(
            found.type.place,
            f"{found.type.name} is no class, so {found.name!r} is no reference; use `attr`",
            "type",
        )
    if found.opposite is not None and isinstance(
        target, BuiltInClass | MapEntryDef | TypeParameter
    ):
        message = f"{target.name} has no references, so {found.name!r} can have no opposite there"
        yield Problem(found.place, message, "opposite")
    if found.opposite is not None and isinstance(target, ClassDef):
        yield from _opposite(found, owner, target, scope)


def _opposite(
    found: Reference, owner: ClassDef, target: ClassDef, scope: Scope
) -> Iterator[Problem]:
    name = found.opposite or ""
    other = scope.reference(target, name)
    where = found.place
    if other is None:
        near = [
            feature.name for _, feature in scope.features(target) if isinstance(feature, Reference)
        ]
        has = f"its references are {', '.join(near[:8])}" if near else "it has no references"
        message = (
            f"{target.name} has no reference {name!r} to be the opposite of {found.name!r}; {has}"
        )
        yield Problem(where, message, "opposite")
        return
    if other is found:
        yield Problem(where, f"{found.name!r} is its own opposite; name the other end", "opposite")
        return
    if other.opposite != found.name:
        said = f"says {other.opposite!r}" if other.opposite else "names none"
        message = (
            f"{found.name!r} names {target.name}.{name} as its opposite, which {said}; "
            f"write `{other.type.name}#{found.name} {name}` there"
        )
        yield Problem(where, message, "opposite")
        return
    back = scope.target(other.type, target)
    if isinstance(back, ClassDef) and owner is not back and back not in scope.ancestors(owner):
        message = (
            f"the opposite {target.name}.{name} is of type {back.name}, not {owner.name}; "
            "the two ends must lead to one another"
        )
        yield Problem(where, message, "opposite")
    if found.is_containment and other.is_containment:
        message = f"{found.name!r} and its opposite {name!r} both contain; make one of them `ref`"
        yield Problem(where, message, "containment")
    elif found.is_containment and other.type.bounds.is_many:
        message = (
            f"{name!r}, the opposite of the containment {found.name!r}, has many values; "
            "a part has one container: leave its bounds out"
        )
        yield Problem(other.place, message, "containment")


def _operation(found: Operation, owner: ClassDef, scope: Scope) -> Iterator[Problem]:
    use = Use(scope, owner, found)
    yield from _twice(found.parameters, f"operation {found.name}")
    yield from _twice(found.type_parameters, f"operation {found.name}")
    yield from use.parameters(found.type_parameters)
    refs: list[tuple[TypeRef, Place]] = [(one.type, one.place) for one in found.parameters]
    if found.type is not None:
        refs.append((found.type, found.place))
    for ref, _ in refs:
        yield from use.problems(ref)
        yield from _bounds(ref)
    for ref in found.throws:
        target = use.target(ref)
        yield from use.problems(ref)
        if isinstance(target, Primitive | BuiltInClass):
            message = f"{ref.name} cannot be thrown; declare a class, or a datatype for it"
            yield Problem(ref.place, message, "type")
