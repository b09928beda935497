"""Waiting: for an answer that does not come, comes late, or cannot come."""

from __future__ import annotations

from typing import Final

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.jobs import Job
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.requests import Request
from threadbus.replay.findings.seen import Seen
from threadbus.replay.steps import ns
from threadbus.replay.story import Turn, TurnOutcome
from threadbus.replay.text import duration, first_line
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    EventId,
    MessagePosted,
    ModelCalled,
    TaskStatus,
    ToolReturned,
)

_ASKS: Final = frozenset(
    {"assignment.made", "message.posted", "proposal.made", "task.input_given", "task.opened"}
)
_CANCELLED: Final = TaskStatus.CANCELLED.value


class Unanswered(Detector):
    id = "U1"
    name = "unanswered request"
    kind = FindingKind.SYMPTOM
    rule = (
        "A mention that asks for something, or a question to whoever opened the task, has no reply "
        "when the task closes or its deadline passes; a cancelled task is left out; a hint for an "
        "imported log."
    )
    settings = (
        Setting("patience_s", 600.0, "seconds after which a request of a running task counts"),
    )

    def finish(self, end: End) -> None:
        timeline = end.timeline
        if timeline.status == _CANCELLED:
            return
        answered_openings = {
            turn.mention for turn in _turns(end) if turn.outcome is TurnOutcome.REPLIED
        }
        for turn in _turns(end):
            if timeline.is_outside(turn.agent) or turn.woken_by == turn.agent:
                continue
            ref = self.scene.get(turn.mention)
            if ref is None or not self._is_due(ref, turn, end):
                continue
            if ref.kind == "task.opened" and ref.id in answered_openings:
                continue
            self._tell(ref, turn, end)
        for request in timeline.requests.values():
            ref = self.scene.get(request.id)
            if ref is None or request.answered_at is not None or not end.is_over:
                continue
            self.report(ref, f"{request.asked_by} was never told: {first_line(request.text, 100)}")

    def _is_due(self, ref: Ref, turn: Turn, end: End) -> bool:
        if ref.kind not in _ASKS or self._is_reply(ref, turn):
            return False
        request = self.scene.requests.all.get(ref.id)
        if request is not None and request.is_assignment and not request.is_open:
            return False
        if ref.kind == "task.opened" and self._is_told(turn, end):
            return False
        if turn.outcome is TurnOutcome.FINISHED:
            return request is not None and (request.awaited or request.is_assignment)
        if turn.outcome not in (TurnOutcome.OPEN, TurnOutcome.FAILED):
            return False
        deadline = self.scene.deadline_at
        if request is not None and request.deadline_at is not None:
            deadline = request.deadline_at
        if end.is_over or (deadline is not None and end.now > deadline):
            return True
        return bool(turn.asked_at) and end.now - turn.asked_at > self.ns("patience_s")

    def _is_told(self, turn: Turn, end: End) -> bool:
        """Whether the task has an answer, or was closed without one by whom it was given to."""
        closed = self.scene.closed
        by_itself = closed is not None and closed.sender == turn.agent
        return by_itself or end.timeline.accepted_answer is not None

    def _is_reply(self, ref: Ref, turn: Turn) -> bool:
        """Whether the mention answers what the agent said itself, and so asks for nothing."""
        cause = self.scene.get(ref.cause)
        return ref.kind == "message.posted" and cause is not None and cause.sender == turn.agent

    def _tell(self, ref: Ref, turn: Turn, end: End) -> None:
        asked = first_line(turn.asked, 80)
        about = f": {asked}" if asked else ""
        if turn.outcome is TurnOutcome.FINISHED:
            text = f"{turn.agent} handled it in silence, and {ref.sender} got no reply{about}"
        else:
            what = "did not finish" if turn.has_begun else "never began with"
            asker = turn.woken_by or ref.sender
            when = "before the close" if end.timeline.closed_at is not None else "so far"
            text = f"{turn.agent} {what} what {asker} asked, {when}{about}"
        # In an imported log it is a guess who was asked.
        kind = FindingKind.HINT if self.scene.is_imported else None
        self.report(ref, text, agent=turn.agent, kind=kind)


def _turns(end: End) -> list[Turn]:
    return [
        entry
        for thread in end.timeline.threads.values()
        for entry in thread.entries
        if isinstance(entry, Turn)
    ]


class LateReply(Detector):
    id = "U2"
    name = "late reply"
    kind = FindingKind.SYMPTOM
    rule = (
        "A result comes after its deadline, or after the work was taken back or had failed; a "
        "reply that was waited for comes after the answer to the task, or the answer comes after "
        "the deadline of the task."
    )
    needs = (AssignmentFinished, AssignmentFailed, AnswerSubmitted, MessagePosted)
    settings = (Setting("grace_s", 1.0, "seconds past a deadline that do not count"),)

    def begin(self) -> None:
        self._answer: Ref | None = None

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        grace = self.ns("grace_s")
        if isinstance(data, MessagePosted):
            self._reply(seen)
            return
        if isinstance(data, AnswerSubmitted):
            self._answer = self._answer or seen.ref
            deadline = self.scene.deadline_at
            if deadline is not None and seen.at > deadline + grace:
                late = duration(seen.at - deadline)
                self.report(seen, f"{event.sender} answers {late} after the deadline of the task")
            return
        about = seen.ref.about
        request = None if about is None else self.scene.requests.all.get(about)
        if request is None:
            return
        ended = request.settled
        if ended is not None and ended.id != event.id:
            how = "was taken back" if request.is_cancelled else "had ended"
            self.report(
                seen,
                f"{event.sender} reports on work {duration(seen.at - ended.at)} after it {how}",
                evidence=(request.id, ended.id),
            )
        elif request.deadline_at is not None and seen.at > request.deadline_at + grace:
            late = duration(seen.at - request.deadline_at)
            self.report(
                seen, f"{event.sender} is {late} late with its result", evidence=(request.id,)
            )

    def _reply(self, seen: Seen) -> None:
        """A reply that whoever asked went on without."""
        answer, cause = self._answer, seen.event.cause
        if answer is None or cause is None:
            return
        request = self.scene.requests.all.get(cause)
        if (
            request is not None
            and request.awaited
            and request.ref.seq < answer.seq
            and request.settled is not None
            and request.settled.id == seen.ref.id
        ):
            self.report(
                seen,
                f"{seen.event.sender} replies {duration(seen.at - answer.at)} after "
                f"{answer.sender} had answered the task without it",
                evidence=(request.id, answer.id),
            )


