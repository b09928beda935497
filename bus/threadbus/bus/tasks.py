"""Super-tasks: open with a question, ask for input, submit an answer, close, cancel, list."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta

from threadbus.bus.appended import Appended
from threadbus.bus.errors import InvalidTransitionError, TaskNotFoundError, ThreadClosedError
from threadbus.bus.speaker import Speaker
from threadbus.bus.state import TaskState
from threadbus.bus.summaries import TaskSummary, summarize
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    Event,
    EventId,
    InputGiven,
    InputRequested,
    LogPlaces,
    Part,
    Parts,
    Recorded,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    ThreadClosed,
    ThreadId,
    ThreadOutcome,
    as_parts,
    derive_event_id,
    new_task_id,
    parse_agent_name,
    text_of,
)


class Tasks:
    """What one speaker does with super-tasks."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    async def open(
        self,
        question: str | Part | Sequence[Part],
        *,
        to: Sequence[str],
        participants: Sequence[str] = (),
        title: str = "",
        awaited: bool = True,
        token_budget: int | None = None,
        deadline: timedelta | None = None,
        labels: Mapping[str, str] | None = None,
        task: TaskId | None = None,
        event_id: EventId | None = None,
        cause: EventId | None = None,
    ) -> Appended:
        """Open a super-task and ask its question, in one append.

        Args:
            question: text, or parts; large ones go to the object store.
            to: who is asked, at most 16; they are woken.
            participants: who else may speak in the main thread.
            title: for lists; the beginning of the question when absent.
            awaited: the speaker follows the log for the answer, so it need not be mentioned.
            token_budget: model tokens that the whole task may use.
            deadline: how long the task may take.
            labels: for programs that sort tasks.
            task: the id; a new one when absent.
            event_id: the event's id, where it is derived.
            cause: the event, of another task, that made it necessary.

        Returns:
            Where it landed; ``.event.task`` is the super-task's id.

        Raises:
            UnknownAgentError: somebody named is not registered; has the nearest names.
            InvalidTransitionError: *task* was opened before, by another event.
            AppendError: the server refused or did not answer.

        Cancellation: the task may or may not be open.
        """
        parts = as_parts(question)
        asked = [parse_agent_name(name) for name in to]
        others = [parse_agent_name(name) for name in participants]
        everybody = [name for name in (*asked, *others) if name != self._speaker.name]
        await self._speaker.registry.check_known(everybody)
        return await self._speaker.say(
            TaskOpened(
                title=title or _title(parts),
                participants=tuple(dict.fromkeys(everybody)),
                parts=parts,
                awaited=awaited,
                token_budget=token_budget,
                deadline_at=None
                if deadline is None
                else time.time_ns() + int(deadline.total_seconds() * 1e9),
                labels=dict(labels or {}),
            ),
            task=new_task_id() if task is None else task,
            mentions=asked,
            cause=cause,
            event_id=event_id,
        )

    async def set_status(
        self, task: TaskId, status: TaskStatus, note: str = "", *, cause: EventId | None = None
    ) -> Appended:
        """Say where the task stands; it is ended by closing it.

        Raises:
            InvalidTransitionError: *status* is a final one.
        """
        if status.is_final:
            raise InvalidTransitionError(
                f"status {status}", "it ends the task", ["close", "cancel"]
            )
        return await self._speaker.say(
            TaskStatusChanged(status=status, note=note), task=task, cause=cause
        )

    async def request_input(
        self,
        task: TaskId,
        content: str | Part | Sequence[Part],
        *,
        awaited: bool = True,
        auth: bool = False,
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Ask whoever opened the task for something that only they know.

        With *auth* they are to sign in or hand over a credential, beside the bus.
        """
        return await self._speaker.say(
            InputRequested(parts=as_parts(content), awaited=awaited, auth=auth),
            task=task,
            cause=cause,
            event_id=event_id,
        )

    async def give_input(
        self,
        task: TaskId,
        content: str | Part | Sequence[Part],
        *,
        request: EventId | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Appended:
        """Answer a request for input; of two answers to one request the first counts.

        Args:
            task: the super-task.
            content: the answer.
            request: which request; may be left out where there is just one.
            labels: for programs.

        Raises:
            InvalidTransitionError: nothing is asked, several are and none is named, or answered.
            ThreadClosedError: the super-task has ended.

        Cancellation: the answer may or may not be given.
        """
        state = await self.state(task)
        state.thread(MAIN_THREAD).check_open()
        if request is None:
            if len(state.requests) != 1:
                raise InvalidTransitionError(
                    f"an answer to {task}",
                    f"{len(state.requests)} questions are open",
                    [str(key) for key in state.requests] or ["wait for a question"],
                )
            (request,) = state.requests
        asked = state.requests.get(request)
        if asked is None:
            raise InvalidTransitionError(
                f"an answer to request {request}",
                "it was answered or never asked",
                [str(key) for key in state.requests] or ["wait for a question"],
            )
        data = asked.event.data
        waits = isinstance(data, InputRequested) and data.awaited
        given = await self._speaker.say(
            InputGiven(request=request, parts=as_parts(content), labels=dict(labels or {})),
            task=task,
            mentions=() if waits else (asked.event.sender,),
            cause=request,
            # One id for one request: of two answers at once the server takes the first.
            event_id=derive_event_id(request, AgentName("input"), 0),
        )
        if given.duplicate:
            # It may be our own that was sent again, or that of somebody who was faster.
            async for entry in self._speaker.log.read(task, MAIN_THREAD, given.seq - 1):
                if isinstance(entry, Recorded):
                    stored, own = entry.event, given.event
                    if stored.sender == own.sender and stored.data == own.data:
                        return Appended(entry.seq, stored, duplicate=True)
                break
            raise InvalidTransitionError(
                f"an answer to request {request}", "it was answered just now", ["read the answer"]
            )
        return given

    async def add_artifact(
        self,
        task: TaskId,
        name: str,
        part: Part,
        *,
        thread: ThreadId = MAIN_THREAD,
        description: str = "",
        chunk_of: EventId | None = None,
        more: bool = False,
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Add something that outlives the conversation; large content goes to the object store.

        *chunk_of* is the event with the first chunk, for a later one; *more*: another one follows.
        """
        return await self._speaker.say(
            ArtifactAdded(
                name=name, part=part, description=description, chunk_of=chunk_of, more=more
            ),
            task=task,
            thread=thread,
            cause=cause,
            event_id=event_id,
        )

    async def submit_answer(
        self,
        task: TaskId,
        content: str | Part | Sequence[Part],
        *,
        cause: EventId | None = None,
        event_id: EventId | None = None,
        sources: Sequence[EventId] = (),
        dissent: Sequence[str] = (),
        mentions: Sequence[str] = (),
        summary: str = "",
    ) -> Appended:
        """Submit an answer and close the task with it. Idempotent for one *event_id*.

        Raises:
            ThreadClosedError: the task ended before, with another answer or without one.

        Cancellation: the answer may stand without the task being closed; submit it again with the
        same *event_id*.
        """
        answer = await self._speaker.event(
            AnswerSubmitted(
                parts=as_parts(content), sources=tuple(sources), dissent=tuple(dissent)
            ),
            task=task,
            mentions=mentions,
            cause=cause,
            event_id=event_id,
        )
        closing = await self._speaker.event(
            TaskClosed(outcome=TaskStatus.COMPLETED, summary=summary, answer=answer.id),
            task=task,
            cause=answer.id,
            event_id=derive_event_id(answer.id, self._speaker.name, "close"),
        )
        try:
            pair = await self._speaker.say_pair(answer, closing)
        except ThreadClosedError:
            main = await self._speaker.log.thread(task, MAIN_THREAD)
            if closing.id not in main.control_seqs:
                raise
            return await self._submitted(answer)
        if not pair.is_alone:
            await self._close_threads(task, TaskStatus.COMPLETED, pair.second.event.id)
        return pair.first

    async def _submitted(self, answer: Event) -> Appended:
        """Return where an answer is that the task was closed with before."""
        async with aclosing(self._speaker.log.read(answer.task, MAIN_THREAD)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded) and entry.event.id == answer.id:
                    return Appended(entry.seq, entry.event, duplicate=True)
        raise TaskNotFoundError(answer.task)

    async def close(
        self,
        task: TaskId,
        outcome: TaskStatus,
        *,
        summary: str = "",
        answer: EventId | None = None,
        rejected: bool = False,
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """End a super-task: its main thread, then those that are still open. The first one wins.

        A failure is *rejected* where nobody took the task on.

        Raises:
            InvalidTransitionError: *outcome* is not a final status.
            ThreadClosedError: it has ended before.

        Cancellation: the task may or may not be closed.
        """
        if not outcome.is_final:
            raise InvalidTransitionError(
                f"closing with {outcome}", "it is not an end", ["completed", "failed", "cancelled"]
            )
        closed = await self._speaker.say(
            TaskClosed(outcome=outcome, summary=summary, answer=answer, rejected=rejected),
            task=task,
            cause=cause,
            event_id=event_id,
        )
        await self._close_threads(task, outcome, closed.event.id)
        return closed

    async def _close_threads(self, task: TaskId, outcome: TaskStatus, cause: EventId) -> None:
        how = {
            TaskStatus.COMPLETED: ThreadOutcome.CONCLUDED,
            TaskStatus.FAILED: ThreadOutcome.FAILED,
        }.get(outcome, ThreadOutcome.CANCELLED)
        for state in await self._speaker.log.threads(task):
            # A thread that the speaker is not in stays open in name; its task has ended.
            if state.is_open and self._speaker.name in state.participants:
                try:
                    await self._speaker.say(
                        ThreadClosed(outcome=how, summary=f"the super-task is {outcome}"),
                        task=task,
                        thread=state.thread,
                        cause=cause,
                    )
                except ThreadClosedError:
                    continue

    async def cancel(self, task: TaskId, reason: str = "") -> Appended:
        """End a super-task without an answer; agents that work on it stop.

        Raises:
            ThreadClosedError: it has ended before.
        """
        return await self.close(task, TaskStatus.CANCELLED, summary=reason)

    async def state(self, task: TaskId) -> TaskState:
        """Read a whole super-task and return where it stands.

        Raises:
            TaskNotFoundError: there is none.

        Cancellation: safe.
        """
        state = TaskState(task=task)
        async for entry in self._speaker.log.read(task):
            if isinstance(entry, Recorded):
                state.apply(entry)
        if not state.exists:
            raise TaskNotFoundError(task)
        return state

    async def list(self, *, limit: int = 50, prefix: str = "") -> Sequence[TaskSummary]:
        """Return super-tasks, the newest first.

        Args:
            limit: at most so many.
            prefix: only those whose id begins so.

        Cancellation: safe.
        """
        mains: dict[TaskId, list[Recorded]] = {}
        async for recorded in self._speaker.log.openings(prefix):
            mains.setdefault(recorded.event.task, []).append(recorded)
        # As they were read: sequences of several partitions are in no order.
        newest = [*reversed(mains)][:limit]
        return [summary for task in newest if (summary := summarize(task, mains[task])) is not None]

    def controls(self, after: LogPlaces | None = None) -> AsyncGenerator[Recorded]:
        """Read what opens, changes and ends super-tasks, of all of them, in log order.

        Args:
            after: only what is later than these places; all when absent.

        Cancellation: safe.
        """
        return self._speaker.log.openings(after=after)


def _title(parts: Parts) -> str:
    first = text_of(parts).strip().split("\n", 1)[0].rstrip()
    return first if len(first) <= 120 else f"{first[:119]}…"
