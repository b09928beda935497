"""The answer to a super-task: submitted and closed with it, each of the two once."""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.agents.journal import Journal
from threadbus.bus import Appended, Bus
from threadbus.schemas import AnswerSubmitted, Event, EventId, TaskStatus, derive_event_id


async def submit_once(
    bus: Bus,
    journal: Journal,
    event: Event,
    answer_id: EventId,
    answer: AnswerSubmitted,
    mentions: Sequence[str],
) -> Appended:
    """Submit an answer and close the super-task; only what is not in the log yet."""
    found = journal.find(answer_id)
    if found is None:
        return journal.note(
            await bus.tasks.submit_answer(
                event.task,
                answer.parts,
                cause=event.id,
                event_id=answer_id,
                sources=[EventId(source) for source in answer.sources],
                dissent=answer.dissent,
                mentions=mentions,
            )
        )
    await bus.tasks.close(
        event.task,
        TaskStatus.COMPLETED,
        answer=answer_id,
        cause=answer_id,
        # As Tasks.submit_answer derives it.
        event_id=derive_event_id(answer_id, bus.name, "close"),
    )
    return found
