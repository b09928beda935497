"""Whether results were checked: by somebody else, in the version that counts, with evidence."""

from __future__ import annotations

import re
from typing import Final

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.texts import claims_check
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentFinished,
    CritiqueGiven,
    CritiqueVerdict,
    EventId,
    MessagePosted,
    PlanProposed,
    PlanRevised,
    TaskStatus,
    ThreadId,
    VoteCast,
    VoteVerdict,
)

MAX_CHECKS: Final = 10_000
"""Critiques and votes that are remembered."""

_MAX_ABOVE: Final = 500
_CRITIC: Final = re.compile(r"critic|critique|review|verif|tester|checker|judge|audit")


class NoVerification(Detector):
    id = "V1"
    name = "no verification"
    kind = FindingKind.HINT
    rule = (
        "The accepted answer, and all that it rests on, was checked by nobody but its author, "
        "although the run has somebody who checks: an agent that gave a critique, or is named for "
        "it."
    )
    needs = (CritiqueGiven, VoteCast, AnswerSubmitted, AssignmentFinished)
    settings = (Setting("always", False, "also where the run has nobody who checks"),)

    def begin(self) -> None:
        self._checks: list[Ref] = []
        self._critics: set[AgentName] = set()
        self._sources: dict[EventId, tuple[str, ...]] = {}
        self._results: dict[AgentName, dict[AgentName, EventId]] = {}
        """Who gave work away → who did it → the newest result."""

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        match data:
            case CritiqueGiven():
                self._critics.add(seen.event.sender)
                if data.verdict is CritiqueVerdict.ACCEPT and len(self._checks) < MAX_CHECKS:
                    self._checks.append(seen.ref)
            case VoteCast():
                if data.verdict is VoteVerdict.APPROVE and len(self._checks) < MAX_CHECKS:
                    self._checks.append(seen.ref)
            case AnswerSubmitted():
                if len(self._sources) < MAX_CHECKS:
                    self._sources[seen.event.id] = (*data.sources, *self._given_to(seen))
            case AssignmentFinished():
                made = self.scene.get(EventId(data.assignment))
                if made is not None and len(self._sources) < MAX_CHECKS:
                    self._sources[seen.event.id] = self._given_to(seen)
                    self._results.setdefault(made.sender, {})[seen.event.sender] = seen.event.id
            case _:
                pass

    def _given_to(self, seen: Seen) -> tuple[EventId, ...]:
        """Return the results that the sender had by then; a new attempt replaces the one before."""
        return tuple(self._results.get(seen.event.sender, {}).values())

    def finish(self, end: End) -> None:
        timeline = end.timeline
        answer = self.scene.get(timeline.accepted_answer)
        if answer is None or timeline.status != TaskStatus.COMPLETED.value:
            return
        critics = self._critics | {name for name in timeline.agents if _CRITIC.search(name)}
        for thread in timeline.threads.values():
            critics |= {name for name in thread.participants if _CRITIC.search(name)}
        critics.discard(answer.sender)
        if not critics and not self.is_on("always"):
            return
        above = self._above(answer)
        for check in self._checks:
            is_about = check.about in above or check.id in above
            if is_about and check.sender != answer.sender:
                return
        who = ", ".join(sorted(critics)[:3]) or "nobody else"
        self.report(answer, f"the answer of {answer.sender} was accepted and not checked by {who}")

    def _above(self, answer: Ref) -> set[EventId]:
        """Return what the answer rests on: itself, sources, results that its author had from
        others, causes, and what all of them refer to."""
        found: set[EventId] = set()
        queue = [answer.id, *map(EventId, self._sources.get(answer.id, ()))]
        while queue and len(found) < _MAX_ABOVE:
            one = queue.pop(0)
            if one in found:
                continue
            found.add(one)
            ref = self.scene.get(one)
            if ref is not None:
                queue += [other for other in (ref.cause, ref.about) if other is not None]
        return found


class StaleVerification(Detector):
    id = "V2"
    name = "stale verification"
    kind = FindingKind.SYMPTOM
    rule = (
        "What was checked and accepted is an older version of the answer, the artifact or the "
        "plan than the one that counts in the end; a hint for plans."
    )
    needs = (AnswerSubmitted, ArtifactAdded, CritiqueGiven, PlanProposed, PlanRevised)

    def begin(self) -> None:
        self._lines: dict[EventId, tuple[str, str]] = {}
        self._newest: dict[tuple[str, str], Ref] = {}
        self._accepted: dict[tuple[str, str], tuple[Ref, EventId]] = {}

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        match data:
            case CritiqueGiven():
                line = self._lines.get(EventId(data.of))
                if line is not None and data.verdict is CritiqueVerdict.ACCEPT:
                    self._accepted[line] = (seen.ref, EventId(data.of))
            case AnswerSubmitted():
                self._version(("answer", ""), seen)
            case ArtifactAdded() if data.chunk_of is None:
                self._version(("artifact", data.name), seen)
            case PlanProposed() | PlanRevised():
                self._version(("plan", event.thread), seen)
            case _:
                pass

    def _version(self, line: tuple[str, str], seen: Seen) -> None:
        if len(self._lines) < MAX_CHECKS:
            self._lines[seen.event.id] = line
            self._newest[line] = seen.ref

    def finish(self, end: End) -> None:
        timeline = end.timeline
        if timeline.status != TaskStatus.COMPLETED.value:
            return
        for line, (critique, checked) in self._accepted.items():
            newest = self._newest[line]
            if line[0] == "answer":
                newest = self.scene.get(timeline.accepted_answer) or newest
            if newest.id == checked or newest.seq < critique.seq:
                continue
            self.report(
                newest,
                f"{critique.sender} checked an older version of the {line[0]}; the one of "
                f"{newest.sender} that counts came later and was not checked",
                evidence=(critique.id, checked),
                thread=ThreadId(newest.thread),
                kind=FindingKind.HINT if line[0] == "plan" else None,
            )


class ClaimWithoutEvidence(Detector):
    id = "V3"
    name = "claimed but absent evidence"
    kind = FindingKind.HINT
    rule = (
        "A reply claims that something was run, tested or verified, and no tool has brought a "
        "result in that turn or in the work that it gave away."
    )
    needs = (AssignmentFinished, AnswerSubmitted, MessagePosted)

    def see(self, seen: Seen) -> None:
        job = seen.job
        if job is None or job.tools_ok:
            return
        claim = claims_check(seen.content)
        if claim:
            self.report(
                seen,
                f"{job.agent} says {claim!r}, but no tool of its turn has brought a result",
                evidence=(job.mention,),
            )
