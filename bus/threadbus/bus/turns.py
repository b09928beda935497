"""The turn limit of a thread: after so many messages and moves its conversation concludes.

Whoever speaks counts, before and after: the message that reaches the limit is followed by the move
to the conclusion, whose id is derived from the opening of the thread. Where a writer dies in
between, the next one makes the move first and is then refused. Messages do not contend with one
another, so as many as are written at the same moment may come in above the limit.
"""

from __future__ import annotations

import contextlib
from contextlib import aclosing

from threadbus.bus.errors import InvalidTransitionError
from threadbus.bus.log import EventLog
from threadbus.bus.state import ThreadState
from threadbus.schemas import (
    AgentName,
    ConversationState,
    Event,
    MessagePosted,
    Recorded,
    ThreadStateChanged,
    derive_event_id,
    make_event,
)


def is_turn(event: Event) -> bool:
    """Whether *event* uses up a turn: a message or a move; a wake is nobody's turn."""
    data = event.data
    if isinstance(data, ThreadStateChanged):
        return data.wakes is None and data.state is not ConversationState.CONCLUSION
    return isinstance(data, MessagePosted)


def may_be_due(log: EventLog, event: Event) -> bool:
    """Whether *event* may use up the turns of its thread; no, for most, and without a look."""
    if not is_turn(event):
        return False
    state = log.known(event.task, event.thread)
    return state is None or state.max_turns is not None


async def conclude_if_due(log: EventLog, event: Event, *, said: bool) -> None:
    """Conclude the conversation where its turns are used up.

    Args:
        log: where it is.
        event: what is said there; it may use up a turn (:func:`may_be_due`).
        said: it stands in the log; otherwise it is about to be appended.

    Raises:
        AppendError: the conclusion could not be appended.

    Cancellation: the next one who speaks there makes up for it.
    """
    state = await log.thread(event.task, event.thread)
    if state.max_turns is None or not state.is_open:
        return
    if state.conversation is ConversationState.CONCLUSION:
        return
    if await _taken(log, state, None if said else event) >= state.max_turns:
        # Somebody else may be faster with the same event, or with a conclusion of their own.
        with contextlib.suppress(InvalidTransitionError):
            await log.append(_conclusion(state, event.sender))


async def _taken(log: EventLog, state: ThreadState, besides: Event | None) -> int:
    seen: set[str] = set()
    async with aclosing(log.read(state.task, state.thread)) as entries:
        async for entry in entries:
            if isinstance(entry, Recorded) and is_turn(entry.event):
                seen.add(entry.event.id)
    return len(seen - ({besides.id} if besides is not None else set()))


def _conclusion(state: ThreadState, sender: AgentName) -> Event:
    creator = state.creator
    last = creator if creator is not None and creator in state.participants else sender
    opening = next(iter(state.control_seqs))
    return make_event(
        ThreadStateChanged(
            state=ConversationState.CONCLUSION,
            next_speakers=(last,),
            reason=f"all {state.max_turns} turns are used",
        ),
        task=state.task,
        thread=state.thread,
        sender=sender,
        mentions=(last,),
        cause=opening,
        # One id whoever writes it: of two at once the server takes the first.
        event_id=derive_event_id(opening, AgentName("turns"), "conclusion"),
    )
