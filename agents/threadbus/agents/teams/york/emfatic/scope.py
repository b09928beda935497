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
    MapEntryDef,
    Package,
    Primitive,
    Reference,
    TypeRef,
)
from threadbus.schemas import nearest_names

_MAX_ANCESTORS: Final = 1_000


class BuiltInClass:
    """A class that every text knows; it has no features of its own."""

    def __init__(self, name: str) -> None:
        self.name = name


Found = Classifier | Primitive | BuiltInClass


class Scope:
    """Every name of a text."""

    def __init__(self, root: Package) -> None:
        self._paths: dict[str, Classifier] = {}
        self._homes: dict[int, Package] = {}
        self._by_name: dict[str, list[Classifier]] = {}
        for path, package in _paths(root, ""):
            for classifier in package.classifiers:
                self._paths.setdefault(f"{path}{classifier.name}", classifier)
                self._homes[id(classifier)] = package
                self._by_name.setdefault(classifier.name, []).append(classifier)
        self._root = root

    def find(self, name: str, package: Package) -> Found | None:
        """Return what *name* stands for in *package*: its own, then a qualified one, then known."""
        for classifier in package.classifiers:
            if classifier.name == name:
                return classifier
        found = self._paths.get(name) or self._paths.get(name.removeprefix(f"{self._root.name}."))
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
        return nearest_names(name, [*self._by_name, *(n for n in BUILT_IN if "." not in n)])

    def home(self, found: Classifier) -> Package:
        """Return the package that declares *found*."""
        return self._homes[id(found)]

    def supers(self, found: ClassDef) -> list[ClassDef]:
        """Return the classes that *found* extends directly, those that exist."""
        package = self.home(found)
        supers = (self.find(ref.name, package) for ref in found.supers)
        return [one for one in supers if isinstance(one, ClassDef)]

    def ancestors(self, found: ClassDef) -> list[ClassDef]:
        """Return every class that *found* inherits from; each once, also where they go round."""
        seen: dict[int, ClassDef] = {}
        waiting = self.supers(found)
        while waiting and len(seen) < _MAX_ANCESTORS:
            one = waiting.pop(0)
            if id(one) not in seen:
                seen[id(one)] = one
                waiting += self.supers(one)
        return list(seen.values())

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

    def target(self, ref: TypeRef, owner: ClassDef | MapEntryDef) -> Found | None:
        """Return what the type of a feature of *owner* is."""
        return self.find(ref.name, self.home(owner))


def _paths(package: Package, path: str) -> Iterator[tuple[str, Package]]:
    yield path, package
    for inner in package.packages:
        yield from _paths(inner, f"{path}{inner.name}.")
