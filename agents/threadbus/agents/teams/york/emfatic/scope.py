"""Which names a text declares, and what a name stands for where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from threadbus.agents.teams.york.emfatic.model import (
    BUILT_IN,
    BUILT_IN_CLASSES,
    Attribute,
    ClassDef,
    Classifier,
    DataTypeDef,
    MapEntryDef,
    Operation,
    Package,
    Primitive,
    Reference,
    TypeParameter,
    TypeRef,
)
from threadbus.schemas import nearest_names

MAX_ANCESTORS: Final = 100
"""Classes that one class may inherit from, directly or not."""

_MAX_NEAR: Final = 500


class BuiltInClass:
    """A class that every text knows; it has no features of its own."""

    def __init__(self, name: str) -> None:
        self.name = name


Found = Classifier | Primitive | BuiltInClass | TypeParameter
Owner = ClassDef | MapEntryDef | DataTypeDef
"""Where a type is used."""


class Scope:
    """Every name of a text."""

    def __init__(self, root: Package) -> None:
        self._paths: dict[str, Classifier] = {}
        self._homes: dict[int, Package] = {}
        self._by_name: dict[str, list[Classifier]] = {}
        self._full: dict[int, str] = {}
        self._own: dict[int, dict[str, Classifier]] = {}
        self._prefixes: dict[int, str] = {}
        self._ancestors: dict[int, list[ClassDef]] = {}
        for path, package in _paths(root, ""):
            self._prefixes[id(package)] = path
            own = self._own[id(package)] = dict[str, Classifier]()
            for classifier in package.classifiers:
                own.setdefault(classifier.name, classifier)
                self._full[id(classifier)] = f"{path}{classifier.name}"
                self._paths.setdefault(f"{path}{classifier.name}", classifier)
                self._homes[id(classifier)] = package
                self._by_name.setdefault(classifier.name, []).append(classifier)
        self._root = root

    def find(self, name: str, package: Package) -> Found | None:
        """Return what *name* stands for in *package*.

        Its own, then from it outwards, then by its full name, then the only one, then known.
        """
        mine = self._own[id(package)].get(name)
        if mine is not None:
            return mine
        prefix = self._prefixes[id(package)]
        while True:
            found = self._paths.get(f"{prefix}{name}")
            if found is not None:
                return found
            if not prefix:
                break
            prefix = f"{prefix[:-1].rpartition('.')[0]}.".lstrip(".")
        found = self._paths.get(name.removeprefix(f"{self._root.name}."))
        if found is not None:
            return found
        named = self._by_name.get(name, ())
        if len(named) == 1:
            return named[0]
        if name in BUILT_IN_CLASSES:
            return BuiltInClass("EObject")
        return BUILT_IN.get(name)

    def near(self, name: str) -> Sequence[str]:
        """Return declared and known names that look like *name*."""
        known = [*(n for n in BUILT_IN if "." not in n), *self._by_name]
        return nearest_names(name, known[:_MAX_NEAR])

    def several(self, name: str) -> list[str]:
        """Return the qualified names that *name* could stand for, where there are more."""
        found = self._by_name.get(name, ())
        return [self._full[id(one)] for one in found] if len(found) > 1 else []

    def home(self, found: Classifier) -> Package:
        """Return the package that declares *found*."""
        return self._homes[id(found)]

    def supers(self, found: ClassDef) -> list[ClassDef]:
        """Return the classes that *found* extends directly, those that exist."""
        supers = (self.target(ref, found) for ref in found.supers)
        return [one for one in supers if isinstance(one, ClassDef)]

    def ancestors(self, found: ClassDef) -> list[ClassDef]:
        """Return every class that *found* inherits from; each once, also where they go round.

        One more than :data:`MAX_ANCESTORS` at most.
        """
        known = self._ancestors.get(id(found))
        if known is not None:
            return known
        seen: dict[int, ClassDef] = {}
        waiting = self.supers(found)
        while waiting and len(seen) <= MAX_ANCESTORS:
            one = waiting.pop(0)
            if id(one) not in seen:
                seen[id(one)] = one
                waiting += self.supers(one)
        self._ancestors[id(found)] = list(seen.values())
        return self._ancestors[id(found)]

    def features(self, found: ClassDef) -> Iterator[tuple[ClassDef, Attribute | Reference]]:
        """Return own and inherited features, each with the class that declares it."""
        for one in [found, *(a for a in self.ancestors(found) if a is not found)]:
            for feature in one.features():
                yield one, feature

    def reference(self, found: ClassDef, name: str) -> Reference | None:
        """Return the reference *name* of a class, its own or an inherited one."""
        for _, feature in self.features(found):
            if isinstance(feature, Reference) and feature.name == name:
                return feature
        return None

    def target(
        self, ref: TypeRef, owner: Owner, operation: Operation | None = None
    ) -> Found | None:
        """Return what a type is that is used in *owner*, there in *operation*.

        Type parameters come before everything else that has their name.
        """
        for generic in (operation, owner):
            if generic is not None and not isinstance(generic, MapEntryDef):
                for parameter in generic.type_parameters:
                    if parameter.name == ref.name:
                        return parameter
        return self.find(ref.name, self.home(owner))

    def erased(
        self, found: Found | None, owner: Owner, operation: Operation | None = None
    ) -> Found | None:
        """Return what *found* is at least: of a type parameter its first limit, or any object."""
        seen: list[TypeParameter] = []
        while isinstance(found, TypeParameter):
            if not found.limits or any(found is one for one in seen):
                return Primitive.JAVA_OBJECT
            seen.append(found)
            found = self.target(found.limits[0], owner, operation)
        return found


def _paths(package: Package, path: str) -> Iterator[tuple[str, Package]]:
    yield path, package
    for inner in package.packages:
        yield from _paths(inner, f"{path}{inner.name}.")
