"""The rules of types where they are used: that they exist, and that their arguments fit."""

from __future__ import annotations

from collections.abc import Iterator

from threadbus.agents.teams.york.emfatic.model import (
    JAVA_PRIMITIVES,
    Argument,
    ClassDef,
    DataTypeDef,
    EnumDef,
    MapEntryDef,
    Operation,
    Primitive,
    Problem,
    TypeParameter,
    TypeRef,
)
from threadbus.agents.teams.york.emfatic.scope import BuiltInClass, Found, Owner, Scope
from threadbus.schemas import shorten


class Use:
    """A place in a text where types are used: a class, and one of its operations perhaps."""

    def __init__(self, scope: Scope, owner: Owner, operation: Operation | None = None) -> None:
        self._scope = scope
        self._owner = owner
        self._operation = operation

    def target(self, ref: TypeRef) -> Found | None:
        """Return what a type is here."""
        return self._scope.target(ref, self._owner, self._operation)

    def problems(self, ref: TypeRef) -> Iterator[Problem]:
        """Say what is wrong with a type and its arguments."""
        target = self.target(ref)
        if target is None:
            yield from self._unknown(ref)
        elif ref.arguments:
            yield from self._arguments(ref, target)

    def parameters(self, found: tuple[TypeParameter, ...]) -> Iterator[Problem]:
        """Say what is wrong with the limits of type parameters that are declared here."""
        for parameter in found:
            for limit in parameter.limits:
                yield from self.problems(limit)
                target = self.target(limit)
                if isinstance(target, EnumDef | Primitive):
                    yield Problem(
                        limit.place,
                        f"{limit.name} is no class, so {parameter.name!r} cannot extend it; "
                        "name a class",
                        "generic",
                    )
            if self._goes_round(parameter):
                message = f"type parameter {parameter.name!r} extends itself; break the circle"
                yield Problem(parameter.place, message, "generic")

    def supers(self, ref: TypeRef) -> Iterator[Problem]:
        """Say what is wrong with the arguments of a class that is extended."""
        yield from self.problems(ref)
        for argument in ref.arguments:
            if argument.type is None or argument.wildcard:
                message = f"what a class extends takes no wildcard; write {ref.name} of one type"
                yield Problem(argument.place, message, "generic")

    def _unknown(self, ref: TypeRef) -> Iterator[Problem]:
        several = self._scope.several(ref.name)
        if several:
            message = f"{ref.name!r} could be {' or '.join(several[:4])}; write which"
            yield Problem(ref.place, message, "type")
            return
        near = self._scope.near(ref.name)
        meant = f"; did you mean {near[0]}?" if near else "; declare it, or name one that exists"
        yield Problem(ref.place, f"there is no type {shorten(ref.name)!r}{meant}", "type")

    def _arguments(self, ref: TypeRef, target: Found) -> Iterator[Problem]:
        wanted = target.type_parameters if isinstance(target, ClassDef | DataTypeDef) else ()
        given = ref.arguments
        if not wanted:
            message = f"{ref.name} takes no type arguments; leave <…> out"
            yield Problem(ref.place, message, "generic")
            return
        if len(wanted) != len(given):
            form = f"{ref.name}<{', '.join(one.name for one in wanted)}>"
            count = f"{len(wanted)} type argument{'s' * (len(wanted) > 1)}"
            message = f"{ref.name} takes {count}, not {len(given)}; write {form}"
            yield Problem(ref.place, message, "generic")
        for argument in given:
            if argument.type is not None:
                yield from self.problems(argument.type)
        if len(wanted) == len(given) and isinstance(target, ClassDef | DataTypeDef):
            for argument, parameter in zip(given, wanted, strict=True):
                yield from self._fitting(argument, parameter, target)

    def _fitting(
        self, argument: Argument, parameter: TypeParameter, declared_in: ClassDef | DataTypeDef
    ) -> Iterator[Problem]:
        ref = argument.type
        found = None if ref is None else self.target(ref)
        if ref is None or found is None:
            return
        if isinstance(found, Primitive) and found in JAVA_PRIMITIVES:
            message = (
                f"{ref.name} is a primitive, which no type argument may be; "
                f"use {JAVA_PRIMITIVES[found]}"
            )
            yield Problem(ref.place, message, "generic")
            return
        for limit in parameter.limits:
            wanted = self._scope.target(limit, declared_in)
            fits = self._fits(found, wanted)
            if argument.wildcard:
                # What it stands for may lie between the two, or extend both.
                fits = fits or _is_interface(found) or _is_interface(wanted)
                fits = fits or self._fits(wanted, found)
            if not fits:
                yield Problem(
                    ref.place,
                    f"{ref.name} does not extend {limit.name}, as {parameter.name!r} of "
                    f"{declared_in.name} has to; name one that does",
                    "generic",
                )

    def _fits(self, found: Found | None, wanted: Found | None) -> bool:
        """Tell whether *found* extends *wanted*; yes where that cannot be told."""
        if isinstance(found, TypeParameter):
            if found is wanted:
                return True
            return any(self._fits(limit, wanted) for limit in self._limits(found))
        match wanted:
            case ClassDef():
                return isinstance(found, ClassDef) and (
                    found is wanted or any(one is wanted for one in self._scope.ancestors(found))
                )
            case BuiltInClass():
                return isinstance(found, ClassDef | BuiltInClass | MapEntryDef)
            case DataTypeDef():
                return found is wanted
            case _:
                return True

    def _limits(self, parameter: TypeParameter) -> list[Found | None]:
        """Return what a type parameter extends, also by way of others; any object for nothing."""
        seen: list[TypeParameter] = [parameter]
        found: list[Found | None] = []
        for one in seen:  # which grows
            for limit in one.limits:
                target = self.target(limit)
                if not isinstance(target, TypeParameter):
                    found.append(target)
                elif all(target is not known for known in seen):
                    seen.append(target)
        return found or [Primitive.JAVA_OBJECT]

    def _goes_round(self, parameter: TypeParameter) -> bool:
        seen: list[TypeParameter] = []
        waiting: list[TypeParameter] = [parameter]
        while waiting:
            for limit in waiting.pop().limits:
                target = self.target(limit)
                if target is parameter:
                    return True
                if isinstance(target, TypeParameter) and all(target is not one for one in seen):
                    seen.append(target)
                    waiting.append(target)
        return False


def _is_interface(found: Found | None) -> bool:
    return isinstance(found, ClassDef) and found.is_interface
