"""Threads of a super-task: open them, let agents in and out, close them with a summary."""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.bus.appended import Appended
from threadbus.bus.errors import InvalidTransitionError, TeamLimitError
from threadbus.bus.speaker import Speaker
from threadbus.bus.state import ThreadState
from threadbus.schemas import (
    MAIN_THREAD,
    ConversationState,
    EventId,
    ParticipantAdded,
    ParticipantRemoved,
    TaskId,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    ThreadOutcome,
    ThreadStateChanged,
    new_thread_id,
    parse_agent_name,
)


class Threads:
    """What one speaker does with threads."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    async def open(
        self,
        task: TaskId,
        title: str,
        *,
        participants: Sequence[str] = (),
        parent: ThreadId = MAIN_THREAD,
        goal: str = "",
        max_turns: int | None = None,
        max_members: int | None = None,
        max_depth: int | None = None,
        assignment: EventId | None = None,
        thread: ThreadId | None = None,
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Open a thread in a super-task; the speaker is a participant.

        Args:
            task: the super-task.
            title: what the thread is about, at most 400 characters.
            participants: registered agents that are in it from the start.
            parent: the thread that it grows from; the speaker must be in it.
            goal: what it is to reach.
            max_turns: after how many messages and moves its conversation concludes.
            max_members: how many may take part, the speaker included.
            max_depth: how many levels of threads may grow below it; one less than the parent's
                where that has a limit.
            assignment: the speaker's assignment in *parent*, which the conclusion finishes.
            thread: its id; made from the title when absent.
            cause: the event that made it necessary.
            event_id: the event's id, where it is derived.

        Returns:
            Where it landed; ``.event.thread`` is the thread's id.

        Raises:
            UnknownAgentError: a participant is not registered.
            NotAParticipantError: the speaker is not in *parent*.
            ThreadClosedError: *parent* is closed.
            TeamLimitError: *participants* are more than *max_members*, or the thread lies deeper
                than the parent allows.
            InvalidTransitionError: *thread* was opened before, by another event.

        Cancellation: the thread may or may not be open.
        """
        others = [parse_agent_name(name) for name in participants if name != self._speaker.name]
        await self._speaker.registry.check_known(others)
        await self._speaker.log.check_may_speak(task, parent, self._speaker.name)
        if max_members is not None and len(set(others)) + 1 > max_members:
            raise TeamLimitError("members", len(set(others)) + 1, max_members, title)
        allowed = (await self._speaker.log.thread(task, parent)).max_depth
        if allowed is not None:
            if allowed == 0 or (max_depth is not None and max_depth > allowed - 1):
                raise TeamLimitError("depth", 1 + (max_depth or 0), allowed, title)
            max_depth = allowed - 1 if max_depth is None else max_depth
        return await self._speaker.say(
            ThreadOpened(
                title=title,
                participants=tuple(others),
                parent=parent,
                goal=goal,
                max_turns=max_turns,
                max_members=max_members,
                max_depth=max_depth,
                assignment=assignment,
            ),
            task=task,
            thread=new_thread_id(title) if thread is None else thread,
            cause=cause,
            event_id=event_id,
        )

    async def add(
        self, task: TaskId, thread: ThreadId, participant: str, *, cause: EventId | None = None
    ) -> Appended:
        """Let an agent into a thread.

        Raises:
            UnknownAgentError: it is not registered.
            InvalidTransitionError: it is in the thread already.
            TeamLimitError: as many take part as may.
            ThreadClosedError, NotAParticipantError: the speaker cannot let anybody in.

        Cancellation: the agent may or may not be in.
        """
        name = parse_agent_name(participant)
        await self._speaker.registry.check_known([name])

        def check(state: ThreadState) -> None:
            if name in state.participants:
                raise InvalidTransitionError(
                    f"adding {name}", "it takes part already", ["mention it"]
                )
            if state.is_full:
                count = len(state.participants) + 1
                raise TeamLimitError("members", count, state.max_members or 0, state.title)

        return await self._speaker.say(
            ParticipantAdded(participant=name), task=task, thread=thread, cause=cause, check=check
        )

    async def remove(
        self,
        task: TaskId,
        thread: ThreadId,
        participant: str,
        *,
        reason: str = "",
        cause: EventId | None = None,
    ) -> Appended:
        """Take an agent out of a thread; what it said stays.

        Raises:
            InvalidTransitionError: it is not in the thread.
            ThreadClosedError, NotAParticipantError: the speaker cannot take anybody out.

        Cancellation: the agent may or may not be out.
        """
        name = parse_agent_name(participant)

        def check(state: ThreadState) -> None:
            if name not in state.participants:
                raise InvalidTransitionError(
                    f"removing {name}", "it does not take part", list(state.participants)
                )

        return await self._speaker.say(
            ParticipantRemoved(participant=name, reason=reason),
            task=task,
            thread=thread,
            cause=cause,
            check=check,
        )

    async def change_state(
        self,
        task: TaskId,
        thread: ThreadId,
        state: ConversationState,
        *,
        next_speakers: Sequence[str] = (),
        triggers: Sequence[EventId] = (),
        deadline_at: int | None = None,
        reason: str = "",
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Move the conversation to another state and say who speaks next.

        :class:`Conversations` has a method for each move that also wakes whom it concerns.

        Args:
            task: the super-task.
            thread: the thread in it.
            state: where it goes.
            next_speakers: who has the floor then.
            triggers: with an assignment or a pause: the assignments that are waited for.
            deadline_at: with those: when the wait ends at the latest, in ns since the epoch.
            reason: why.
            cause: the event that made it necessary.
            event_id: the event's id, where it is derived.

        Raises:
            InvalidTransitionError: the move is not legal now; has the legal ones.
            NotAParticipantError: a next speaker does not take part.

        Cancellation: the move may or may not be made.
        """
        return await self._speaker.say(
            ThreadStateChanged(
                state=state,
                next_speakers=tuple(parse_agent_name(name) for name in next_speakers),
                reason=reason,
                triggers=tuple(triggers),
                deadline_at=deadline_at,
            ),
            task=task,
            thread=thread,
            mentions=[self._speaker.name] if triggers else (),
            cause=cause,
            event_id=event_id,
        )

    async def close(
        self,
        task: TaskId,
        thread: ThreadId,
        *,
        summary: str = "",
        outcome: ThreadOutcome = ThreadOutcome.CONCLUDED,
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Close a thread with a summary; whoever waits in it is woken.

        Raises:
            InvalidTransitionError: it is the main thread, which ends with the task.
            ThreadClosedError: it is closed already; carries the summary that stands.

        Cancellation: the thread may or may not be closed.
        """
        if thread == MAIN_THREAD:
            raise InvalidTransitionError(
                "closing the main thread", "it ends with the task", ["close the task"]
            )
        return await self._speaker.say(
            ThreadClosed(summary=summary, outcome=outcome),
            task=task,
            thread=thread,
            cause=cause,
            event_id=event_id,
        )

    async def state(self, task: TaskId, thread: ThreadId = MAIN_THREAD) -> ThreadState:
        """Return a thread as the log has it now.

        Raises:
            TaskNotFoundError, ThreadNotFoundError: there is none.

        Cancellation: safe.
        """
        return (await self._speaker.log.existing_thread(task, thread)).copy()

    async def list(self, task: TaskId) -> Sequence[ThreadState]:
        """Return every thread of a super-task, the main one first.

        Cancellation: safe.
        """
        states = await self._speaker.log.threads(task)
        return sorted(states, key=lambda state: (state.thread != MAIN_THREAD, state.opened_at))
