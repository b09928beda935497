"""A checked package as a class diagram for people, in Mermaid's notation."""

from __future__ import annotations

from collections.abc import Iterator

from threadbus.agents.teams.york.emfatic.model import (
    ClassDef,
    EnumDef,
    Package,
    Reference,
)
from threadbus.agents.teams.york.emfatic.scope import Scope


def to_mermaid(package: Package) -> str:
    """Return the classes, enumerations and links of a package as a Mermaid class diagram.

    Args:
        package: one that :func:`check` found nothing wrong with.
    """
    scope = Scope(package)
    lines = ["classDiagram"]
    for inner in package.walk():
        for classifier in inner.classifiers:
            if isinstance(classifier, ClassDef):
                lines += _class(classifier)
            elif isinstance(classifier, EnumDef):
                lines.append(f"  class {classifier.name} {{")
                lines.append("    <<enumeration>>")
                lines += [f"    {literal.name}" for literal in classifier.literals]
                lines.append("  }")
    drawn: set[int] = set()
    for inner in package.walk():
        for found in inner.classes():
            lines += _links(found, scope, drawn)
    return "\n".join(lines) + "\n"


def _class(found: ClassDef) -> Iterator[str]:
    # Mermaid takes one parameter.
    generic = f"~{found.type_parameters[0].name}~" if len(found.type_parameters) == 1 else ""
    yield f"  class {found.name}{generic} {{"
    if found.is_interface:
        yield "    <<interface>>"
    elif found.is_abstract:
        yield "    <<abstract>>"
    for attribute in found.attributes:
        bounds = f"[{attribute.type.bounds}]" if attribute.type.bounds.is_many else ""
        yield f"    +{attribute.type.name.replace('.', '_')}{bounds} {attribute.name}"
    for operation in found.operations:
        taken = ", ".join(parameter.name for parameter in operation.parameters)
        returned = "" if operation.type is None else f" {operation.type.name.replace('.', '_')}"
        yield f"    +{operation.name}({taken}){returned}"
    yield "  }"


def _links(found: ClassDef, scope: Scope, drawn: set[int]) -> Iterator[str]:
    for parent in scope.supers(found):
        yield f"  {parent.name} <|-- {found.name}"
    for reference in found.references:
        target = scope.target(reference.type, found)
        if not isinstance(target, ClassDef) or id(reference) in drawn:
            continue
        other = scope.reference(target, reference.opposite or "")
        if other is not None and other.is_containment:
            # The other end draws it: a container is drawn from its side.
            continue
        drawn.add(id(reference))
        if other is not None:
            drawn.add(id(other))
        yield _link(found, reference, target, other)


def _link(found: ClassDef, reference: Reference, target: ClassDef, other: Reference | None) -> str:
    plain = "-->" if other is None else "--"
    arrow = "*--" if reference.is_containment else plain
    near = "" if other is None else f'"{other.type.bounds}" '
    return (
        f'  {found.name} {near}{arrow} "{reference.type.bounds}" {target.name} : {reference.name}'
    )
