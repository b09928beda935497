"""Events of a super-task; all but the artifact are control events of its main thread."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from threadbus.schemas.bounds import (
    WAY_OUT,
    Count,
    HexId,
    Labels,
    Name,
    Note,
    Notes,
    Participants,
    Positive,
    TimeNs,
    Title,
)
from threadbus.schemas.errors import MalformedEventError
from threadbus.schemas.events.base import EventClass, EventData, PartList
from threadbus.schemas.limits import MAX_WAKES
from threadbus.schemas.parts import Part


class TaskStatus(StrEnum):
    """Where a super-task stands."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED}


def _statuses(*, final: bool) -> dict[str, object]:
    """Say in the JSON Schema what ``__post_init__`` checks."""
    return {"enum": [status.value for status in TaskStatus if status.is_final is final]}


OpenStatus = Annotated[TaskStatus, msgspec.Meta(extra_json_schema=_statuses(final=False))]
FinalStatus = Annotated[TaskStatus, msgspec.Meta(extra_json_schema=_statuses(final=True))]


class ForkedFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The super-task, and the point in its log, that a fork begins with a copy of."""

    task: HexId
    seq: Count
    """The last sequence that is copied."""
    events: Count = 0
    """How many copies the fork begins with, this event among them."""
    edit: Note = ""
    """What the last thing that was asked says instead."""


class TaskOpened(EventData, frozen=True, kw_only=True):
    """Open a super-task and ask its question, in one append.

    The sender is a participant; those mentioned are asked.
    """

    TYPE: ClassVar = "task.opened"
    CLASS: ClassVar = EventClass.CTL

    title: Title
    participants: Participants = ()
    parts: PartList = ()
    awaited: bool = True
    """The opener follows the log for the answer, so the answer need not mention it."""
    token_budget: Positive | None = None
    """Model tokens that the whole task may use."""
    deadline_at: TimeNs | None = None
    labels: Labels = {}
    forked_from: ForkedFrom | None = None
    """What this is a fork of; it is whole once ``task.forked`` has followed."""


class TaskStatusChanged(EventData, frozen=True, kw_only=True):
    """Say where the task stands; final states are reached by closing it."""

    TYPE: ClassVar = "task.status_changed"
    CLASS: ClassVar = EventClass.CTL

    status: OpenStatus
    note: Note = ""

    def __post_init__(self) -> None:
        """Refuse a final status.

        Raises:
            MalformedEventError: it is completed, failed or cancelled.
        """
        if self.status.is_final:
            raise MalformedEventError(
                f"{self.TYPE}: status {self.status.value!r} is final; close the task to reach it"
            )


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and the copy of a mention that it had not settled yet."""

    agent: Name
    event: HexId


Wakes = Annotated[
    tuple[Wake, ...],
    msgspec.Meta(max_length=MAX_WAKES, extra={WAY_OUT: "fork where fewer mentions are open"}),
]


class TaskForked(EventData, frozen=True, kw_only=True):
    """End the copied beginning of a fork: from here on it lives.

    Those mentioned handle the copies named for them, as if these had just come.
    """

    TYPE: ClassVar = "task.forked"
    CLASS: ClassVar = EventClass.CTL

    origin: ForkedFrom
    status: OpenStatus = TaskStatus.WORKING
    """Where the task stood at that point."""
    wakes: Wakes = ()
    notes: Notes = ()
    """What a copy of the log could not take along."""

    def __post_init__(self) -> None:
        """Refuse a final status.

        Raises:
            MalformedEventError: it is completed, failed or cancelled.
        """
        if self.status.is_final:
            raise MalformedEventError(
                f"{self.TYPE}: status {self.status.value!r} is final; what has ended is not forked"
            )


class InputRequested(EventData, frozen=True, kw_only=True):
    """Ask whoever opened the task for something that only they know."""

    TYPE: ClassVar = "task.input_requested"
    CLASS: ClassVar = EventClass.CTL

    parts: PartList
    awaited: bool = True
    auth: bool = False
    """What is asked for is that somebody signs in or hands over a credential, beside the bus."""


class InputGiven(EventData, frozen=True, kw_only=True):
    """Answer one request for input; a second answer to it is refused."""

    TYPE: ClassVar = "task.input_given"
    CLASS: ClassVar = EventClass.CTL

    request: HexId
    parts: PartList
    labels: Labels = {}
    """For programs: what a gateway must remember of where it came from."""


class ArtifactAdded(EventData, frozen=True, kw_only=True):
    """Add something that outlives the conversation: a file, a table, a report."""

    TYPE: ClassVar = "task.artifact_added"
    CLASS: ClassVar = EventClass.WORK

    name: Title
    part: Part
    description: Note = ""
    chunk_of: HexId | None = None
    """The event with the first chunk, where this is a later one of the same artifact."""
    more: bool = False
    """Whether a further chunk of the same artifact follows."""


class TaskClosed(EventData, frozen=True, kw_only=True):
    """End the super-task and its main thread; the first one wins."""

    TYPE: ClassVar = "task.closed"
    CLASS: ClassVar = EventClass.CTL

    outcome: FinalStatus
    summary: Note = ""
    answer: HexId | None = None
    """The ``answer.submitted`` event that this accepts."""
    tokens_used: Count | None = None
    rejected: bool = False
    """Of a failure: nobody took the task on."""

    def __post_init__(self) -> None:
        """Refuse an outcome that is not final.

        Raises:
            MalformedEventError: it is working, input_required or paused.
        """
        if not self.outcome.is_final:
            raise MalformedEventError(
                f"{self.TYPE}: outcome {self.outcome.value!r} is not final; "
                "it is completed, failed or cancelled"
            )
