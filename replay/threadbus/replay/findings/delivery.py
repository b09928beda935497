"""Faults of the bus itself: redelivery, repeated and unreadable entries, clocks."""

from __future__ import annotations

from typing import Final

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.text import duration, first_line
from threadbus.schemas import (
    AgentName,
    AssignmentFinished,
    AssignmentMade,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MessagePosted,
    ModelCalled,
    Rejected,
    TaskClosed,
)

_MAX_KEPT: Final = 20_000


class Redelivery(Detector):
    id = "F1"
    name = "redelivery"
    kind = FindingKind.SYMPTOM
    rule = (
        "A mention is handled again although the attempt before did not report a failure: the "
        "process died, or its lease ran out."
    )
    needs = (HandlingStarted, HandlingEnded, HandlingFailed)

    def begin(self) -> None:
        self._failed: dict[tuple[EventId, AgentName], int] = {}
        self._begun: dict[tuple[EventId, AgentName], tuple[int, str, Ref]] = {}

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        if event.cause is None:
            return
        key = (event.cause, event.sender)
        match data:
            case HandlingFailed():
                self._failed[key] = max(self._failed.get(key, 0), data.attempt)
                trim(self._failed, _MAX_KEPT)
            case HandlingStarted():
                begun = self._begun.get(key)
                is_twice = begun is not None and begun[0] == data.attempt
                if begun is not None and is_twice and begun[1] != data.replica:
                    self.report(
                        seen,
                        f"{event.sender} handles one mention in two processes at once",
                        evidence=(begun[2].id, event.cause),
                    )
                elif data.attempt > 1 and self._failed.get(key, 0) < data.attempt - 1:
                    self._tell(seen, key, data.attempt)
                self._begun[key] = (data.attempt, data.replica, seen.ref)
                trim(self._begun, _MAX_KEPT)
            case HandlingEnded():
                begun = self._begun.pop(key, None)
                is_told = begun is not None and begun[0] == data.attempt
                if data.attempt > 1 and not is_told and self._failed.get(key, 0) < data.attempt - 1:
                    self._tell(seen, key, data.attempt)
            case _:
                pass

    def _tell(self, seen: Seen, key: tuple[EventId, AgentName], attempt: int) -> None:
        begun = self._begun.get(key)
        first = () if begun is None else (begun[2].id,)
        self.report(
            seen,
            f"{seen.event.sender} got a mention again (attempt {attempt}) without a word of the "
            "attempt before: it died, or was cut off",
            evidence=(*first, key[0]),
        )


class Duplicate(Detector):
    id = "F3"
    name = "repeated event"
    kind = FindingKind.SYMPTOM
    rule = "An event is in the log twice, under one id; only the first counts."

    def see_again(self, seen: Seen) -> None:
        first = self.scene.get(seen.event.id)
        after = "" if first is None else f", {duration(seen.at - first.at)} after the first"
        self.report(seen, f"{seen.event.type} of {seen.event.sender} is in the log again{after}")


class UnreadableEntry(Detector):
    id = "F4"
    name = "unreadable entry"
    kind = FindingKind.VIOLATION
    rule = "The log holds bytes that are no event, or whose event contradicts its subject."

    def see_unreadable(self, entry: Rejected) -> None:
        self.report_at(
            entry.seq,
            entry.stored_at or self.scene.last_at,
            f"an entry cannot be read: {first_line(entry.reason, 200)}",
        )


class ClockSkew(Detector):
    id = "S2"
    name = "clock skew"
    kind = FindingKind.HINT
    rule = (
        "By its own clock an agent made an event after the server stored it, or before the event "
        "that it answers; reported once for each agent."
    )
    needs = (
        AssignmentFinished,
        AssignmentMade,
        HandlingEnded,
        MessagePosted,
        ModelCalled,
        TaskClosed,
    )
    settings = (Setting("tolerance_s", 5.0, "seconds that clocks may differ"),)

    def begin(self) -> None:
        self._told: set[AgentName] = set()
        self._tolerance = self.ns("tolerance_s")

    def see(self, seen: Seen) -> None:
        event = seen.event
        if not seen.stored_at or event.sender in self._told or len(self._told) > _MAX_KEPT:
            return
        if event.copy_of is not None:
            # What its agent's clock said then, and where it stands now, are of two runs.
            return
        ahead = event.at - seen.stored_at
        cause = seen.cause
        behind = cause.at - event.at if cause is not None else 0
        if ahead > self._tolerance:
            how = f"{duration(ahead)} ahead of the server's"
        elif behind > self._tolerance:
            how = f"at least {duration(behind)} behind the server's"
        else:
            return
        self._told.add(event.sender)
        self.report(seen, f"the clock of {event.sender} is {how}")
