"""The steps of a run as they are compared: who, what, in answer to whom, and the words of it.

Ids and times differ between any two runs, so they do not count. Numbers do: they are often the
very thing that differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from threadbus.replay.prices import Prices
from threadbus.replay.source import LogItem
from threadbus.replay.story import AnyStep, Timeline, ToolStep, Turn
from threadbus.replay.timeline import TimelineFold
from threadbus.replay.words import thread_name, words_of
from threadbus.schemas import (
    AgentName,
    Event,
    EventId,
    Part,
    Recorded,
    ReferencePart,
    TaskOpened,
    ThreadId,
    ThreadOpened,
    ToolReturned,
    text_of,
)

MAX_COMPARED_CHARS: Final = 100_000
"""Characters of one step's words that are compared."""

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{16,64}")
_SPACE: Final = re.compile(r"\s+")


class Place(NamedTuple):
    """Where a step stands in the story, whatever its words are."""

    agent: AgentName
    kind: str
    thread: str
    """The title of the thread; ids differ."""
    after: str
    """Who said what it answers, and of which type that was."""
    about: str
    to: tuple[AgentName, ...]


class ComparedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one run."""

    seq: int
    id: EventId
    at: int
    place: Place
    words: bytes
    """The hash of what it says, made comparable."""

    @property
    def key(self) -> tuple[Place, bytes]:
        """What is equal for equal steps."""
        return self.place, self.words


class Run(NamedTuple):
    """A run, folded and taken apart."""

    timeline: Timeline
    steps: list[ComparedStep]
    shown: dict[EventId, AnyStep]


def comparable(text: str) -> str:
    """Return *text* without what differs between any two runs: ids, and how spaces fall."""
    return _SPACE.sub(" ", _ID.sub("#", text[:MAX_COMPARED_CHARS].casefold())).strip()


def steps_of(entries: Iterable[LogItem], prices: Prices | None = None) -> Run:
    """Fold a run and return its steps in the order of the log, each once."""
    fold = TimelineFold(prices=prices)
    causes: dict[EventId, Event] = {}
    taken: list[tuple[AnyStep, Event]] = []
    for item in entries:
        entry = fold.apply(item)
        if entry is None or isinstance(entry, Turn) or not isinstance(item, Recorded):
            continue
        event = item.event
        causes[event.id] = event
        if isinstance(entry, ToolStep):
            # A call and its return are two steps: a run may be cut between them.
            entry = _half(entry, item)
        taken.append((entry, event))
    timeline = fold.timeline
    steps = [
        ComparedStep(
            seq=step.seq,
            id=step.id,
            at=step.at,
            place=_place(step, event, causes, timeline),
            words=_words(step, event, timeline),
        )
        for step, event in taken
    ]
    return Run(timeline, steps, {step.id: step for step, _ in taken})


def _half(step: ToolStep, item: Recorded) -> ToolStep:
    """Return the call without its result, or the result as a step of its own."""
    event = item.event
    if isinstance(event.data, ToolReturned):
        origin = event.copy_of
        at = item.stored_at if origin is None else origin.at
        return msgspec.structs.replace(step, id=event.id, seq=item.seq, at=at or event.at)
    return msgspec.structs.replace(step, returned=True, duration_ns=0, text="", chars=0)


def _place(step: AnyStep, event: Event, causes: dict[EventId, Event], timeline: Timeline) -> Place:
    cause = None if step.cause is None else causes.get(step.cause)
    return Place(
        agent=step.agent,
        kind=event.type,
        thread=_thread(step.thread, timeline),
        after="" if cause is None else f"{cause.sender}:{cause.type}",
        about=step.tool if isinstance(step, ToolStep) else "",
        to=event.addressees,
    )


def _thread(thread: ThreadId, timeline: Timeline) -> str:
    return comparable(thread_name(timeline, thread))


def _words(step: AnyStep, event: Event, timeline: Timeline) -> bytes:
    said = [words_of(step, timeline).verb, *_texts(event)]
    return blake2b(comparable("\n".join(said)).encode("utf-8", "replace"), digest_size=16).digest()


def _texts(event: Event) -> list[str]:
    data = event.data
    texts: list[str] = []
    parts: list[Part] = [*getattr(data, "parts", ()), *getattr(data, "output", ())]
    texts += [
        # A reference is the same where its content is; the start of a hash is no id.
        f"={one.sha256[:15]}" if isinstance(one, ReferencePart) else text_of([one])
        for one in parts
    ]
    for name in ("title", "note", "summary", "reason", "name", "model"):
        value = getattr(data, name, "")
        texts.append(value if isinstance(value, str) else "")
    for name in ("reasons", "steps", "voters", "dissent", "arguments", "error"):
        value = getattr(data, name, None)
        texts.append(msgspec.json.encode(value).decode() if value else "")
    if isinstance(data, TaskOpened | ThreadOpened):
        texts.append(" ".join(sorted({*data.participants, *event.addressees})))
    for name in ("outcome", "verdict", "status", "state", "fraction", "finish_reason"):
        texts.append(str(getattr(data, name, "") or ""))
    return texts
