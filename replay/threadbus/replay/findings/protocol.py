"""The rules of the bus itself: what may refer to what, who may speak where, in which order."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector, End
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.schemas import (
    DATA_TYPES,
    AssignmentAccepted,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentProgressed,
    EventClass,
    EventId,
    TaskOpened,
    ThreadOpened,
)

MAX_UNKNOWN: Final = 10_000
"""References to events that have not come yet, of which so many are followed up."""

_MUST_BE: Final = {
    "assignment.accepted": ("assignment.made",),
    "assignment.cancelled": ("assignment.made",),
    "assignment.failed": ("assignment.made",),
    "assignment.finished": ("assignment.made",),
    "assignment.progressed": ("assignment.made",),
    "consensus.failed": ("proposal.made",),
    "consensus.reached": ("proposal.made",),
    "plan.revised": ("plan.proposed", "plan.revised"),
    "task.closed": ("answer.submitted",),
    "task.input_given": ("task.input_requested",),
    "vote.cast": ("proposal.made",),
}
_SPOKEN: Final = tuple([kind for kind in DATA_TYPES.values() if kind.CLASS is not EventClass.OBS])


class _Dangling(msgspec.Struct):
    ref: Ref
    missing: EventId
    is_cause: bool


class Orphan(Detector):
    id = "O1"
    name = "orphan reply"
    kind = FindingKind.VIOLATION
    rule = (
        "An event refers to an assignment, a proposal or the like that is not in the log or is "
        "something else; a cause that is not in the log is a symptom. Only where the log is whole."
    )
    needs = tuple([DATA_TYPES[kind] for kind in (*_MUST_BE, "critique.given")])

    def begin(self) -> None:
        self._dangling: list[_Dangling] = []

    def see_orphan(self, seen: Seen) -> None:
        cause = seen.event.cause
        if cause is not None and not isinstance(seen.event.data, TaskOpened):
            self._keep(_Dangling(seen.ref, cause, is_cause=True))

    def see(self, seen: Seen) -> None:
        ref = seen.ref
        if ref.about is None:
            return
        wanted = _MUST_BE.get(ref.kind)
        about, found = ref.about, self.scene.get(ref.about)
        if found is None:
            self._keep(_Dangling(ref, about, is_cause=False))
        elif wanted is not None and found.kind not in wanted:
            self.report(
                ref,
                f"{ref.kind} of {ref.sender} refers to {_a(wanted[0])}, but the event is "
                f"{_a(found.kind)}",
                evidence=(found.id,),
            )

    def finish(self, end: End) -> None:
        if not self.scene.is_whole or not end.timeline.is_complete:
            return
        for one in self._dangling:
            if one.missing in self.scene.known:
                continue
            if one.is_cause:
                text = f"{one.ref.kind} of {one.ref.sender} answers an event that is not in the log"
            else:
                text = (
                    f"{one.ref.kind} of {one.ref.sender} refers to an event that is not in the log"
                )
            self.report(one.ref, text, kind=FindingKind.SYMPTOM if one.is_cause else None)

    def _keep(self, one: _Dangling) -> None:
        if len(self._dangling) < MAX_UNKNOWN:
            self._dangling.append(one)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


class UnknownAddressee(Detector):
    id = "O2"
    name = "unknown addressee"
    kind = FindingKind.VIOLATION
    rule = (
        "An event mentions an agent that does not take part in the thread; a symptom where the "
        "agent takes part, was not running when it was mentioned, and never came."
    )
    needs = _SPOKEN

    def see(self, seen: Seen) -> None:
        event = seen.event
        addressees = event.addressees
        if not addressees:
            return
        people = self.scene.room(event.thread).people
        outside = [] if people is None else [one for one in addressees if not people.get(one)]
        if outside:
            self.report(
                seen, f"{event.sender} mentions {', '.join(outside[:5])} in a thread without them"
            )

    def finish(self, end: End) -> None:
        if not end.is_over:
            return
        for turn in end.timeline.open_turns():
            ref = self.scene.get(turn.mention)
            if ref is not None and turn.was_stored and not turn.has_begun:
                self.report(
                    ref,
                    f"{turn.agent} was not running when it was mentioned, and never came",
                    agent=turn.agent,
                    kind=FindingKind.SYMPTOM,
                )


class OutOfOrder(Detector):
    id = "O3"
    name = "out of order"
    kind = FindingKind.SYMPTOM
    rule = "An event stands in the log before the event that it answers."

    def begin(self) -> None:
        self._early: list[tuple[Ref, EventId]] = []

    def see_orphan(self, seen: Seen) -> None:
        cause = seen.event.cause
        if cause is not None and len(self._early) < MAX_UNKNOWN:
            self._early.append((seen.ref, cause))

    def finish(self, end: End) -> None:
        for early, cause in self._early:
            said = self.scene.get(cause)
            if said is not None:
                self.report(
                    early,
                    f"{early.sender} answered what {said.sender} had not said yet by the log",
                    evidence=(said.id,),
                )


class RoleViolation(Detector):
    id = "P3"
    name = "role violation"
    kind = FindingKind.VIOLATION
    rule = (
        "Somebody speaks in a thread without taking part or after its close, or reports on work "
        "that was assigned to another; observations are free."
    )
    needs = _SPOKEN

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        room = self.scene.room(event.thread)
        closed = room.closed
        if closed is not None and closed.id != event.id and closed.seq < seen.seq:
            self.report(
                seen,
                f"{event.sender} goes on in a thread that {closed.sender} had closed",
                evidence=(closed.id,),
            )
        elif (
            room.people is not None
            and not room.people.get(event.sender)
            and not isinstance(data, TaskOpened | ThreadOpened)
        ):
            was_in = event.sender in room.people
            how = "although it was taken out" if was_in else "without taking part"
            self.report(seen, f"{event.sender} speaks in thread {event.thread} {how}")
        if isinstance(
            data, AssignmentAccepted | AssignmentProgressed | AssignmentFinished | AssignmentFailed
        ):
            request = self.scene.requests.all.get(EventId(data.assignment))
            if request is not None and request.is_assignment and request.to != event.sender:
                self.report(
                    seen,
                    f"{event.sender} reports on work that was assigned to {request.to}",
                    evidence=(request.id,),
                )
