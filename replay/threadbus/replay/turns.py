"""Turns: which mention an event belongs to, and what came of it. Constant time for each event."""

from __future__ import annotations

import msgspec

from threadbus.replay.steps import ns
from threadbus.replay.story import Turn, TurnOutcome
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    ContextUsed,
    CritiqueGiven,
    Event,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    InputGiven,
    MentionDeadLettered,
    MentionReceived,
    MessagePosted,
    ModelCalled,
    TaskClosed,
    TaskForked,
    ThreadId,
    ToolCalled,
    ToolReturned,
    VoteCast,
)

_REPLIES = (
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    CritiqueGiven,
    InputGiven,
    VoteCast,
)
_SIGNS_OF_HANDLING = (
    ContextUsed,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MentionReceived,
    ModelCalled,
    ToolCalled,
    ToolReturned,
)


class Known(msgspec.Struct, gc=False):
    """What is kept of every event, so that later ones can refer to it."""

    sender: AgentName
    thread: ThreadId
    seq: int
    at: int
    cause: EventId | None
    turn: Turn | None


class TurnIndex:
    """Every turn so far, found by mention and agent; and every event so far, found by id."""

    def __init__(self) -> None:
        self.known: dict[EventId, Known] = {}
        self._turns: dict[tuple[EventId, AgentName], Turn] = {}
        # Of what was forgotten, for which ids themselves would take too much room.
        self._seen: set[int] = set()
        self._gone: set[int] = set()

    def has_seen(self, event: EventId) -> bool:
        """Whether an event with this id came before."""
        return event in self.known or (bool(self._seen) and hash(event) in self._seen)

    def forget_before(self, seq: int) -> None:
        """Keep no more of earlier events than that they were there."""
        kept: dict[EventId, Known] = {}
        for event, ref in self.known.items():
            if ref.seq >= seq:
                kept[event] = ref
            else:
                self._seen.add(hash(event))
        self.known = kept

    def drop(self, turn: Turn) -> None:
        """Forget a turn; what comes of it later stands outside of turns."""
        self._turns.pop((turn.mention, turn.agent), None)
        self._gone.add(hash((turn.mention, turn.agent)))

    def _is_gone(self, mention: EventId, agent: AgentName) -> bool:
        return bool(self._gone) and hash((mention, agent)) in self._gone

    def find(self, event: Event) -> Turn | None:
        """Return the turn that *event* belongs to, if it is known.

        That is the turn of its sender whose mention is its cause. An agent that follows the log
        for a reply answers the reply instead: then it is the turn in which it asked for that
        reply, or made the event that it refers to.
        """
        cause = event.cause
        if cause is None:
            if not isinstance(event.data, TaskClosed) or event.data.answer is None:
                return None
            cause = EventId(event.data.answer)
        turn = self._turns.get((cause, event.sender))
        if turn is not None:
            return turn
        # Two steps up at most, so that a long chain of causes costs nothing.
        for _ in range(2):
            ref = self.known.get(cause)
            if ref is None:
                return None
            if ref.turn is not None and ref.turn.agent == event.sender:
                return ref.turn
            if ref.cause is None:
                return None
            cause = ref.cause
        return None

    def get(self, mention: EventId, agent: AgentName) -> Turn | None:
        """Return the turn of *agent* for *mention*, if it is known."""
        return self._turns.get((mention, agent))

    def wake(self, seq: int, at: int, event: Event, agent: AgentName, asked: str) -> Turn | None:
        """Note that *event* mentions *agent*.

        Returns:
            The new turn; nothing when the turn was known from events that came before the mention.
        """
        if self._is_gone(event.id, agent):
            return None
        turn = self._turns.get((event.id, agent))
        is_new = turn is None
        if turn is None:
            turn = Turn(agent=agent, mention=event.id, seq=seq, thread=event.thread)
            self._turns[event.id, agent] = turn
        turn.asked_at = at
        turn.woken_by = event.sender
        turn.asked = asked
        return turn if is_new else None

    def wake_again(self, at: int, data: TaskForked) -> None:
        """Note that mentions which were open where a run was forked are put to their agents again.

        How long they waited where they were first said is no part of this run.
        """
        for wake in data.wakes:
            turn = self._turns.get((EventId(wake.event), AgentName(wake.agent)))
            if turn is not None:
                turn.asked_at = at

    def adopt(self, seq: int, event: Event) -> Turn | None:
        """Make the turn for an event that belongs to one although no mention was seen.

        Returns:
            The new turn; nothing when the event need not belong to any.
        """
        cause = event.cause
        if cause is None or not isinstance(event.data, _SIGNS_OF_HANDLING):
            return None
        if self._is_gone(cause, event.sender):
            return None
        turn = Turn(agent=event.sender, mention=cause, seq=seq, thread=event.thread)
        ref = self.known.get(cause)
        if ref is not None:
            turn.seq, turn.asked_at, turn.thread = ref.seq, ref.at, ref.thread
            turn.woken_by = ref.sender
        self._turns[cause, event.sender] = turn
        return turn


