"""The end of a task: too early, too late, or never."""

from __future__ import annotations

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.text import duration, plural
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentMade,
    CritiqueGiven,
    CritiqueVerdict,
    EventId,
    MessagePosted,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    TaskClosed,
    TaskStatus,
    ThreadId,
    VoteCast,
    VoteVerdict,
)


class PrematureEnd(Detector):
    id = "T1"
    name = "premature termination"
    kind = FindingKind.SYMPTOM
    rule = (
        "The task is closed as completed while assignments are open, votes could still change "
        "what comes of them, an objection stands, or a question to a person is unanswered."
    )
    needs = (CritiqueGiven, VoteCast, TaskClosed)

    def begin(self) -> None:
        self._objections: dict[tuple[AgentName, ThreadId], Ref] = {}

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        key = (event.sender, event.thread)
        match data:
            case CritiqueGiven():
                if data.verdict is CritiqueVerdict.UNCERTAIN:
                    self._objections[key] = seen.ref
                else:
                    self._objections.pop(key, None)
            case VoteCast():
                if data.verdict is VoteVerdict.APPROVE:
                    self._objections.pop(key, None)
            case TaskClosed():
                is_first = self.scene.closed is not None and self.scene.closed.id == event.id
                if is_first and data.outcome is TaskStatus.COMPLETED:
                    self._close(seen)
            case _:
                pass

    def _close(self, seen: Seen) -> None:
        scene = self.scene
        work = [
            request
            for request in scene.requests.all.values()
            if request.is_assignment and request.is_open
        ]
        votes = [ballot.ref for ballot in scene.ballots.all.values() if ballot.is_pending]
        facts: list[str] = []
        if work:
            who = ", ".join(dict.fromkeys(request.to for request in work[:5]))
            facts.append(f"{plural(len(work), 'open assignment')} ({who})")
        if votes:
            facts.append(f"{plural(len(votes), 'undecided vote')}")
        if self._objections:
            who = ", ".join(dict.fromkeys(ref.sender for ref in self._objections.values()))
            facts.append(f"the standing objection of {who}")
        if scene.pending:
            facts.append(f"{plural(len(scene.pending), 'unanswered question')} to a person")
        if facts:
            evidence: list[EventId] = [request.id for request in work[:4]]
            evidence += [ref.id for ref in (*votes[:2], *list(self._objections.values())[:2])]
            self.report(
                seen,
                f"{seen.event.sender} closes the task as completed in spite of "
                + " and ".join(facts),
                evidence=evidence,
            )


class NoEnd(Detector):
    id = "T2"
    name = "not closed, or unaware of the end"
    kind = FindingKind.SYMPTOM
    rule = (
        "Work goes on after an answer was submitted or somebody said TERMINATE, or the log ends "
        "without the close of the task; a hint for an imported log, whose format may have none."
    )
    needs = (
        AnswerSubmitted,
        AssignmentMade,
        MessagePosted,
        PlanProposed,
        PlanRevised,
        ProposalMade,
    )
    settings = (
        Setting("messages", 2, "acts after the end that are too many", 1),
        Setting("quiet_s", 300.0, "seconds after which a task without a close counts as left"),
    )

    def begin(self) -> None:
        self._done: Ref | None = None
        self._count = 0

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if isinstance(data, AnswerSubmitted):
            self._done, self._count = seen.ref, 0
            return
        done = self._done
        if done is not None:
            self._count += 1
            if self._count == self.count("messages") and self.scene.closed is None:
                self.report(
                    seen,
                    f"work goes on after {done.sender} was done: {self._count} acts, the last by "
                    f"{seen.event.sender}",
                    evidence=(done.id,),
                )
        if isinstance(data, MessagePosted) and seen.content.rstrip().endswith("TERMINATE"):
            self._done, self._count = seen.ref, 0

    def finish(self, end: End) -> None:
        timeline = end.timeline
        if timeline.closed_at is not None or not timeline.is_complete:
            return
        silent = end.now - timeline.last_at
        waits = self.scene.is_paused or bool(self.scene.pending)
        if not end.is_over and (waits or silent <= self.ns("quiet_s")):
            return
        since = f"; nothing for {duration(silent)}" if silent else ""
        self.report_at(
            timeline.last_seq,
            timeline.last_at,
            f"the log ends without a close of the task{since}",
            evidence=() if self.scene.last is None else (self.scene.last.id,),
            kind=FindingKind.HINT if self.scene.is_imported else None,
        )
