"""Waiting for what others do: for an answer, for results, for votes, for a thread to close.

A wait reads the log from the beginning of what it waits for and follows it. Nothing is polled by
a model and nothing is lost when the waiter dies: whoever waits again sees what came meanwhile.
The closing of a thread wakes everybody who waits in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import msgspec

from threadbus.bus.errors import (
    BusError,
    TaskFailedError,
    TaskNotFoundError,
    ThreadClosedError,
    WaitTimeoutError,
)
from threadbus.bus.following import Entry
from threadbus.bus.log import EventLog
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    ErrorInfo,
    Event,
    EventId,
    InputGiven,
    MentionDeadLettered,
    Parts,
    ProposalMade,
    Recorded,
    TaskClosed,
    TaskId,
    TaskStatus,
    ThreadClosed,
    ThreadId,
    VoteCast,
    VoteVerdict,
    text_of,
)

DEFAULT_WAIT: Final = timedelta(minutes=10)


class MentionFailedError(BusError):
    """The agent that was asked gave the mention up."""

    def __init__(self, agent: str, kind: str, message: str) -> None:
        super().__init__(agent, kind, message)
        self.agent = agent
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"agent {self.agent} could not handle the mention: {self.kind}: {self.message}"


class Answer(msgspec.Struct, frozen=True):
    """The answer that a super-task ended with."""

    task: TaskId
    event: Event
    parts: Parts

    @property
    def text(self) -> str:
        """Its text; other kinds of parts named in brackets."""
        return text_of(self.parts)


class AssignmentResult(msgspec.Struct, frozen=True):
    """How one assignment ended."""

    assignment: EventId
    event: Event
    parts: Parts = ()
    error: ErrorInfo | None = None
    cancelled: bool = False

    @property
    def ok(self) -> bool:
        """Whether the work was done."""
        return self.error is None and not self.cancelled

    @property
    def text(self) -> str:
        """The text of the result, or of the error."""
        return text_of(self.parts) if self.error is None else self.error.message


class VoteResult(msgspec.Struct, frozen=True):
    """The votes on a proposal; each voter's last one counts."""

    proposal: EventId
    votes: Mapping[AgentName, VoteVerdict]
    missing: tuple[AgentName, ...]
    """Voters who had not voted when the wait ended."""
    quorum: int

    @property
    def approvals(self) -> int:
        """How many approve."""
        return sum(vote is VoteVerdict.APPROVE for vote in self.votes.values())

    @property
    def reached(self) -> bool:
        """Whether the quorum approves."""
        return self.approvals >= self.quorum


