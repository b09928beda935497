"""An imported run in the making: what another system's log says, as events of a super-task."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from threadbus.replay.errors import ImportFileError
from threadbus.replay.importing.shape import MAX_TEXT_CHARS
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    EventId,
    HandlingEnded,
    InvalidIdError,
    Part,
    PlanRevised,
    Recorded,
    SchemaError,
    TaskClosed,
    TaskId,
    TaskOpened,
    TextPart,
    canonical_agent_name,
    clean_text,
    derive_event_id,
    encode_event,
    make_event,
    parse_task_id,
)

START_NS: Final = 946_684_800 * 1_000_000_000
"""2000-01-01: where the times of a log without times begin."""

STEP_NS: Final = 1_000_000_000
"""Nanoseconds between two messages of such a log."""

MAX_EVENTS: Final = 1_000_000
"""Events of one run."""

MAX_AGENTS: Final = 255
"""Agents of one run: what one event can let into a thread, and the opener."""

_IMPORTER: Final = AgentName("import")


class ImportedRun(msgspec.Struct, kw_only=True):
    """One run of another system's log."""

    name: str
    """What the other system calls it."""
    task: TaskId
    entries: list[Recorded]
    """As a log: sequences from 1, times that rise."""
    steps: list[int]
    """The sequence that stands for each message of the other log, in its order."""
    skipped: int = 0
    """Entries of the other log that say nothing a reader could use."""


class _Said(msgspec.Struct, gc=False):
    """One event in the making; numbers stand for ids until these are known."""

    sender: AgentName
    data: AnyData
    cause: int = 0
    at: int = 0
    mentions: tuple[AgentName, ...] = ()
    replaces: int = 0
    answer: int = 0