class StalledAgent(Detector):
    id = "U3"
    name = "stalled agent"
    kind = FindingKind.SYMPTOM
    rule = (
        "An agent that has begun with a mention is silent for too long, although it neither waits "
        "for a tool or a model nor for another agent."
    )
    settings = (
        Setting("floor_s", 60.0, "seconds of silence that are always allowed", 1),
        Setting("times", 3.0, "times the usual length of its turns (95th percentile) as well"),
    )

    def begin(self) -> None:
        self._floor = self.ns("floor_s")
        self._times = self.share("times")

    def see_silence(self, seen: Seen) -> None:
        job = seen.job
        if job is None or job.quiet_ns <= self._floor or job.had_child or seen.is_excused:
            return
        if job.quiet_ns > self._limit(job.agent):
            self._tell(job.before, job, job.quiet_ns)

    def finish(self, end: End) -> None:
        for job in self.scene.jobs.open.values():
            if job.has_replied or job.open_tools or job.waits:
                continue
            if end.timeline.is_outside(job.agent):
                continue
            if self.scene.is_paused or self.scene.pending:
                continue
            silent = end.now - job.last.at
            if silent > self._limit(job.agent):
                self._tell(job.last, job, silent)

    def _limit(self, agent: AgentName) -> float:
        worked = sorted(self.scene.jobs.worked.get(agent, ()))
        usual = worked[min(int(len(worked) * 0.95), len(worked) - 1)] if worked else 0
        return max(self._floor, self._times * usual)

    def _tell(self, last: Ref, job: Job, silent: int) -> None:
        self.report(
            last,
            f"{job.agent} was working and then silent for {duration(silent)}",
            agent=job.agent,
            evidence=(job.mention,),
        )


class StalledTask(Detector):
    id = "U4"
    name = "stalled task or deadlock"
    kind = FindingKind.SYMPTOM
    rule = (
        "Nothing happens for too long although something is open and no person is asked; agents "
        "that wait for one another in one thread, in a circle, are a deadlock and a violation."
    )
    settings = (Setting("quiet_s", 60.0, "seconds without any event that are allowed", 1),)

    def begin(self) -> None:
        self._quiet = self.ns("quiet_s")

    def see_silence(self, seen: Seen) -> None:
        last, data = seen.before, seen.event.data
        told = ns(data.duration_ns) if isinstance(data, ModelCalled | ToolReturned) else 0
        if last is not None and seen.gap - told > self._quiet:
            self._tell(last, seen.gap, seen.ref.id)

    def finish(self, end: End) -> None:
        last = self.scene.last
        if last is not None and self.scene.is_waiting():
            silent = end.now - max(last.at, self.scene.resumes_at)
            if silent > self._quiet and not any(
                job.open_tools for job in self.scene.jobs.open.values()
            ):
                self._tell(last, silent, last.id)
        circle = self._circle()
        if circle:
            self._tell_circle(circle)

    def _tell(self, last: Ref, silent: int, then: EventId) -> None:
        self.report(
            last,
            f"nothing happened for {duration(silent)} although work was open",
            evidence=(then,),
        )

    def _tell_circle(self, circle: list[Request]) -> None:
        in_one = len({request.thread for request in circle}) == 1
        chain = " waits for ".join([*(one.asker for one in circle), circle[0].asker])
        self.report(
            max([one.ref for one in circle], key=lambda ref: ref.seq),
            f"{chain}: none of them can go on" if in_one else f"{chain}, in different threads",
            evidence=tuple(one.id for one in circle),
            kind=FindingKind.VIOLATION if in_one else FindingKind.SYMPTOM,
        )

    def _circle(self) -> list[Request]:
        """Return requests that wait for one another, if there are such."""
        waits: dict[AgentName, list[Request]] = {}
        for job in self.scene.jobs.open.values():
            for asked in job.waits:
                request = self.scene.requests.all.get(asked)
                if request is not None and request.is_open and not request.is_quick:
                    waits.setdefault(job.agent, []).append(request)
        done: set[AgentName] = set()
        for start in waits:
            path: list[Request] = []
            agents: list[AgentName] = []
            at = start
            while at in waits and at not in done:
                if at in agents:
                    return path[agents.index(at) :]
                agents.append(at)
                path.append(min(waits[at], key=lambda request: request.ref.seq))
                at = path[-1].to
            done.update(agents)
        return []