class Waits:
    """What can be waited for. Every wait is safe to cancel and to repeat."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def for_answer(
        self, task: TaskId, *, timeout: timedelta = DEFAULT_WAIT, new: bool = False
    ) -> Answer:
        """Wait until a super-task ends, and return its answer.

        Args:
            task: the super-task.
            timeout: how long at most.
            new: it was opened a moment ago inside the same subscription (see :meth:`following`).

        Raises:
            TaskFailedError: it ended without an answer.
            TaskNotFoundError: nothing was ever said in it.
            WaitTimeoutError: it did not end in time; it goes on all the same.
        """
        async with self._log.following(task, new=new) as entries:
            return await self.answer_from(entries, task, timeout)

    async def answer_from(
        self, entries: AsyncIterator[Entry], task: TaskId, timeout: timedelta
    ) -> Answer:
        """Take entries of *task* until it ends (see :meth:`for_answer`)."""
        answers: dict[EventId, Event] = {}
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                async for entry in entries:
                    if not isinstance(entry, Recorded):
                        continue
                    event = entry.event
                    data = event.data
                    if isinstance(data, AnswerSubmitted):
                        answers.setdefault(event.id, event)
                    elif isinstance(data, TaskClosed) and event.thread == MAIN_THREAD:
                        return _answer(task, data, answers)
        except TimeoutError as error:
            raise WaitTimeoutError(
                f"the answer to super-task {task}", timeout.total_seconds()
            ) from error
        raise TaskNotFoundError(task)

    async def for_results(
        self,
        task: TaskId,
        assignments: Sequence[EventId],
        *,
        timeout: timedelta = DEFAULT_WAIT,
        thread: ThreadId | None = None,
        after: int = 0,
    ) -> Mapping[EventId, AssignmentResult]:
        """Wait until each assignment has finished, failed or was cancelled.

        Args:
            task: the super-task.
            assignments: the ids of the ``assignment.made`` events.
            timeout: how long at most.
            thread: the thread they were made in, when all were made in one.
            after: a sequence before their results; the log is read from there.

        Raises:
            ThreadClosedError: the thread, or the task, ended first.
            WaitTimeoutError: not all ended in time.
        """
        waiting = set(assignments)
        results: dict[EventId, AssignmentResult] = {}
        if not waiting:
            return results
        what = f"the results of {len(waiting)} assignments"
        async with self._until(task, thread, timeout, what, after) as entries:
            async for event in entries:
                result = _result(event)
                if result is not None and result.assignment in waiting:
                    waiting.discard(result.assignment)
                    results[result.assignment] = result
                    if not waiting:
                        break
        return results

    async def for_reply(
        self,
        task: TaskId,
        thread: ThreadId,
        message: EventId,
        agent: AgentName,
        *,
        after: int = 0,
        timeout: timedelta = DEFAULT_WAIT,
    ) -> Event:
        """Wait for what *agent* says in answer to *message*.

        Raises:
            MentionFailedError: the agent gave it up.
            ThreadClosedError: the thread ended first.
            WaitTimeoutError: no reply in time.
        """
        async with self._log.following(task, thread, after) as entries:
            return await self.reply_from(entries, task, thread, message, agent, timeout)

    async def reply_from(
        self,
        entries: AsyncIterator[Entry],
        task: TaskId,
        thread: ThreadId,
        message: EventId,
        agent: AgentName,
        timeout: timedelta,
    ) -> Event:
        """Take entries of *thread* until *agent* has answered (see :meth:`for_reply`)."""
        seconds = timeout.total_seconds()
        what = f"the reply of {agent}"
        try:
            async with asyncio.timeout(seconds):
                async for event in _while_open(entries, task, thread):
                    if event.cause != message or event.sender != agent:
                        continue
                    if isinstance(event.data, MentionDeadLettered):
                        error = event.data.error
                        raise MentionFailedError(agent, error.kind, error.message)
                    if event.data.TYPE in _REPLIES:
                        return event
        except TimeoutError as error:
            raise WaitTimeoutError(what, seconds) from error
        raise WaitTimeoutError(what, seconds)

    async def for_input(
        self,
        task: TaskId,
        request: EventId,
        *,
        after: int = 0,
        timeout: timedelta = DEFAULT_WAIT,
    ) -> Event:
        """Wait until a request for input is answered.

        Raises:
            ThreadClosedError: the task ended first.
            WaitTimeoutError: no answer in time; the request stays.
        """
        what = f"the input to request {request}"
        async with self._until(task, MAIN_THREAD, timeout, what, after) as entries:
            async for event in entries:
                if isinstance(event.data, InputGiven) and event.data.request == request:
                    return event
        raise WaitTimeoutError(what, timeout.total_seconds())

    async def for_votes(
        self, task: TaskId, proposal: EventId, *, timeout: timedelta = DEFAULT_WAIT
    ) -> VoteResult:
        """Wait until every voter has voted or the quorum is out of doubt.

        Returns:
            The votes so far; at the timeout with those that are missing, never an error for it.

        Raises:
            ThreadClosedError: the task ended first.
        """
        made: ProposalMade | None = None
        votes: dict[AgentName, VoteVerdict] = {}
        try:
            async with self._until(task, None, timeout, "the votes") as entries:
                async for event in entries:
                    if event.id == proposal and isinstance(event.data, ProposalMade):
                        made = event.data
                    elif (
                        isinstance(event.data, VoteCast)
                        and event.data.proposal == proposal
                        and made is not None
                        and event.sender in made.voters
                    ):
                        votes[event.sender] = event.data.verdict
                        if len(votes) == len(made.voters):
                            break
        except WaitTimeoutError:
            if made is None:
                raise
        if made is None:
            raise WaitTimeoutError("the proposal", timeout.total_seconds())
        missing = tuple(AgentName(name) for name in made.voters if name not in votes)
        quorum = len(made.voters) if made.quorum is None else made.quorum
        return VoteResult(proposal, votes, missing, quorum)

    async def for_close(
        self, task: TaskId, thread: ThreadId = MAIN_THREAD, *, timeout: timedelta = DEFAULT_WAIT
    ) -> Event:
        """Wait until a thread is closed, and return the event that closed it.

        Raises:
            WaitTimeoutError: it was not closed in time.
        """
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                async with self._log.following(task, thread) as entries:
                    async for entry in entries:
                        if isinstance(entry, Recorded) and isinstance(
                            entry.event.data, ThreadClosed | TaskClosed
                        ):
                            return entry.event
        except TimeoutError as error:
            raise WaitTimeoutError(
                f"the end of thread {thread}", timeout.total_seconds()
            ) from error
        raise TaskNotFoundError(task)

    @asynccontextmanager
    async def _until(
        self,
        task: TaskId,
        thread: ThreadId | None,
        timeout: timedelta,
        what: str,
        after: int = 0,
    ) -> AsyncGenerator[AsyncIterator[Event]]:
        """Give the events of a thread or task until it closes or time is up."""
        seconds = timeout.total_seconds()
        try:
            async with (
                asyncio.timeout(seconds),
                self._log.following(task, thread, after) as entries,
            ):
                yield _while_open(entries, task, thread)
        except TimeoutError as error:
            raise WaitTimeoutError(what, seconds) from error


async def _while_open(
    entries: AsyncIterator[Entry], task: TaskId, thread: ThreadId | None
) -> AsyncIterator[Event]:
    async for entry in entries:
        if not isinstance(entry, Recorded):
            continue
        event = entry.event
        yield event
        data = event.data
        if isinstance(data, TaskClosed) or (
            isinstance(data, ThreadClosed) and event.thread == thread
        ):
            raise ThreadClosedError(task, event.thread, data.outcome, data.summary)


_REPLIES: Final = frozenset(
    {"message.posted", "assignment.finished", "assignment.failed", "answer.submitted"}
)


def _answer(task: TaskId, closed: TaskClosed, answers: Mapping[EventId, Event]) -> Answer:
    event = None if closed.answer is None else answers.get(EventId(closed.answer))
    if event is None or closed.outcome is not TaskStatus.COMPLETED:
        raise TaskFailedError(task, closed.outcome, closed.summary)
    data = event.data
    return Answer(task, event, data.parts if isinstance(data, AnswerSubmitted) else ())


def _result(event: Event) -> AssignmentResult | None:
    match event.data:
        case AssignmentFinished() as data:
            return AssignmentResult(EventId(data.assignment), event, data.parts)
        case AssignmentFailed() as data:
            return AssignmentResult(EventId(data.assignment), event, error=data.error)
        case AssignmentCancelled() as data:
            return AssignmentResult(EventId(data.assignment), event, cancelled=True)
        case MentionDeadLettered() as data if event.cause is not None:
            # The assignee gave the assignment up without a word of its own.
            return AssignmentResult(event.cause, event, error=data.error)
        case _:
            return None
