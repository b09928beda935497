"""What must hold of the log of a finished super-task, whatever was killed on the way."""

from __future__ import annotations

from collections.abc import Iterable

from threadbus.bus import fold_task
from threadbus.schemas import (
    AnswerSubmitted,
    EventClass,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    Recorded,
    TaskClosed,
    TaskId,
)


def violations(task: TaskId, items: Iterable[Recorded], agents: Iterable[str]) -> list[str]:
    """Return what is wrong with a finished task: nothing when all is well."""
    log = list(items)
    state = fold_task(task, log)
    wrong: list[str] = []
    ids = [item.event.id for item in log]
    if len(ids) != len(set(ids)):
        wrong.append(f"{len(ids) - len(set(ids))} events are in the log twice")
    answers = [item for item in log if isinstance(item.event.data, AnswerSubmitted)]
    if len(answers) != 1:
        wrong.append(f"{len(answers)} answers")
    if state.answer is None:
        wrong.append(f"no accepted answer, status {state.status}: {state.summary}")
    closings = [item for item in log if isinstance(item.event.data, TaskClosed)]
    if len(closings) != 1:
        wrong.append(f"closed {len(closings)} times")
    settled = {
        (item.event.sender, item.event.cause)
        for item in log
        if isinstance(item.event.data, HandlingEnded | MentionDeadLettered)
        or (isinstance(item.event.data, HandlingFailed) and item.event.data.retry_in_ns is None)
    }
    named = set(agents)
    wrong.extend(
        f"{item.event.type} {item.event.id} was never handled by {name}"
        for item in log
        if item.event.event_class is not EventClass.OBS
        for name in item.event.mentions
        if name in named and (name, item.event.id) not in settled
    )
    return wrong