class RunBuilder:
    """Makes events in order. Names become canonical ones, times rise, ids follow from content."""

    def __init__(self, source: str, name: str, where: str) -> None:
        """Begin.

        Args:
            source: the format.
            name: what the run is called there.
            where: the file, for errors.
        """
        self._source = source
        self._name = name
        self._where = where
        self._said: list[_Said] = []
        self._names: dict[str, AgentName] = {}
        self._question: tuple[str, str, AgentName, tuple[AgentName, ...]] | None = None
        self._steps: list[int] = []
        self._now = 0
        self.has_times = False
        """Whether the log has times of its own."""
        self.skipped = 0
        self.trace_id = ""
        """The id of the trace that the run is, where it is one."""

    def agent(self, name: str) -> AgentName:
        """Return the canonical name of an agent; a plain one where only case and spaces differ.

        Raises:
            ImportFileError: there are too many.
        """
        found = self._names.get(name)
        if found is not None:
            return found
        plain = name.strip().lower().replace(" ", "_")
        made = canonical_agent_name(plain or "unknown")
        taken = set(self._names.values())
        number = 2
        while made in taken:
            made, number = canonical_agent_name(f"{name} ({number})"), number + 1
        if len(self._names) >= MAX_AGENTS:
            raise ImportFileError(
                self._where, f"more than {MAX_AGENTS} agents in one run", "split the run"
            )
        self._names[name] = made
        return made

    def open(self, title: str, question: str, opener: str, asked: Sequence[str] = ()) -> None:
        """Say how the run begins; call it once, at any time before the end."""
        line = clean_text(title.strip().split("\n", 1)[0], 400) or "(no title)"
        names = tuple(dict.fromkeys(self.agent(name) for name in asked))[:16]
        self._question = line, question, self.agent(opener), names

    def step(self) -> None:
        """Note that the next event stands for the next message of the other log."""
        self._steps.append(self.number() + 1)

    def restart_step(self) -> None:
        """Note that the next event, and not the one before, stands for the current message."""
        self._steps[-1] = self.number() + 1

    def add(
        self,
        sender: str,
        data: AnyData,
        *,
        cause: int = 0,
        to: Sequence[str] = (),
        at: int = 0,
        replaces: int = 0,
        answer: int = 0,
    ) -> int:
        """Add an event.

        Args:
            sender: who says it.
            data: what it says.
            cause: the number of the event that it answers; 1 is the opening, 0 is none.
            to: whom it wakes.
            at: when, nanoseconds since the epoch; a moment after the one before when 0.
            replaces: the number of the plan that this one replaces.
            answer: the number of the answer that it accepts.

        Returns:
            Its number, from 2.

        Raises:
            ImportFileError: there are too many.
        """
        if len(self._said) >= MAX_EVENTS:
            raise ImportFileError(
                self._where, f"more than {MAX_EVENTS:,} events in one run", "split the run"
            )
        self.has_times = self.has_times or at > 0
        mentions = tuple(dict.fromkeys(self.agent(name) for name in to))[:16]
        self._said.append(_Said(self.agent(sender), data, cause, at, mentions, replaces, answer))
        return self.number()

    def end_turn(self, agent: str, mention: int) -> None:
        """Note that an agent has done what it was woken for: then it is not missed.

        It takes no time, and stands for no message.
        """
        self.add(agent, HandlingEnded(received_at=0, started_at=0, ended_at=0), cause=mention)

    def number(self) -> int:
        """Return the number of the last event."""
        return len(self._said) + 1

    def build(self) -> ImportedRun:
        """Return the run.

        Raises:
            ImportFileError: something in it no event can carry.
        """
        title, question, opener, asked = self._question or (
            self._name or "(no title)",
            "",
            self.agent("user"),
            (),
        )
        task = self._task()
        opening = TaskOpened(
            title=title,
            participants=tuple(sorted(name for name in self._names.values() if name != opener)),
            parts=(TextPart(question),) if question else (),
            labels={
                "import.format": self._source,
                "import.run": clean_text(self._name, 256),
                "import.times": "recorded" if self.has_times else "synthetic",
            },
        )
        first_at = min([one.at for one in self._said if one.at], default=START_NS)
        ids: list[EventId] = []
        entries: list[Recorded] = []
        said = [_Said(opener, opening, 0, first_at, asked), *self._said]
        for seq, one in enumerate(said, 1):
            own = derive_event_id(EventId(task), _IMPORTER, seq)
            ids.append(own)
            data = one.data
            is_end = isinstance(data, HandlingEnded) and not data.ended_at
            self._now = self._now if is_end else self._time(one.at)
            if isinstance(data, HandlingEnded) and is_end:
                begun = entries[max(one.cause - 1, 0)].stored_at
                data = HandlingEnded(received_at=begun, started_at=begun, ended_at=self._now)
            if isinstance(data, PlanRevised) and 0 < one.replaces < seq:
                data = msgspec.structs.replace(data, replaces=ids[one.replaces - 1])
            if isinstance(data, TaskClosed) and 0 < one.answer < seq:
                data = msgspec.structs.replace(data, answer=ids[one.answer - 1])
            event = make_event(
                data,
                task=task,
                thread=MAIN_THREAD,
                sender=one.sender,
                cause=ids[one.cause - 1] if 0 < one.cause < seq else None,
                mentions=one.mentions,
                event_id=own,
                at=self._now,
            )
            try:
                body = encode_event(event)
            except SchemaError as error:
                problem = f"run {self._name!r}, event {seq:,}: {error}"
                raise ImportFileError(self._where, clean_text(problem, 600)) from error
            entries.append(Recorded(seq, event, self._now, body))
        return ImportedRun(
            name=self._name, task=task, entries=entries, steps=self._steps, skipped=self.skipped
        )

    def _time(self, at: int) -> int:
        """Return a time that is never before the one of the entry before."""
        if not self.has_times:
            return max(self._now + STEP_NS, START_NS) if self._now else START_NS
        return max(at or self._now, self._now)

    def _task(self) -> TaskId:
        if self.trace_id:
            with suppress(InvalidIdError):
                return parse_task_id(self.trace_id)
        digest = hashlib.sha256(f"{self._source}\n{self._name}\n".encode())
        for one in self._said:
            digest.update(f"{one.sender}\n".encode() + msgspec.json.encode(one.data))
        millis = min([one.at for one in self._said if one.at], default=START_NS) // 1_000_000
        seed = EventId(f"{millis & (1 << 48) - 1:012x}".ljust(32, "0"))
        return TaskId(derive_event_id(seed, _IMPORTER, digest.hexdigest()))


def said(content: str) -> tuple[Part, ...]:
    """Return text as the parts of a message; cut where it is over the bound."""
    return (TextPart(clean_text(content, MAX_TEXT_CHARS)),)
