"""Dictionaries that stay small."""

from __future__ import annotations

from typing import TypeVar

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


def trim(items: dict[_Key, _Item], most: int) -> None:
    """Forget the oldest of *items* beyond *most*."""
    while len(items) > most:
        del items[next(iter(items))]
