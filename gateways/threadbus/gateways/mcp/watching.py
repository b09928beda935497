"""What happens in a super-task, told to the host that waits for its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final, cast

from threadbus.bus import Bus, InputRequest, TaskNotFoundError, TaskState
from threadbus.gateways.mcp.calls import Progress
from threadbus.gateways.mcp.translate import is_shown, says
from threadbus.schemas import (
    AgentName,
    AssignmentProgressed,
    Event,
    EventId,
    HandlingStarted,
    MentionReceived,
    Recorded,
    TaskId,
    ToolCalled,
    clean_text,
)

_EVERY_S: Final = 0.25
_MAX_NOTE_CHARS: Final = 500
_MAX_DELTA_CHARS: Final = 4000


class Watcher:
    """Tells progress at most four times a second; what comes faster is put together."""

    def __init__(self, bus: Bus, task: TaskId, progress: Progress) -> None:
        self._bus = bus
        self._task = task
        self._progress = progress
        self._deltas: dict[AgentName, list[str]] = {}
        self._last_delta: AgentName | None = None
        self._notes: list[tuple[str, float | None]] = []
        self._something = asyncio.Event()
        self.listening = asyncio.Event()
        """Set once nothing that is said live is missed any more."""

    async def tell(self) -> None:
        """Tell what happens until cancelled: events, notes of progress, and text as it is made."""
        async with self._bus.watching_live(self._task, self._on_live):
            self.listening.set()
            while True:
                await self._something.wait()
                self._something.clear()
                notes, self._notes = self._notes[-8:], []
                deltas, self._deltas = self._deltas, {}
                for note, fraction in notes:
                    await self._progress(note, fraction)
                for sender, pieces in deltas.items():
                    await self._progress(f"{sender}: {_end(''.join(pieces))}", None)
                await asyncio.sleep(_EVERY_S)

    def note(self, event: Event) -> None:
        """Take in an event; what tells nothing of the progress is passed over."""
        fraction = None
        match event.data:
            case HandlingStarted():
                words = "works on it"
            case MentionReceived() as data:
                words = f"is busy{f' with {data.busy_with}' if data.busy_with else ''}"
            case ToolCalled() as data:
                words = f"uses {data.tool}"
            case AssignmentProgressed() as data:
                words, fraction = data.note, data.fraction
            case _ if is_shown(event):
                words = says(event)
            case _:
                return
        short = words if len(words) <= _MAX_NOTE_CHARS else f"{words[:_MAX_NOTE_CHARS]}…"
        self._notes.append((f"{event.sender}: {short}", fraction))
        self._something.set()

    def _on_live(self, sender: AgentName, value: Any) -> None:
        if not isinstance(value, dict):
            return
        said = cast("dict[str, Any]", value)
        match said:
            case {"kind": "delta", "text": str(text)}:
                self._deltas.setdefault(sender, []).append(clean_text(text))
            case {"kind": "progress", "note": str(text)}:
                fraction = said.get("fraction")
                share = float(fraction) if isinstance(fraction, int | float) else None
                self._notes.append((f"{sender}: {clean_text(text, _MAX_NOTE_CHARS)}", share))
            case _:
                return
        self._something.set()


def _end(text: str) -> str:
    return text if len(text) <= _MAX_DELTA_CHARS else f"…{text[-_MAX_DELTA_CHARS:]}"


async def next_request(
    bus: Bus, task: TaskId, answered: set[EventId], watcher: Watcher | None
) -> InputRequest:
    """Wait until the super-task asks its opener for something; never ends by itself otherwise.

    Args:
        bus: where it is.
        task: the super-task; it may be just being opened, and is waited for.
        answered: requests that are being answered already.
        watcher: told of every event.
    """
    state = TaskState(task=task)
    # A question that was answered before this call is read once more, and so is its answer.
    known = (await _opened(bus, task)).last_seq
    async with aclosing(bus.follow(task)) as entries:
        async for entry in entries:
            if not isinstance(entry, Recorded):
                continue
            state.apply(entry)
            if watcher is not None and entry.event.sender != bus.name:
                watcher.note(entry.event)
            if entry.seq < known:
                continue
            for request_id, request in state.requests.items():
                if request_id not in answered and request.event.sender != bus.name:
                    return request
    raise AssertionError("a log is followed without an end")


async def _opened(bus: Bus, task: TaskId) -> TaskState:
    """Return where a super-task stands, once it is there: a slow server takes a while."""
    while True:
        try:
            return await bus.tasks.state(task)
        except TaskNotFoundError:
            await asyncio.sleep(_EVERY_S)
