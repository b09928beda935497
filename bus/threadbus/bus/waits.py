"""Waiting for what others do: for an answer, for results, for votes, for a thread to close.

A wait reads the log from the beginning of what it waits for and follows it. Nothing is polled by
a model and nothing is lost when the waiter dies: whoever waits again sees what came meanwhile.
The closing of a thread wakes everybody who waits in it, that of the task everybody. What somebody
outside the thread has put into the log is passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

from threadbus.bus.deadline import Deadline, end_by
from threadbus.bus.errors import TaskNotFoundError, ThreadClosedError, WaitTimeoutError
from threadbus.bus.following import Entry
from threadbus.bus.log import EventLog
from threadbus.bus.members import Counted, Members
from threadbus.bus.outcomes import (
    Answer,
    AssignmentResult,
    MentionFailedError,
    VoteResult,
    answer_of,
    is_aside,
    may_settle,
    result_of,
    spoken,
    usual_reply_id,
    votes_on,
)
from threadbus.bus.ports import StoredMessage
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AssignmentMade,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    InputGiven,
    MentionDeadLettered,
    ProposalMade,
    Recorded,
    TaskClosed,
    TaskId,
    ThreadId,
    VoteCast,
    VoteVerdict,
)

DEFAULT_WAIT: Final = timedelta(minutes=10)
_REPLIES: Final = frozenset(
    {"message.posted", "assignment.finished", "assignment.failed", "answer.submitted"}
)


class Waits:
    """What can be waited for. Every wait is safe to cancel and to repeat."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def for_answer(self, task: TaskId, *, timeout: timedelta = DEFAULT_WAIT) -> Answer:
        """Wait until a super-task ends, and return its answer.

        Args:
            task: the super-task.
            timeout: how long at most.

        Raises:
            TaskFailedError: it ended without an answer.
            TaskNotFoundError: it was never opened.
            WaitTimeoutError: it did not end in time; it goes on all the same.
        """
        await self._log.check_exists(task, MAIN_THREAD)
        async with self._log.following(task) as entries:
            return await self.answer_from(entries, task, timeout)

    async def answer_from(
        self, entries: AsyncIterator[Entry], task: TaskId, timeout: timedelta
    ) -> Answer:
        """Take entries of *task*, from its opening, until it ends (see :meth:`for_answer`)."""
        answers: dict[EventId, Event] = {}
        members = Members(self._log, task)
        async with Deadline(f"the answer to super-task {task}", timeout):
            async for entry in entries:
                if not isinstance(entry, Recorded) or await members.take(entry) is None:
                    continue
                event = entry.event
                data = event.data
                if isinstance(data, AnswerSubmitted):
                    answers[event.id] = event
                elif isinstance(data, TaskClosed) and event.thread == MAIN_THREAD:
                    return answer_of(task, data, answers)
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

        The assignee finishes or fails; its dead letter is a failure. Whoever takes part may
        cancel.

        Args:
            task: the super-task.
            assignments: the ids of the ``assignment.made`` events.
            timeout: how long at most.
            thread: the thread they were made in, when all were made in one.
            after: the sequence of the first of them; the log is read from there.

        Raises:
            ThreadClosedError: the thread that one was made in, or the task, ended first.
            TaskNotFoundError, ThreadNotFoundError: there is none.
            WaitTimeoutError: not all ended in time.
        """
        waiting = set(assignments)
        results: dict[EventId, AssignmentResult] = {}
        if not waiting:
            return results
        await self._log.check_exists(task, thread or MAIN_THREAD)
        what = f"the results of {len(waiting)} assignments"
        after = max(0, after - 1)
        made: dict[EventId, Event] = {}
        given = {MAIN_THREAD} if thread is None else {MAIN_THREAD, thread}
        ends = set(given)
        async with Deadline(what, timeout), self.following(task, thread, after) as entries:
            async for recorded in self._counting(entries, task, ends, after):
                event = recorded.event
                result = result_of(event)
                if isinstance(event.data, AssignmentMade) and event.id in waiting:
                    made[event.id] = event
                elif (
                    result is not None
                    and result.assignment in waiting
                    and may_settle(event, made.get(result.assignment))
                ):
                    made.pop(result.assignment, None)
                    waiting.discard(result.assignment)
                    results[result.assignment] = result
                    if not waiting:
                        break
                else:
                    continue
                # Only a thread in which something is still to come can end the wait.
                ends.clear()
                ends.update(given, (event.thread for event in made.values()))
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
            MentionFailedError: the agent gave it up, or ended its turn without a reply.
            ThreadClosedError: the thread, or the task, ended first.
            TaskNotFoundError, ThreadNotFoundError: there is none.
            WaitTimeoutError: no reply in time.
        """
        await self._log.check_exists(task, thread)
        async with self.following_reply(task, thread, message, agent, after) as entries:
            return await self.reply_from(entries, task, thread, message, agent, timeout, after)

    async def reply_from(
        self,
        entries: AsyncIterator[Entry],
        task: TaskId,
        thread: ThreadId,
        message: EventId,
        agent: AgentName,
        timeout: timedelta,
        after: int = 0,
        *,
        known_open: bool = False,
    ) -> Event:
        """Take entries until *agent* has answered (see :meth:`for_reply`)."""
        what = f"the reply of {agent}"
        aside: Event | None = None
        ends = {MAIN_THREAD, thread}
        usual = usual_reply_id(message, agent)
        async with Deadline(what, timeout):
            async for recorded in self._counting(entries, task, ends, after, known_open=known_open):
                event = recorded.event
                if event.cause != message or event.sender != agent:
                    continue
                if isinstance(event.data, MentionDeadLettered):
                    error = event.data.error
                    raise MentionFailedError(agent, error.kind, error.message)
                if isinstance(event.data, HandlingEnded):
                    return spoken(aside, agent)
                if event.data.TYPE in _REPLIES:
                    if event.id == usual or not is_aside(event):
                        return event
                    # A question to a third agent, or a word on the way: the reply may follow.
                    aside = aside if event.mentions else event
        raise WaitTimeoutError(what, timeout.total_seconds())

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
            TaskNotFoundError: there is none.
            WaitTimeoutError: no answer in time; the request stays.
        """
        what = f"the input to request {request}"
        await self._log.check_exists(task, MAIN_THREAD)
        async with Deadline(what, timeout), self.following(task, MAIN_THREAD, after) as entries:
            async for recorded in self._counting(entries, task, {MAIN_THREAD}, after):
                data = recorded.event.data
                if isinstance(data, InputGiven) and data.request == request:
                    return recorded.event
        raise WaitTimeoutError(what, timeout.total_seconds())

    async def for_votes(
        self, task: TaskId, proposal: EventId, *, timeout: timedelta = DEFAULT_WAIT
    ) -> VoteResult:
        """Wait until every voter has voted, the quorum is out of doubt, or the vote is over.

        A vote counts when the server stored it by the proposal's deadline.

        Returns:
            The votes so far; at a timeout with those that are missing, never an error for it.

        Raises:
            ThreadClosedError: the thread of the proposal, or the task, ended first.
            TaskNotFoundError: there is none.
            WaitTimeoutError: there was no such proposal in time.
        """
        await self._log.check_exists(task, MAIN_THREAD)
        made: ProposalMade | None = None
        votes: dict[AgentName, VoteVerdict] = {}
        ends = {MAIN_THREAD}
        try:
            async with (
                Deadline("the proposal", timeout) as limit,
                self.following(task) as entries,
            ):
                async for recorded in self._counting(entries, task, ends):
                    event = recorded.event
                    if event.id == proposal and isinstance(event.data, ProposalMade):
                        made = event.data
                        ends.add(event.thread)
                        end_by(limit, made.deadline_at)
                    elif made is not None:
                        verdict = _vote(recorded, proposal, made)
                        if verdict is not None:
                            votes[event.sender] = verdict
                    if made is not None and votes_on(proposal, made, votes).decided:
                        break
        except WaitTimeoutError:
            if made is None:
                raise
        if made is None:
            raise WaitTimeoutError("the proposal", timeout.total_seconds())
        return votes_on(proposal, made, votes)

    async def for_close(
        self, task: TaskId, thread: ThreadId = MAIN_THREAD, *, timeout: timedelta = DEFAULT_WAIT
    ) -> Event:
        """Wait until a thread, or its whole task, is closed; return the event that closed it.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none.
            WaitTimeoutError: it was not closed in time.
        """
        await self._log.check_exists(task, thread)
        what = f"the end of thread {thread}"
        last: Event | None = None
        async with Deadline(what, timeout), self.following(task, thread) as entries:
            try:
                async for recorded in self._counting(entries, task, {MAIN_THREAD, thread}):
                    last = recorded.event
            except ThreadClosedError:
                if last is not None:
                    return last
        raise TaskNotFoundError(task)

    def following(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0, *, new: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Entry]]:
        """Follow what a wait in *thread* needs to see: its events, and the end of the task.

        Of a *new* task nothing is there yet: only what comes from now on is awaited.
        """
        only = thread if thread == MAIN_THREAD else None
        return self._log.following(task, only, after, new=new)

    def following_controls(self, task: TaskId) -> AbstractAsyncContextManager[AsyncIterator[Entry]]:
        """Follow only what opens, changes and closes the super-task, from its opening on."""
        return self._log.following(task, MAIN_THREAD, controls=True)

    def following_reply(
        self,
        task: TaskId,
        thread: ThreadId,
        message: EventId,
        agent: AgentName,
        after: int = 0,
        *,
        new: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[Entry]]:
        """Follow what a wait for *agent* needs to see: what it says, and who comes, goes, closes.

        Of its observations only those that name *message*: it makes one for each of its turns.

        Where the message is *new*, the guard has just said that its thread is open. Whether the
        task is, is looked at when the reply is slow to come.
        """

        named = message.encode()

        def wanted(stored: StoredMessage) -> bool:
            tokens = stored.subject.split(".")
            if len(tokens) < 5 or tokens[3] == EventClass.CTL:
                return True
            if tokens[4] != agent:
                return False
            # Who writes JSON may escape any character.
            return tokens[3] != EventClass.OBS or named in stored.body or b"\\u" in stored.body

        async def is_task_open() -> None:
            await self._log.check_open(task, MAIN_THREAD)

        return self._log.following(
            task,
            thread if thread == MAIN_THREAD else None,
            after,
            new=new,
            wanted=wanted,
            first_look=is_task_open if new and thread != MAIN_THREAD else None,
        )

    def _counting(
        self,
        entries: AsyncIterator[Entry],
        task: TaskId,
        ends: set[ThreadId],
        after: int = 0,
        *,
        known_open: bool = False,
    ) -> Counted:
        return Counted(entries, Members(self._log, task, after), ends, known_open=known_open)


def _vote(recorded: Recorded, proposal: EventId, made: ProposalMade) -> VoteVerdict | None:
    data = recorded.event.data
    if not isinstance(data, VoteCast) or data.proposal != proposal:
        return None
    if recorded.event.sender not in made.voters:
        return None
    in_time = made.deadline_at is None or recorded.stored_at <= made.deadline_at
    return data.verdict if in_time else None
