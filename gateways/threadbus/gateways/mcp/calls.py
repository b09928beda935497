"""One call of a tool, as the tools see it: whose it is, and the way back to the host.

Nothing of the protocol is in here, so that the tools can be tried without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from threadbus.bus import Appended, Bus, ThreadNotFoundError, ThreadState
from threadbus.gateways.errors import BadArgumentError
from threadbus.gateways.mcp.desk import Desk
from threadbus.gateways.mcp.directory import Directory
from threadbus.gateways.mcp.references import Place, parse_thread, trace_of
from threadbus.gateways.text import clean_json
from threadbus.schemas import (
    AgentName,
    DataPart,
    Event,
    EventId,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    TaskId,
    TextPart,
    clean_text,
    derive_event_id,
    parse_event_id,
)

Progress: TypeAlias = Callable[[str, float | None], Awaitable[None]]
"""Tells the host how far a call is: a note, and a share from 0 to 1 where it is known."""

Elicit: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Asks the person behind the host; None where there is no answer."""

_KEY: Final = "mcp:"
_LOADED_BYTES: Final = 200_000
"""Bytes of a text in the object store that is shown all the same."""


class InputNeeded(Exception):  # noqa: N818 - not an error: the call goes on once it is answered
    """The host is to ask its person, and to make the call again with the answer."""

    def __init__(self, question: str, state: str) -> None:
        super().__init__(question, state)
        self.question = question
        self.state = state
        """What the call needs to go on; comes back with the answer."""


class Answer(msgspec.Struct, frozen=True):
    """What came back for :class:`InputNeeded`."""

    state: str
    text: str | None
    """None where the person would not say."""


class Call:
    """One call."""

    def __init__(
        self,
        desk: Desk,
        directory: Directory,
        progress: Progress,
        *,
        wants_progress: bool = False,
        asks: Literal["live", "again", "never"] = "never",
        elicit: Elicit | None = None,
        answer: Answer | None = None,
        traceparent: str = "",
    ) -> None:
        """Describe a call.

        Args:
            desk: whose it is.
            directory: who else there is.
            progress: the way back while it runs.
            wants_progress: whether the host listens to that.
            asks: how the person behind the host can be asked: while the call runs, by having the
                call made again, or not at all.
            elicit: asks, where that is possible while the call runs.
            answer: what came back, where the call was made again.
            traceparent: the trace that the host is in.
        """
        self.desk = desk
        self.directory = directory
        self.progress = progress
        self.wants_progress = wants_progress
        self.asks = asks
        self.elicit = elicit
        self.answer = answer
        self.traceparent = traceparent
        self.attached: Sequence[Part] = ()
        """Files to hand over beside the result, as they are."""
        self.at_delivery: Callable[[], None] | None = None
        """Called once the result is on its way to a host that is still there."""

    @property
    def me(self) -> AgentName:
        """Who calls."""
        return self.desk.name

    @property
    def bus(self) -> Bus:
        """Speaks as the caller."""
        return self.desk.bus

    @property
    def trace_labels(self) -> Mapping[str, str]:
        """The trace that the host is in, as labels of what it says; none where it is in none."""
        known = trace_of(self.traceparent) is not None
        return {"traceparent": self.traceparent} if known else {}

    def place(self, thread_id: str) -> Place:
        """Read a thread's reference; its super-task is followed from now on.

        Raises:
            BadArgumentError: it is none.
        """
        try:
            place = parse_thread(thread_id)
        except ValueError as error:
            raise BadArgumentError(
                "thread_id", str(error), "use it exactly as a result gave it (list_threads)"
            ) from error
        self.desk.closings.soon(place.task)
        return place

    async def visible(self, place: Place) -> ThreadState:
        """Return a thread that the caller is in, or was in.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none, or it is not the caller's.
        """
        state = await self.bus.threads.state(*place)
        if not is_inside(state, self.me):
            known = await self.bus.threads.list(place.task)
            mine = [one.thread for one in known if is_inside(one, self.me)]
            raise ThreadNotFoundError(place.task, place.thread, mine)
        return state

    async def loaded(self, event: Event) -> Event:
        """Return an event with its long texts, and long JSON, beside what refers to them."""
        parts: Parts = getattr(event.data, "parts", ())
        more = [
            await self.bus.artifacts.load(part)
            for part in parts
            if isinstance(part, ReferencePart) and part.of != "file" and part.size <= _LOADED_BYTES
        ]
        if not more:
            return event
        data = msgspec.structs.replace(event.data, parts=(*parts, *more))
        return msgspec.structs.replace(event, data=data)

    async def find(self, place: Place, message_id: str) -> Recorded:
        """Return an event of a thread.

        Raises:
            BadArgumentError: there is none of this id.
        """
        wanted = parse_event_id(message_id)
        async for entry in self.bus.read(*place):
            if isinstance(entry, Recorded) and entry.event.id == wanted:
                return entry
        raise BadArgumentError(
            "message_id",
            f"{wanted} is not in thread {place.task}/{place.thread}",
            "use the message_id and the thread_id of the same message",
        )

    async def said_before(self, place: Place, event_id: EventId | None) -> Appended | None:
        """Return what a call with the same key has appended; the log forgets ids in time."""
        if event_id is None:
            return None
        async for entry in self.bus.read(*place):
            if isinstance(entry, Recorded) and entry.event.id == event_id:
                return Appended(entry.seq, entry.event, duplicate=True)
        return None

    def key_id(self, task: TaskId, key: str | UnsetType) -> EventId | None:
        """Return the id of the event for an idempotency key; None without one."""
        if not isinstance(key, str):
            return None
        return derive_event_id(EventId(task), self.me, f"{_KEY}{clean_text(key)}")


def is_inside(state: ThreadState, name: AgentName) -> bool:
    """Whether an agent takes part in a thread, or did."""
    return name in state.participants or name in state.removed


def parts_of(content: str, data: Any = UNSET) -> Sequence[Part]:
    """Return text, and a JSON value beside it, as parts that can travel."""
    parts: list[Part] = [TextPart(clean_text(content))] if content else []
    if data is not UNSET:
        parts.append(DataPart(clean_json(data, what="data")))
    return parts
