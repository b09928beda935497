"""What the fold keeps beside turns: task, threads, requests, assignments, votes, answers."""

from __future__ import annotations

from typing import Final

from threadbus.replay.kept import Answer, Assignment, Fork, InputRequest, Plan, PlanItem, Proposal
from threadbus.replay.steps import MAX_ITEMS, artifact, cut, cut_parts, ns
from threadbus.replay.story import SaidStep, ThreadStory, Timeline
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentAccepted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentProgressed,
    ConsensusFailed,
    ConsensusReached,
    Event,
    EventId,
    InputGiven,
    InputRequested,
    OpaqueData,
    ParticipantAdded,
    ParticipantRemoved,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    TaskClosed,
    TaskForked,
    TaskId,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    ThreadStateChanged,
    VoteCast,
)

MAX_QUESTION_CHARS: Final = 4_000
"""Characters that are kept of the question."""

MAX_ANSWER_CHARS: Final = 20_000
"""Characters that are kept of an answer."""

MAX_FULL_ANSWERS: Final = 64
"""Answers of which so much is kept; later ones are cut like any other text."""

MAX_PLANS: Final = 1_000
"""Versions of plans that are kept."""

MAX_COUNTED_NAMES: Final = 100
"""Unknown types, or models without a price, that are told apart; others count as ``(others)``."""

_ASSIGNMENT_STATES: Final = {
    AssignmentAccepted: "accepted",
    AssignmentProgressed: "progressed",
    AssignmentFinished: "finished",
    AssignmentFailed: "failed",
    AssignmentCancelled: "cancelled",
}


