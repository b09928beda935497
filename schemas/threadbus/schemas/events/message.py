"""Messages between the participants of a thread."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from threadbus.schemas.bounds import Labels
from threadbus.schemas.events.base import EventClass, EventData, PartList


class Lane(StrEnum):
    """Where a mention waits for the agent."""

    NORMAL = "normal"
    """Behind what the agent does in this thread."""
    QUICK = "quick"
    """Past it: a question that a busy agent answers at once."""


class MessagePosted(EventData, frozen=True, kw_only=True):
    """Say something; those mentioned are woken."""

    TYPE: ClassVar = "message.posted"
    CLASS: ClassVar = EventClass.MSG

    parts: PartList
    awaited: bool = False
    """The sender follows the log for the reply, so the reply need not mention it."""
    lane: Lane = Lane.NORMAL
    labels: Labels = {}
    """For programs: what a gateway must remember of where it came from."""
