"""What the registry keeps of the limits of an agent: how much, who said so, when and why."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from threadbus.schemas.bounds import WAY_OUT, Name, Note, Positive, TimeNs

MAX_REPLACED: Final = 16
"""Earlier limits that one record remembers."""


class LimitSet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits as somebody set them; what is absent is as for everybody, or as the settings say."""

    events_per_second: Positive | None = None
    """Events that the agent may append, on average."""
    burst: Positive | None = None
    """Events that it may append at once after a quiet time."""
    mentions_per_minute: Positive | None = None
    """Mentions by the agent in one super-task that another one answers."""
    exchange: Positive | None = None
    """Messages that two agents send one another before anything else has to come of it."""
    set_by: Name
    set_at: TimeNs
    reason: Note = ""


Replaced = Annotated[
    tuple[LimitSet, ...],
    msgspec.Meta(max_length=MAX_REPLACED, extra={WAY_OUT: "leave out the oldest"}),
]


class LimitRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of one agent, or of all that have none of their own, and those before."""

    limits: LimitSet
    replaced: Replaced = ()
    """Those that they took the place of, the newest first."""