def is_reply(turn: Turn, event: Event) -> bool:
    """Whether *event* answers the mention of *turn*, rather than asking somebody else."""
    data = event.data
    if isinstance(data, MessagePosted):
        return not data.awaited and (not event.addressees or turn.woken_by in event.addressees)
    return isinstance(data, _REPLIES)


def note_reply(turn: Turn, at: int) -> None:
    """Note that *turn* has an answer."""
    if turn.replied_at is None:
        turn.replied_at = at
    turn.outcome = TurnOutcome.REPLIED


def note_handling(turn: Turn, at: int, event: Event, stored_at: int) -> None:
    """Note what a receipt or a handling event says of *turn*."""
    match event.data:
        case MentionReceived() as data:
            turn.queue_depth = ns(data.queue_depth)
            turn.busy_with = data.busy_with[:200]
        case HandlingStarted() as data:
            turn.attempt = max(turn.attempt, ns(data.attempt))
            turn.replica = data.replica[:120]
            if turn.started_at is None and turn.asked_at and turn.attempt == 1:
                turn.waited_ns = max(at - turn.asked_at, 0)
            turn.started_at = at
            if turn.outcome in (TurnOutcome.FAILED, TurnOutcome.DEAD_LETTERED):
                turn.outcome = TurnOutcome.OPEN
        case HandlingEnded() as data:
            _note_end(turn, event, data, stored_at)
        case HandlingFailed() as data:
            turn.attempt = max(turn.attempt, ns(data.attempt))
            turn.replica = data.replica[:120]
            turn.outcome = TurnOutcome.FAILED
        case MentionDeadLettered() as data:
            turn.attempt = max(turn.attempt, ns(data.attempts))
            turn.outcome = TurnOutcome.DEAD_LETTERED
        case ContextUsed() as data:
            turn.context_events = ns(data.events)
            turn.context_up_to_seq = ns(data.up_to_seq)
        case _:
            pass


def _note_end(turn: Turn, event: Event, data: HandlingEnded, stored_at: int) -> None:
    received, started, ended = ns(data.received_at), ns(data.started_at), ns(data.ended_at)
    waited = max(started - received, 0)
    attempt = ns(data.attempt)
    if turn.asked_at and attempt == 1:
        # The agent's clock and the server's may differ. This very event was made by the one and
        # stored by the other at about the same moment, which tells by how much.
        ahead = stored_at - event.at if stored_at else 0
        waited = max(waited, started + ahead - turn.asked_at)
    if attempt == 1 or turn.waited_ns is None:
        turn.waited_ns = ns(waited)
    turn.attempt = max(turn.attempt, attempt)
    turn.replica = data.replica[:120]
    turn.received_at, turn.started_at, turn.ended_at = received, started, ended
    turn.worked_ns = max(ended - started, 0)
    turn.outcome = TurnOutcome.FINISHED if turn.replied_at is None else TurnOutcome.REPLIED
