"""Where events landed in the log."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from threadbus.schemas import Event


class Appended(msgspec.Struct, frozen=True):
    """Where an event landed."""

    seq: int
    event: Event
    duplicate: bool = False
    """Whether an event of this id was there already; that one stays as it was."""


class AppendedPair(NamedTuple):
    """Where two events of one thread landed."""

    first: Appended
    second: Appended
    is_alone: bool
    """Whether the super-task is known to have had no other thread then."""
