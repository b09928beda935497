"""Dictionaries that stay small."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


def trim(items: dict[_Key, _Item], most: int) -> list[_Item]:
    """Forget the oldest of *items* beyond *most*, and return them.

    It waits until there is a quarter too many: the oldest key of a dictionary takes the longer to
    find the more were deleted before it.
    """
    if len(items) <= most + most // 4:
        return []
    return [items.pop(key) for key in list(islice(items, len(items) - most))]
