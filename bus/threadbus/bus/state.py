"""What a thread and a super-task are, as pure folds over the log.

Nothing else says who takes part or whether a thread is open: anybody who reads the same events
comes to the same state. An event id counts once; the first wins.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from threadbus.bus.errors import AppendError, ThreadClosedError
from threadbus.bus.floor import Pause, apply_move, check_move, check_speech, is_legal
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    ConversationState,
    Event,
    EventClass,
    EventId,
    ForkedFrom,
    InputGiven,
    InputRequested,
    ModelCalled,
    ParticipantAdded,
    ParticipantRemoved,
    Parts,
    Recorded,
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
)


class ThreadState(msgspec.Struct, kw_only=True):
    """One thread as of the last control event that was folded in."""

    task: TaskId
    thread: ThreadId
    title: str = ""
    goal: str = ""
    parent: ThreadId | None = None
    creator: AgentName | None = None
    opened_at: int = 0
    """Nanoseconds since the epoch."""
    participants: dict[AgentName, None] = {}
    """In the order in which they came; a dictionary for quick look-up."""
    removed: set[AgentName] = set()
    is_open: bool = False
    outcome: str = ""
    summary: str = ""
    conversation: ConversationState = ConversationState.DISCUSSION
    next_speakers: tuple[AgentName, ...] = ()
    move_reason: str = ""
    """Why the conversation is where it is."""
    pauses: dict[EventId, Pause] = {}
    """Waits for assignments that have not ended."""
    max_turns: int | None = None
    max_members: int | None = None
    max_depth: int | None = None
    """Levels of threads that may grow below this one."""
    assignment: EventId | None = None
    """The assignment in the parent thread whose result the conclusion is."""
    last_ctl_seq: int = 0
    """The sequence of the last control event: what the guard compares with."""
    ignored: int = 0
    """Control events from outside the thread, which do not count."""
    control_seqs: dict[EventId, int] = {}
    """Where each control event is; an id that comes again is passed over."""

    @property
    def exists(self) -> bool:
        """Whether it was ever opened."""
        return self.creator is not None

    @property
    def is_full(self) -> bool:
        """Whether as many take part as may."""
        return self.max_members is not None and len(self.participants) >= self.max_members

    def check_open(self) -> None:
        """Check that the thread has not ended.

        Raises:
            ThreadClosedError: it has.
        """
        if self.exists and not self.is_open:
            raise ThreadClosedError(self.task, self.thread, self.outcome, self.summary)

    def admits(self, event: Event) -> bool:
        """Whether *event* may be appended: quick, and without a reason where it may not."""
        if not self.is_open or event.sender not in self.participants:
            return False
        if isinstance(event.data, TaskForked):
            # It also wakes those who take part in other threads only.
            return True
        for name in event.mentions:
            if name not in self.participants:
                return False
        if isinstance(event.data, ThreadStateChanged) or (
            self.conversation is ConversationState.CONCLUSION
        ):
            try:
                self.check_talk(event)
            except AppendError:
                return False
        return not isinstance(event.data, TaskOpened | ThreadOpened)

    def check_talk(self, event: Event) -> None:
        """Check that the state of the conversation allows *event*.

        Raises:
            InvalidTransitionError: it does not; has what is possible.
            NotAParticipantError: a next speaker does not take part.
        """
        if isinstance(event.data, ThreadStateChanged):
            check_move(self, event, event.data)
        else:
            check_speech(self, event)

    def copy(self) -> ThreadState:
        """Return a state of its own that can be folded on."""
        return msgspec.structs.replace(
            self,
            participants=dict(self.participants),
            removed=set(self.removed),
            control_seqs=dict(self.control_seqs),
            pauses=dict(self.pauses),
        )

    def apply(self, seq: int, event: Event) -> None:
        """Fold one control event in; anything that was folded in already is passed over."""
        if seq <= self.last_ctl_seq or event.event_class is not EventClass.CTL:
            return
        self.last_ctl_seq = seq
        if event.id in self.control_seqs:
            return
        self.control_seqs[event.id] = seq
        if self.exists and event.sender not in self.participants:
            # The server cannot refuse this one, so every reader does.
            self.ignored += 1
            return
        match event.data:
            case TaskOpened() as data:
                self._open(event, data.title, data.participants)
            case ThreadOpened() as data:
                self._open(event, data.title, data.participants)
                self.parent = ThreadId(data.parent)
                self.goal = data.goal
                self.max_turns = data.max_turns
                self.max_members = data.max_members
                self.max_depth = data.max_depth
                self.assignment = None if data.assignment is None else EventId(data.assignment)
            case ParticipantAdded() as data:
                if self.is_full:
                    self.ignored += 1
                    return
                self.participants[AgentName(data.participant)] = None
                self.removed.discard(AgentName(data.participant))
            case ParticipantRemoved() as data:
                self.participants.pop(AgentName(data.participant), None)
                self.removed.add(AgentName(data.participant))
            case ThreadStateChanged() as data:
                if is_legal(self, event.sender, data):
                    apply_move(self, seq, event, data)
                else:
                    self.ignored += 1
            case ThreadClosed() as data:
                self._close(data.outcome.value, data.summary)
            case TaskClosed() as data:
                self._close(data.outcome.value, data.summary)
            case _:
                pass

    def _open(self, event: Event, title: str, participants: tuple[str, ...]) -> None:
        if self.exists:
            return
        self.title = title
        self.creator = event.sender
        self.opened_at = event.at
        self.is_open = True
        named = (event.sender, *map(AgentName, participants), *event.addressees)
        self.participants = dict.fromkeys(named)

    def _close(self, outcome: str, summary: str) -> None:
        if self.is_open:
            self.is_open = False
            self.outcome = outcome
            self.summary = summary


class InputRequest(msgspec.Struct, frozen=True):
    """A question to whoever opened the task."""

    event: Event
    parts: Parts


class TaskState(msgspec.Struct, kw_only=True):
    """One super-task as of the last event that was folded in."""

    task: TaskId
    title: str = ""
    status: TaskStatus = TaskStatus.WORKING
    opened_by: AgentName | None = None
    opened_at: int = 0
    closed_at: int = 0
    question: Parts = ()
    summary: str = ""
    note: str = ""
    token_budget: int | None = None
    deadline_at: int | None = None
    tokens_used: int = 0
    answers: dict[EventId, Event] = {}
    accepted: EventId | None = None
    requests: dict[EventId, InputRequest] = {}
    """Requests for input that nobody has answered yet."""
    artifacts: list[Event] = []
    threads: dict[ThreadId, ThreadState] = {}
    last_seq: int = 0
    events: int = 0
    ignored: int = 0
    """Events, other than control events, from outside their thread, which do not count."""
    seen: set[EventId] = set()
    forked_from: ForkedFrom | None = None
    is_fork_whole: bool = False
    """Whether all of the beginning of a fork is there; until then it is paused."""

    @property
    def exists(self) -> bool:
        """Whether it was ever opened."""
        return self.opened_by is not None

    @property
    def is_open(self) -> bool:
        """Whether anything may still follow."""
        return self.exists and not self.status.is_final

    @property
    def answer(self) -> Event | None:
        """The answer that the closing of the task accepts."""
        return None if self.accepted is None else self.answers.get(self.accepted)

    def thread(self, thread: ThreadId) -> ThreadState:
        """Return the state of one thread, a new one where it was not seen yet."""
        found = self.threads.get(thread)
        if found is None:
            found = self.threads[thread] = ThreadState(task=self.task, thread=thread)
        return found

    def apply(self, recorded: Recorded) -> bool:
        """Fold one event in; a repeated id or an earlier sequence is passed over.

        Returns:
            Whether it counts: it is new, and its sender may say it.
        """
        event, seq = recorded.event, recorded.seq
        if seq <= self.last_seq:
            return False
        self.last_seq = seq
        if event.id in self.seen:
            return False
        self.seen.add(event.id)
        self.events += 1
        thread = self.threads.get(event.thread) or self.thread(event.thread)
        event_class = event.event_class
        if event_class is EventClass.CTL:
            ignored = thread.ignored
            thread.apply(seq, event)
            if event.thread == MAIN_THREAD and thread.ignored == ignored:
                self._control(event)
            return thread.ignored == ignored
        inside = event.sender in thread.participants
        if event_class is EventClass.OBS:
            inside = inside or event.sender in thread.removed
        if not inside:
            # What a stranger says past the guard does not count, nor what it says that it used.
            self.ignored += 1
            return False
        match event.data:
            case ModelCalled() as data:
                self.tokens_used += data.input_tokens + data.output_tokens
            case AnswerSubmitted():
                self.answers[event.id] = event
            case ArtifactAdded():
                self.artifacts.append(event)
            case _:
                pass
        return True

    def _control(self, event: Event) -> None:
        if not self.is_open and self.exists:
            return
        self._take_control(event)
        if self.forked_from is not None and not self.is_fork_whole and not self.status.is_final:
            self.status = TaskStatus.PAUSED

    def _take_control(self, event: Event) -> None:
        match event.data:
            case TaskOpened() as data:
                if self.exists:
                    return
                self.title = data.title
                self.opened_by = event.sender
                self.opened_at = event.at
                self.question = data.parts
                self.token_budget = data.token_budget
                self.deadline_at = data.deadline_at
                self.forked_from = data.forked_from
            case TaskForked() as data:
                if self.forked_from is not None and not self.is_fork_whole:
                    self.is_fork_whole = True
                    self.status = data.status
            case TaskStatusChanged() as data:
                self.status = data.status
                self.note = data.note
            case InputRequested() as data:
                self.requests[event.id] = InputRequest(event, data.parts)
                self.status = TaskStatus.INPUT_REQUIRED
            case InputGiven() as data:
                asked = self.requests.pop(EventId(data.request), None)
                if asked is not None and not self.requests:
                    self.status = TaskStatus.WORKING
            case TaskClosed() as data:
                self.status = data.outcome
                self.summary = data.summary
                self.closed_at = event.at
                self.accepted = None if data.answer is None else EventId(data.answer)
            case _:
                pass


def fold_task(task: TaskId, items: Iterable[Recorded]) -> TaskState:
    """Fold events, in log order, into the state of a super-task."""
    state = TaskState(task=task)
    for item in items:
        state.apply(item)
    return state