class Records:
    """Keeps the records of one timeline up to date."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._status = TaskStatus.WORKING
        self._pending: set[str] = set()
        self._copied_to = 0
        self._plan_versions: dict[ThreadId, int] = {}

    def thread(self, thread: ThreadId) -> ThreadStory:
        """Return the story of *thread*, which begins here if nothing was known of it."""
        threads = self._timeline.threads
        story = threads.get(thread)
        if story is None:
            parent = None if thread == MAIN_THREAD else MAIN_THREAD
            story = threads[thread] = ThreadStory(thread=thread, parent=parent)
        return story

    def note(self, step: SaidStep, event: Event) -> None:
        """Note what *event*, whose step this is, says of the records."""
        data = event.data
        match data:
            case TaskOpened():
                self._open_task(step, event, data)
            case TaskForked():
                self._fork(step, event, data)
            case TaskStatusChanged():
                self._status = data.status
                self._set_status()
            case TaskClosed():
                self._close_task(step, data)
            case ThreadOpened():
                self._open_thread(step, event, data)
            case ThreadClosed():
                story = self.thread(event.thread)
                if not story.outcome:
                    story.outcome, story.summary = data.outcome.value, step.text
                    story.closed_by, story.closed_at = event.sender, step.at
            case ThreadStateChanged():
                self.thread(event.thread).state = data.state.value
            case ParticipantAdded():
                self.thread(event.thread).participants[AgentName(data.participant)] = True
            case ParticipantRemoved():
                self.thread(event.thread).participants[AgentName(data.participant)] = False
            case ArtifactAdded():
                self._timeline.artifacts[event.id] = artifact(step.seq, event, data)
            case AnswerSubmitted():
                self._answer(step, event, data)
            case InputRequested() | InputGiven():
                self._input(step, event, data)
            case OpaqueData():
                count_name(self._timeline.unknown_types, step.type)
            case _:
                self._work(step, event)

    def _work(self, step: SaidStep, event: Event) -> None:
        timeline = self._timeline
        data = event.data
        match data:
            case AssignmentMade():
                timeline.assignments[event.id] = Assignment(
                    id=event.id,
                    thread=event.thread,
                    made_by=event.sender,
                    assignee=AgentName(data.assignee),
                    made_at=step.at,
                    title=step.text,
                    mode=data.mode.value,
                    changed_at=step.at,
                )
            case (
                AssignmentAccepted()
                | AssignmentProgressed()
                | AssignmentFinished()
                | AssignmentFailed()
                | AssignmentCancelled()
            ):
                assignment = timeline.assignments.get(EventId(data.assignment))
                if assignment is not None:
                    assignment.state = _ASSIGNMENT_STATES[type(data)]
                    assignment.changed_at = step.at
                    if isinstance(data, AssignmentProgressed):
                        assignment.fraction = data.fraction
            case PlanProposed() | PlanRevised():
                self._plan(step, event, data)
            case ProposalMade():
                timeline.proposals[event.id] = Proposal(
                    id=event.id,
                    thread=event.thread,
                    made_by=event.sender,
                    made_at=step.at,
                    text=step.text,
                    voters=tuple([AgentName(name) for name in data.voters]),
                    quorum=None if data.quorum is None else ns(data.quorum),
                )
            case VoteCast():
                proposal = timeline.proposals.get(EventId(data.proposal))
                if proposal is not None:
                    proposal.votes[event.sender] = data.verdict.value
            case ConsensusReached() | ConsensusFailed():
                proposal = timeline.proposals.get(EventId(data.proposal))
                if proposal is not None and not proposal.result:
                    proposal.result = step.verdict
            case _:
                pass

    def _open_task(self, step: SaidStep, event: Event, data: TaskOpened) -> None:
        timeline = self._timeline
        if timeline.opened_by is not None:
            return
        timeline.opened_by, timeline.opened_at = event.sender, step.at
        timeline.question = cut_parts(data.parts, MAX_QUESTION_CHARS).text
        timeline.title = data.title
        timeline.labels = dict(data.labels)
        timeline.token_budget = None if data.token_budget is None else ns(data.token_budget)
        timeline.deadline_at = None if data.deadline_at is None else ns(data.deadline_at)
        main = self.thread(MAIN_THREAD)
        main.title, main.opened_by, main.opened_at = data.title, event.sender, step.at
        for name in (event.sender, *data.participants, *event.addressees):
            main.participants.setdefault(AgentName(name), True)
        origin = data.forked_from
        if origin is not None:
            timeline.fork = Fork(
                task=TaskId(origin.task),
                seq=ns(origin.seq),
                expected=ns(origin.events),
                edit=cut(origin.edit).text,
            )
        self._set_status()

    def note_copy(self, at: int) -> None:
        """Note that an event of this run is a copy."""
        self._copied_to = max(self._copied_to, at)
        if self._timeline.fork is not None:
            self._timeline.fork.copies += 1

    def _fork(self, step: SaidStep, event: Event, data: TaskForked) -> None:
        fork = self._timeline.fork
        if fork is None or fork.forked_at is not None:
            return
        fork.forked_at, fork.forked_by = step.at, event.sender
        fork.gap_ns = max(step.at - self._copied_to, 0)
        fork.woken = event.mentions
        fork.notes = step.items
        self._status = data.status
        self._set_status()

    def _close_task(self, step: SaidStep, data: TaskClosed) -> None:
        timeline = self._timeline
        if timeline.closed_at is not None:
            return
        timeline.closed_by, timeline.closed_at = step.agent, step.at
        timeline.summary, timeline.status = step.text, data.outcome.value
        if data.answer is not None:
            timeline.accepted_answer = EventId(data.answer)

    def _set_status(self) -> None:
        timeline = self._timeline
        if timeline.closed_at is None:
            fork = timeline.fork
            if fork is not None and fork.forked_at is None:
                timeline.status = TaskStatus.PAUSED.value
                return
            waits = self._pending and self._status is TaskStatus.WORKING
            timeline.status = (TaskStatus.INPUT_REQUIRED if waits else self._status).value

    def _open_thread(self, step: SaidStep, event: Event, data: ThreadOpened) -> None:
        story = self.thread(event.thread)
        if story.opened_by is not None or event.thread == MAIN_THREAD:
            return
        story.title, story.parent = data.title, ThreadId(data.parent)
        story.opened_by, story.opened_at = event.sender, step.at
        for name in (event.sender, *data.participants):
            story.participants.setdefault(AgentName(name), True)

    def _plan(self, step: SaidStep, event: Event, data: PlanProposed | PlanRevised) -> None:
        plans = self._timeline.plans
        if len(plans) >= MAX_PLANS:
            return
        version = self._plan_versions.get(event.thread, 0) + 1
        self._plan_versions[event.thread] = version
        plans[event.id] = Plan(
            id=event.id,
            seq=step.seq,
            thread=event.thread,
            version=version,
            made_by=event.sender,
            made_at=step.at,
            replaces=EventId(data.replaces) if isinstance(data, PlanRevised) else None,
            steps=tuple(
                PlanItem(cut(one.title).text, one.assignee, cut(one.detail).text)
                for one in data.steps[:MAX_ITEMS]
            ),
            reasons=tuple(cut(reason).text for reason in data.reasons[:MAX_ITEMS]),
        )

    def _answer(self, step: SaidStep, event: Event, data: AnswerSubmitted) -> None:
        answers = self._timeline.answers
        text, chars = step.text, step.chars
        if len(answers) < MAX_FULL_ANSWERS:
            text, chars = cut_parts(data.parts, MAX_ANSWER_CHARS)
        answers[event.id] = Answer(
            id=event.id,
            seq=step.seq,
            submitted_by=event.sender,
            at=step.at,
            text=text,
            chars=chars,
            sources=data.sources[:MAX_ITEMS],
            dissent=step.items,
        )

    def _input(self, step: SaidStep, event: Event, data: InputRequested | InputGiven) -> None:
        requests = self._timeline.requests
        if isinstance(data, InputRequested):
            requests[event.id] = InputRequest(
                id=event.id,
                thread=event.thread,
                asked_by=event.sender,
                asked_at=step.at,
                text=step.text,
            )
            self._pending.add(event.id)
        else:
            request = requests.get(EventId(data.request))
            if request is not None and request.answered_by is None:
                request.answered_by, request.answered_at = event.sender, step.at
                request.answer = step.text
            self._pending.discard(data.request)
        self._set_status()


def count_name(counts: dict[str, int], name: str) -> None:
    """Count *name*, which comes from an event: there may be any number of them."""
    key = name if name in counts or len(counts) < MAX_COUNTED_NAMES else "(others)"
    counts[key] = counts.get(key, 0) + 1
