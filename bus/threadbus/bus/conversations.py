"""Moves of a conversation: hand the floor on, give out work and pause, wake, conclude.

Pause and trigger. A move with triggers mentions the one who makes it. That mention stays in the
inbox, unacknowledged, until the triggers have ended: it is the timer, it outlives every process,
and whoever runs the agent appends the wake (docs/adr/0010). Those who do the work need to know
nothing of it, so every way in which an assignment ends is a trigger, also that nobody ends it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from threadbus.bus.appended import Appended
from threadbus.bus.assignments import (
    Assigned,
    Job,
    as_stored,
    made_behind,
    outcomes_of,
    woken_by_result,
)
from threadbus.bus.errors import (
    InvalidTransitionError,
    ThreadClosedError,
    WaitTimeoutError,
)
from threadbus.bus.floor import Pause, check_may_conclude
from threadbus.bus.outcomes import AssignmentResult
from threadbus.bus.speaker import Speaker
from threadbus.bus.waits import Waits
from threadbus.schemas import (
    MAIN_THREAD,
    MAX_NOTE_CHARS,
    MAX_TRIGGERS,
    AnyData,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ConversationState,
    Event,
    EventId,
    MessagePosted,
    Part,
    Recorded,
    TaskId,
    ThreadClosed,
    ThreadId,
    ThreadStateChanged,
    as_parts,
    clean_text,
    derive_event_id,
    new_event_id,
    parse_agent_name,
)

DEFAULT_PAUSE: Final = timedelta(minutes=10)
LONGEST_PAUSE: Final = timedelta(days=30)


class Conversations:
    """What one speaker does with the conversation of a thread."""

    def __init__(self, speaker: Speaker, waits: Waits) -> None:
        self._speaker = speaker
        self._waits = waits

    async def hand_on(
        self,
        task: TaskId,
        thread: ThreadId,
        to: Sequence[str],
        *,
        reason: str = "",
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Give the floor of a discussion to others; they are woken.

        Raises:
            InvalidTransitionError: the speaker has not the floor, or the discussion rests.
            NotAParticipantError: one of them does not take part.

        Cancellation: the floor may or may not be theirs.
        """
        named = [parse_agent_name(name) for name in to]
        return await self._speaker.say(
            ThreadStateChanged(
                state=ConversationState.DISCUSSION, next_speakers=tuple(named), reason=reason
            ),
            task=task,
            thread=thread,
            mentions=named,
            cause=cause,
            event_id=event_id,
        )

    async def assign(
        self,
        task: TaskId,
        thread: ThreadId,
        jobs: Sequence[Job],
        *,
        sync: bool = False,
        timeout: timedelta = DEFAULT_PAUSE,
        reason: str = "",
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Assigned:
        """Give out work and pause; the speaker is woken once, when all of it has ended.

        The results themselves mention nobody.

        Args:
            task: the super-task.
            thread: the thread in it.
            jobs: who is to do what.
            sync: the discussion rests until then; otherwise the others may go on with it.
            timeout: after which the speaker is woken all the same.
            reason: why.
            cause: the event that made it necessary.
            event_id: the id of the move, where it is derived; the assignments' are derived from it.

        Raises:
            InvalidTransitionError: the thread is in a state that does not allow it, there is no
                job or more than 64, or *timeout* is none.
            NotAParticipantError: an assignee does not take part.

        Cancellation: call it again with the same *event_id* to be sure.
        """
        move = new_event_id() if event_id is None else event_id
        if not 1 <= len(jobs) <= MAX_TRIGGERS:
            raise InvalidTransitionError(
                f"giving out {len(jobs)} jobs", "there are too few or too many", ["1 to 64 jobs"]
            )
        assignees = [parse_agent_name(job.assignee) for job in jobs]
        ids = [derive_event_id(move, self._speaker.name, number) for number in range(len(jobs))]
        pause = await self._pause(
            ConversationState.SYNC_ASSIGNMENT if sync else ConversationState.ASYNC_ASSIGNMENT,
            task,
            thread,
            ids,
            timeout,
            next_speakers=list(dict.fromkeys(assignees)),
            reason=reason,
            cause=cause,
            event_id=move,
        )
        stored = pause.event.data
        deadline_at = stored.deadline_at if isinstance(stored, ThreadStateChanged) else None
        there = set[EventId]()
        if pause.duplicate:
            there = await made_behind(self._speaker.log, pause)
        for job, assignee, assignment in zip(jobs, assignees, ids, strict=True):
            if assignment in there:
                continue
            made = AssignmentMade(
                assignee=assignee,
                parts=as_parts(job.content),
                title=job.title,
                # The pause follows the log for the result, so the result need wake nobody.
                mode=AssignmentMode.SYNC,
                deadline_at=deadline_at,
            )
            await self._speaker.say(
                made,
                task=task,
                thread=thread,
                mentions=[assignee],
                cause=move,
                event_id=assignment,
            )
        return Assigned(pause, tuple(ids))

    async def pause(
        self,
        task: TaskId,
        thread: ThreadId,
        triggers: Sequence[EventId],
        *,
        timeout: timedelta = DEFAULT_PAUSE,
        reason: str = "",
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Let the discussion rest until assignments that were made before have ended.

        Args:
            task: the super-task.
            thread: the thread in it.
            triggers: the assignments, of any thread of the super-task.
            timeout: after which the speaker is woken all the same.
            reason: why.
            cause: the event that made it necessary.
            event_id: the id of the move, where it is derived.

        Raises:
            InvalidTransitionError: there are no triggers, or the state does not allow it.
        """
        return await self._pause(
            ConversationState.PAUSED,
            task,
            thread,
            triggers,
            timeout,
            reason=reason,
            cause=cause,
            event_id=event_id,
        )

    async def wake(self, recorded: Recorded) -> Appended | None:
        """Wait for the triggers of a pause of this speaker, and end the pause once.

        The runner of an agent calls it for the mention that a pause is. Whoever handles mentions
        without one calls it too, before that mention is acknowledged.

        Returns:
            The wake; None where the pause has ended, or with the thread.

        Raises:
            AppendError, ReadError: the log is out of reach; call it again.

        Cancellation: safe; call it again.
        """
        event = recorded.event
        task, thread = event.task, event.thread
        try:
            state = await self._speaker.log.existing_thread(task, thread)
            pause = state.pauses.get(event.id)
            if pause is None or not state.is_open:
                return None
            reason = await self._triggered(task, thread, pause)
            return None if reason is None else await self._end(event, pause, reason)
        except (ThreadClosedError, InvalidTransitionError):
            # It concludes, or is over: whoever closes it has the last word.
            return None

    async def outcomes(
        self, task: TaskId, pause: EventId
    ) -> Mapping[EventId, AssignmentResult | None]:
        """Return how the triggers of a pause ended, in their order; None for what did not.

        Raises:
            InvalidTransitionError: the event is no pause of this super-task.
        """
        return await outcomes_of(self._speaker.log, task, pause)

    async def conclude(
        self,
        task: TaskId,
        thread: ThreadId,
        content: str | Part | Sequence[Part],
        *,
        summary: str = "",
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Close a thread with its conclusion, which goes up to the parent as a result.

        Where the thread was opened for an assignment in its parent, the conclusion finishes it;
        otherwise it is posted there as a message.

        Args:
            task: the super-task.
            thread: the thread; not the main one, which ends with the answer.
            content: the conclusion.
            summary: for lists; the beginning of the text when absent.
            cause: the event that made it necessary.
            event_id: the id of the close, where it is derived.

        Returns:
            The event in the parent thread.

        Raises:
            InvalidTransitionError: it is the main thread, or not the speaker's to conclude.
            ThreadClosedError: the thread or its parent has ended.

        Cancellation: call it again with the same *event_id* to be sure.
        """
        if thread == MAIN_THREAD:
            raise InvalidTransitionError(
                "concluding the main thread", "it ends with the task", ["submit an answer"]
            )
        state = await self._speaker.log.existing_thread(task, thread)
        check_may_conclude(state, self._speaker.name)
        parts = as_parts(content)
        close = new_event_id() if event_id is None else event_id
        text = summary or "\n".join(getattr(part, "text", "") for part in parts)
        await self._speaker.say(
            ThreadClosed(summary=clean_text(text, MAX_NOTE_CHARS)),
            task=task,
            thread=thread,
            cause=cause,
            event_id=close,
        )
        parent = state.parent or MAIN_THREAD
        asker: Sequence[str] = ()
        data: AnyData = MessagePosted(parts=parts)
        if state.assignment is not None:
            data = AssignmentFinished(assignment=state.assignment, parts=parts)
            asker = await woken_by_result(self._speaker.log, task, parent, state.assignment)
        return await self._speaker.say(
            data,
            task=task,
            thread=parent,
            mentions=asker,
            cause=close,
            event_id=derive_event_id(close, self._speaker.name, "conclusion"),
        )

    async def _pause(
        self,
        state: ConversationState,
        task: TaskId,
        thread: ThreadId,
        triggers: Sequence[EventId],
        timeout: timedelta,
        *,
        next_speakers: Sequence[str] = (),
        reason: str,
        cause: EventId | None,
        event_id: EventId | None,
    ) -> Appended:
        if not timedelta(0) < timeout <= LONGEST_PAUSE:
            raise InvalidTransitionError(
                f"a pause of {timeout}",
                "it would never end well",
                ["30 days at most"],
            )
        data = ThreadStateChanged(
            state=state,
            next_speakers=tuple(next_speakers),
            reason=reason,
            triggers=tuple(triggers),
            deadline_at=time.time_ns() + int(timeout.total_seconds() * 1e9),
        )
        appended = await self._speaker.say(
            data,
            task=task,
            thread=thread,
            mentions=[self._speaker.name],
            cause=cause,
            event_id=event_id,
        )
        # What stands is what counts: its deadline was set when the turn ran before.
        return await as_stored(self._speaker.log, appended) if appended.duplicate else appended

    async def _triggered(self, task: TaskId, thread: ThreadId, pause: Pause) -> str | None:
        """Wait; return why the pause ends, None where the thread has."""
        # Work that was given out with the pause is behind it, and in its thread.
        own = pause.state is not ConversationState.PAUSED
        left = 0.0
        if pause.deadline_at is not None:
            left = max(0.0, (pause.deadline_at - time.time_ns()) / 1e9)
        try:
            results = await self._waits.for_results(
                task,
                pause.triggers,
                timeout=timedelta(seconds=left),
                thread=thread if own else None,
                after=pause.seq if own else 0,
            )
        except WaitTimeoutError:
            return "the deadline has passed"
        except ThreadClosedError as closed:
            if closed.thread in {MAIN_THREAD, thread}:
                return None
            return f"thread {closed.thread}, where one of them was made, is closed"
        done = sum(result.ok for result in results.values())
        rest = len(results) - done
        failed = f", {rest} ended without a result" if rest else ""
        return f"{done} of {len(results)} assignments finished{failed}"

    async def _end(self, event: Event, pause: Pause, reason: str) -> Appended:
        name = self._speaker.name
        return await self._speaker.say(
            ThreadStateChanged(
                state=ConversationState.DISCUSSION,
                next_speakers=(name,),
                reason=reason,
                wakes=pause.event,
            ),
            task=event.task,
            thread=event.thread,
            mentions=[name],
            cause=event.id,
            event_id=derive_event_id(event.id, name, "wake"),
        )
