"""The floor of a thread as a handler uses it: give out work and pause, hand on, conclude.

Every move has an id derived from the mention, so a turn that runs again after a crash makes the
same moves once. A turn that has made one ends: what comes next wakes the agent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from threadbus.agents.mention import Content, Mention
from threadbus.bus import DEFAULT_PAUSE, Appended, Assigned, AssignmentResult, Job
from threadbus.schemas import (
    ConversationState,
    EventId,
    ThreadId,
    ThreadStateChanged,
    derive_event_id,
    derive_thread_id,
)


class Floor:
    """What one turn does with the conversation of a thread; the mention's own by default."""

    def __init__(self, mention: Mention, thread: ThreadId | None = None) -> None:
        self._mention = mention
        self._thread = thread or mention.thread
        self._moves = 0

    @property
    def thread(self) -> ThreadId:
        """The thread."""
        return self._thread

    @property
    def woken_from(self) -> EventId | None:
        """The pause whose end woke the agent; None where something else did."""
        data = self._mention.event.data
        if isinstance(data, ThreadStateChanged) and data.wakes is not None:
            return EventId(data.wakes)
        return None

    @property
    def is_concluding(self) -> bool:
        """Whether the agent was woken because the turns of the thread are used up."""
        data = self._mention.event.data
        return isinstance(data, ThreadStateChanged) and data.state is ConversationState.CONCLUSION

    async def outcomes(self) -> Mapping[EventId, AssignmentResult | None]:
        """Return how the work ended that the agent was woken from; None for what did not end.

        Empty where no pause woke it.
        """
        pause = self.woken_from
        if pause is None:
            return {}
        return await self._mention.bus.conversations.outcomes(self._mention.task, pause)

    async def assign(
        self,
        jobs: Sequence[Job],
        *,
        sync: bool = False,
        timeout: timedelta = DEFAULT_PAUSE,
        reason: str = "",
    ) -> Assigned:
        """Give out work and pause; this agent is woken once, when all of it has ended.

        Raises:
            InvalidTransitionError, NotAParticipantError: see :meth:`Conversations.assign`.
        """
        return await self._mention.bus.conversations.assign(
            self._mention.task,
            self._thread,
            jobs,
            sync=sync,
            timeout=timeout,
            reason=reason,
            cause=self._mention.event.id,
            event_id=self._next_id(),
        )

    async def hand_on(self, to: Sequence[str], *, reason: str = "") -> Appended:
        """Give the floor to others; they are woken."""
        return await self._mention.bus.conversations.hand_on(
            self._mention.task,
            self._thread,
            to,
            reason=reason,
            cause=self._mention.event.id,
            event_id=self._next_id(),
        )

    async def conclude(self, content: Content, *, summary: str = "") -> Appended:
        """Close the thread; what it came to goes up to the parent as a result."""
        return await self._mention.bus.conversations.conclude(
            self._mention.task,
            self._thread,
            content,
            summary=summary,
            cause=self._mention.event.id,
            event_id=self._next_id(),
        )

    def _next_id(self) -> EventId:
        self._moves += 1
        place = f"floor-{self._thread}-{self._moves}"
        return derive_event_id(self._mention.event.id, self._mention.agent, place)


async def open_team(
    mention: Mention,
    title: str,
    members: Sequence[str],
    *,
    goal: str = "",
    max_turns: int = 30,
    max_members: int = 16,
    max_depth: int | None = None,
    assignment: EventId | None = None,
) -> Floor:
    """Open a thread for a team below the mention's own; the same one when the turn runs again.

    Args:
        mention: what makes the team necessary.
        title: what it is about.
        members: who takes part, beside this agent.
        goal: what it is to reach.
        max_turns: after how many messages and moves it concludes.
        max_members: how many may take part, this agent included.
        max_depth: how many levels of teams may grow below it.
        assignment: the assignment that the team works on; its conclusion is the result.

    Raises:
        TeamLimitError: it is too large, or lies too deep.
        UnknownAgentError: a member is not registered.
    """
    event_id = derive_event_id(mention.event.id, mention.agent, f"team-{title[:80]}")
    opened = await mention.bus.threads.open(
        mention.task,
        title,
        participants=members,
        parent=mention.thread,
        goal=goal,
        max_turns=max_turns,
        max_members=max_members,
        max_depth=max_depth,
        assignment=assignment,
        thread=derive_thread_id(title, event_id, mention.agent, 0),
        cause=mention.event.id,
        event_id=event_id,
    )
    return Floor(mention, opened.event.thread)
