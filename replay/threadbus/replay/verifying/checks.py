"""The checks of a log, entry by entry, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from threadbus.bus import ThreadState
from threadbus.replay.source import LogItem
from threadbus.replay.text import duration, first_line, moment
from threadbus.replay.verifying.problem import Problem, ProblemKind, Report
from threadbus.replay.verifying.references import References
from threadbus.schemas import (
    MAIN_THREAD,
    Event,
    EventClass,
    EventId,
    OpaqueData,
    Recorded,
    ReferencePart,
    Rejected,
    TaskForked,
    TaskOpened,
    ThreadId,
    ThreadOpened,
    encode_event,
)

SKEW_NS: Final = 5_000_000_000
"""Nanoseconds by which the clocks of two machines may differ without a word."""

MAX_ARTIFACTS: Final = 10_000
"""Contents that one run may name for a check; further ones are said to be unchecked."""

_VIOLATION: Final = ProblemKind.VIOLATION
_NOTE: Final = ProblemKind.NOTE


class Verifier:
    """Holds one super-task's log against what must be true of it."""

    def __init__(self) -> None:
        self.report = Report()
        self.artifacts: dict[str, tuple[ReferencePart, int]] = {}
        """Contents that events refer to, by their hash, with the entry that did first."""
        self._threads: dict[ThreadId, ThreadState] = {}
        self._ids: dict[EventId, tuple[int, bytes]] = {}
        self._closed_at: dict[ThreadId, int] = {}
        self._references = References()
        self._last: LogItem | None = None
        self._copies = 0
        self._opening: TaskOpened | None = None
        self._forked_seq = 0

    def take(self, item: LogItem) -> None:
        """Check the next entry."""
        report = self.report
        report.entries += 1
        report.first_seq = report.first_seq or item.seq
        self._order(item)
        if isinstance(item, Rejected):
            where = f"; it was on {first_line(item.subject, 120)}" if item.subject else ""
            reason = f"not a sound event: {first_line(item.reason, 300)}{where}"
            problem = Problem(kind=_VIOLATION, check="event", text=reason, seq=item.seq)
            report.add(problem)
            return
        event = item.event
        if report.task is None:
            report.task = event.task
        elif event.task != report.task:
            self._say(item, _VIOLATION, "task", f"is of another super-task, {event.task}")
            return
        if self._is_repeated(item):
            return
        self._guard(item)
        self._clock(item)
        for is_violation, check, text, evidence in self._references.take(item.seq, event):
            self._say(item, _VIOLATION if is_violation else _NOTE, check, text, evidence)
        if isinstance(event.data, OpaqueData):
            what = f"type {first_line(event.type, 60)!r} version {event.v} is not known here"
            self._say(item, _NOTE, "class", what)
        self._copy(item)
        for part in _references_of(event):
            if len(self.artifacts) < MAX_ARTIFACTS or part.sha256 in self.artifacts:
                self.artifacts.setdefault(part.sha256, (part, item.seq))
            else:
                report.artifacts_unchecked += 1

    def finish(self) -> Report:
        """Say what only the end tells, and return everything."""
        opening = self._opening
        if self.report.entries and MAIN_THREAD not in self._threads:
            text = "the log has no task.opened: its beginning is missing"
            self.report.add(Problem(kind=_NOTE, check="missing", text=text))
        if opening is not None and opening.forked_from is not None:
            wanted = opening.forked_from.events
            if not self._forked_seq:
                text = f"half a fork: {self._copies:,} of {wanted:,} copies, and no task.forked"
                self.report.add(Problem(kind=_NOTE, check="fork", text=text))
            elif wanted and wanted != self._copies:
                text = f"a fork with {self._copies:,} copies, which was to have {wanted:,}"
                seq = self._forked_seq
                self.report.add(Problem(kind=_VIOLATION, check="fork", text=text, seq=seq))
        return self.report

    def _order(self, item: LogItem) -> None:
        last, self._last = self._last, item
        self.report.last_seq = max(self.report.last_seq, item.seq)
        if last is None or not item.seq or not last.seq:
            return
        if item.seq <= last.seq:
            text = f"entry {item.seq:,} comes after entry {last.seq:,}: not the order of a log"
            self._say(item, _VIOLATION, "sequence", text, (last.seq,))
        elif item.stored_at and last.stored_at > item.stored_at:
            back = duration(last.stored_at - item.stored_at)
            # Honest servers do that: their clock was set, or another one of the cluster leads.
            text = f"stored {back} before the entry that precedes it: the server's clock went back"
            self._say(item, _NOTE, "clock", text, (last.seq,))

    def _is_repeated(self, item: Recorded) -> bool:
        body = item.body or encode_event(item.event)
        digest = blake2b(body, digest_size=16).digest()
        known = self._ids.get(item.event.id)
        if known is None:
            self._ids[item.event.id] = (item.seq, digest)
            return False
        seq, before = known
        if digest == before:
            text = f"the same event as entry {seq:,}, stored twice; the first one counts"
            self._say(item, _NOTE, "duplicate", text, (seq,))
        else:
            text = f"has the id of entry {seq:,} and says something else; the first one counts"
            self._say(item, _VIOLATION, "duplicate", text, (seq,))
        if item.event.event_class is EventClass.CTL:
            self._thread(item.event).apply(item.seq, item.event)
        return True

    def _thread(self, event: Event) -> ThreadState:
        state = self._threads.get(event.thread)
        if state is None:
            state = ThreadState(task=event.task, thread=event.thread)
            self._threads[event.thread] = state
        return state

    def _guard(self, item: Recorded) -> None:
        event, state = item.event, self._thread(item.event)
        for check, text, evidence in self._breaches(event, state):
            self._say(item, _VIOLATION, check, text, evidence)
        if event.event_class is EventClass.CTL:
            was_open = state.is_open
            state.apply(item.seq, event)
            if was_open and not state.is_open:
                self._closed_at[event.thread] = item.seq

    def _breaches(
        self, event: Event, state: ThreadState
    ) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        is_opening = isinstance(event.data, TaskOpened | ThreadOpened)
        is_main = event.thread == MAIN_THREAD
        if event.type.startswith("task.") and event.event_class is EventClass.CTL and not is_main:
            yield "guard", "a control event of the task outside the main thread", ()
        if is_opening:
            if isinstance(event.data, ThreadOpened) and is_main:
                yield "guard", "opens the main thread, which only task.opened does", ()
            if state.exists:
                yield "guard", "opens what was open before", (state.last_ctl_seq,)
            return
        if event.event_class is EventClass.OBS:
            known = {*state.participants, *state.removed}
            if state.exists and event.sender not in known:
                text = f"{event.sender} never took part in the thread: forged, or it does not count"
                yield "sender", text, (state.last_ctl_seq,)
            return
        if not state.exists:
            yield "guard", "comes before its thread was opened, or the opening is missing", ()
            return
        if not state.is_open:
            closed = self._closed_at.get(event.thread, state.last_ctl_seq)
            yield "guard", f"comes after the end of its thread at entry {closed:,}", (closed,)
        if event.sender not in state.participants:
            how = "was removed" if event.sender in state.removed else "does not take part"
            text = f"{event.sender} {how} by then: forged, or late past the guard"
            yield "sender", text, (state.last_ctl_seq,)
        outside = [name for name in event.mentions if name not in state.participants]
        if outside and not isinstance(event.data, TaskForked):
            yield "guard", f"wakes {', '.join(outside)}, not in the thread", (state.last_ctl_seq,)

    def _clock(self, item: Recorded) -> None:
        event = item.event
        if event.copy_of is not None or not item.stored_at:
            return
        ahead = event.at - item.stored_at
        if ahead > SKEW_NS:
            text = f"made {duration(ahead)} after it was stored ({moment(event.at)}): a wrong clock"
            self._say(item, _NOTE, "clock", text)
        cause = None if event.cause is None else self._references.seen.get(event.cause)
        if cause is not None and cause.at - event.at > SKEW_NS and cause.sender != event.sender:
            text = f"made {duration(cause.at - event.at)} before what it answers: clocks differ"
            self._say(item, _NOTE, "clock", text, (cause.seq,))

    def _copy(self, item: Recorded) -> None:
        event = item.event
        if isinstance(event.data, TaskOpened) and self._opening is None:
            self._opening = event.data
        if isinstance(event.data, TaskForked):
            self._forked_seq = self._forked_seq or item.seq
        if event.copy_of is None:
            return
        self._copies += 1
        if event.mentions:
            self._say(item, _VIOLATION, "fork", "a copy that wakes somebody")
        if event.copy_of.task == event.task:
            # Imported: it has never been anywhere but here.
            return
        if self._opening is None or self._opening.forked_from is None:
            self._say(item, _VIOLATION, "fork", "a copy in a run that is no fork")
        elif self._forked_seq:
            seq = self._forked_seq
            self._say(item, _VIOLATION, "fork", f"a copy after the fork at entry {seq:,}", (seq,))

    def _say(
        self,
        item: LogItem,
        kind: ProblemKind,
        check: str,
        text: str,
        evidence: tuple[int, ...] = (),
    ) -> None:
        if not isinstance(item, Recorded):
            self.report.add(
                Problem(kind=kind, check=check, text=text, seq=item.seq, evidence=evidence)
            )
            return
        event = item.event
        self.report.add(
            Problem(
                kind=kind,
                check=check,
                text=text,
                seq=item.seq,
                id=event.id,
                type=first_line(event.type, 128),
                sender=event.sender,
                thread=event.thread,
                evidence=evidence,
            )
        )


def _references_of(event: Event) -> list[ReferencePart]:
    data = event.data
    parts = [*getattr(data, "parts", ()), *getattr(data, "output", ()), getattr(data, "part", None)]
    return [part for part in parts if isinstance(part, ReferencePart)]
