"""Old events brought to today's form: one pure function for each (type, version) that changed.

A function takes the ``data`` of version *n* as a dictionary and returns that of version *n + 1*.
A version without one reads as the next does. Nothing is ever taken out of this table;
docs/schema-evolution.md says when a type needs a new version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""(type, version of the data) → how it becomes the next version."""


def upcast(
    type_name: str,
    version: int,
    data: dict[str, Any],
    table: dict[tuple[str, int], Upcaster] = UPCASTERS,
    *,
    target: int,
) -> dict[str, Any]:
    """Bring *data* of *version* to *target*, one version at a time.

    Args:
        type_name: the type that the data is of.
        version: the version that it has, from 1.
        data: the fields as plain JSON values; the dictionary itself is not changed.
        table: the steps to take.
        target: the version that it is to have.

    Returns:
        A new dictionary.
    """
    current = dict(data)
    for step in range(version, target):
        change = table.get((type_name, step))
        if change is not None:
            current = change(current)
    return current
