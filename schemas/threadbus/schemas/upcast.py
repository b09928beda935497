"""Old events brought to today's form: one pure function for each (type, version) that changed.

A function takes the ``data`` of version *n* as a dictionary and returns that of version *n + 1*.
Adding a field with a default needs none. Nothing is ever taken out of this table.
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

    Returns:
        A new dictionary; the argument is left as it was.
    """
    current = dict(data)
    for step in range(version, target):
        change = table.get((type_name, step))
        if change is not None:
            current = change(current)
    return current
