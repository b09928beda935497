"""Who has the floor of a thread, and which moves of its conversation are legal. Pure.

A conversation is a discussion; a discussion in which work was given out and goes on beside it
(``async_assignment``); a wait in which only those with work speak (``sync_assignment``,
``paused``); or a conclusion. Work is given out together with the names of the assignments, and
those are the *triggers* of a pause: it ends by the one move that names it, the wake. So nobody can
forget to pause, and nobody talks on while there is nothing new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from threadbus.bus.errors import InvalidTransitionError, NotAParticipantError
from threadbus.schemas import (
    AgentName,
    AssignmentMade,
    ConversationState,
    Event,
    EventId,
    MessagePosted,
    ThreadStateChanged,
)

if TYPE_CHECKING:
    from threadbus.bus.state import ThreadState

MAX_PAUSES: Final = 64
"""Pauses of one thread that are open at the same time."""

_WAITING: Final = frozenset({ConversationState.SYNC_ASSIGNMENT, ConversationState.PAUSED})
_WITH_TRIGGERS: Final = _WAITING | {ConversationState.ASYNC_ASSIGNMENT}


class Pause(msgspec.Struct, frozen=True):
    """A wait for assignments, from the move that began it to the wake."""

    event: EventId
    seq: int
    by: AgentName
    """Who is woken."""
    state: ConversationState
    triggers: tuple[EventId, ...]
    deadline_at: int | None
    """Nanoseconds since the epoch."""

    @property
    def holds(self) -> bool:
        """Whether the discussion rests until the wake."""
        return self.state in _WAITING


def is_pause(event: Event) -> bool:
    """Whether *event* begins a wait for assignments."""
    data = event.data
    return isinstance(data, ThreadStateChanged) and bool(data.triggers) and data.wakes is None


def holding_pause(state: ThreadState) -> Pause | None:
    """Return the pause in which the discussion rests."""
    return next((pause for pause in state.pauses.values() if pause.holds), None)


def legal_moves(state: ThreadState) -> list[str]:
    """Return the moves that are possible now, in words."""
    if state.conversation is ConversationState.CONCLUSION:
        return ["close the thread"]
    pause = holding_pause(state)
    if pause is not None:
        wake = f"the wake of {pause.by} when the {len(pause.triggers)} assignments have ended"
        return [wake, f"conclusion by {pause.by} or {state.creator}"]
    speakers = list(dict.fromkeys([*state.next_speakers, *filter(None, [state.creator])]))
    by = f" by {' or '.join(speakers)}" if state.next_speakers else ""
    return [f"{move.value}{by}" for move in ConversationState]


def check_move(state: ThreadState, event: Event, data: ThreadStateChanged) -> None:
    """Check that a move may be made, as strictly as whoever writes must.

    Raises:
        InvalidTransitionError: it may not; has the legal ones.
        NotAParticipantError: a next speaker does not take part.
    """
    reason = _refusal(state, event.sender, data) or _lack(state, data)
    if reason:
        what = f"moving thread {state.thread} to {data.state.value}"
        raise InvalidTransitionError(what, reason, legal_moves(state))
    outside = [name for name in data.next_speakers if name not in state.participants]
    if outside:
        raise NotAParticipantError(outside, state.task, state.thread, list(state.participants))


def is_legal(state: ThreadState, sender: AgentName, data: ThreadStateChanged) -> bool:
    """Whether a move that stands in the log counts."""
    return not _refusal(state, sender, data)


def check_speech(state: ThreadState, event: Event) -> None:
    """Check that a conversation which concludes is not gone on with.

    Raises:
        InvalidTransitionError: the sender has no word any more, or gives out new work.
    """
    if state.conversation is not ConversationState.CONCLUSION:
        return
    last = [str(name) for name in state.next_speakers] or [str(state.creator)]
    if isinstance(event.data, AssignmentMade):
        raise InvalidTransitionError(
            f"assigning work in thread {state.thread}", "it concludes", ["close the thread"]
        )
    if isinstance(event.data, MessagePosted) and event.sender not in {*last, state.creator}:
        raise InvalidTransitionError(
            f"speaking in thread {state.thread}",
            "it concludes" + (f": {state.move_reason}" if state.move_reason else ""),
            [f"{' or '.join(last)} writes the conclusion", "wait for the close"],
        )


def check_may_conclude(state: ThreadState, name: AgentName) -> None:
    """Check that *name* may close a thread with its conclusion.

    Raises:
        InvalidTransitionError: others have the floor, or it rests and is another's to wake.
    """
    held = holding_pause(state)
    if held is not None and state.conversation is not ConversationState.CONCLUSION:
        if name in {held.by, state.creator}:
            return
        raise InvalidTransitionError(
            f"concluding thread {state.thread} by {name}",
            f"it rests until {len(held.triggers)} assignments have ended",
            legal_moves(state),
        )
    if name != state.creator and name not in state.next_speakers and state.next_speakers:
        raise InvalidTransitionError(
            f"concluding thread {state.thread} by {name}",
            f"{', '.join(state.next_speakers)} has the floor",
            [f"{state.creator} concludes it"],
        )


def apply_move(state: ThreadState, seq: int, event: Event, data: ThreadStateChanged) -> None:
    """Fold a legal move into *state*."""
    state.move_reason = data.reason
    named = tuple(AgentName(name) for name in data.next_speakers)
    if data.wakes is not None:
        talking = state.conversation is ConversationState.DISCUSSION
        state.pauses.pop(EventId(data.wakes), None)
        held = holding_pause(state)
        state.conversation = ConversationState.DISCUSSION if held is None else held.state
        # Whoever had the floor of a discussion meanwhile keeps it.
        kept = state.next_speakers if talking else ()
        state.next_speakers = tuple(dict.fromkeys([*kept, *named]))
        return
    state.conversation = data.state
    state.next_speakers = named
    if data.triggers:
        triggers = tuple(EventId(trigger) for trigger in data.triggers)
        state.pauses[event.id] = Pause(
            event.id, seq, event.sender, data.state, triggers, data.deadline_at
        )


def _refusal(state: ThreadState, sender: AgentName, data: ThreadStateChanged) -> str:
    """Say why a move does not count; empty where it does."""
    if state.conversation is ConversationState.CONCLUSION:
        return "the conversation concludes"
    if data.wakes is not None:
        pause = state.pauses.get(EventId(data.wakes))
        if pause is None:
            return f"no pause {data.wakes} is open"
        return "" if pause.by == sender else f"the pause is that of {pause.by}"
    if data.state is ConversationState.CONCLUSION and state.max_turns is not None:
        return ""
    held = holding_pause(state)
    if held is not None:
        may = data.state is ConversationState.CONCLUSION and sender in {held.by, state.creator}
        return "" if may else f"it rests until {len(held.triggers)} assignments have ended"
    if state.next_speakers and sender not in {*state.next_speakers, state.creator}:
        return f"{', '.join(state.next_speakers)} has the floor, not {sender}"
    return ""


def _lack(state: ThreadState, data: ThreadStateChanged) -> str:
    """Say what a new move lacks that an old one in the log may have lacked."""
    if data.wakes is not None:
        return "" if data.state is ConversationState.DISCUSSION else "a wake returns to discussion"
    if data.state not in _WITH_TRIGGERS:
        return f"{data.state.value} has no triggers" if data.triggers else ""
    if not data.triggers or data.deadline_at is None:
        return "it names the assignments to wait for (triggers) and a deadline_at"
    if len(state.pauses) >= MAX_PAUSES:
        return f"{MAX_PAUSES} pauses are open already"
    return ""
