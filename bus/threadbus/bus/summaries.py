"""Super-tasks in a list: what their control events say of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadbus.bus.state import TaskState
from threadbus.schemas import AgentName, Recorded, TaskId, TaskStatus


class TaskSummary(msgspec.Struct, frozen=True):
    """One super-task in a list."""

    task: TaskId
    title: str
    status: TaskStatus
    opened_by: AgentName
    opened_at: int
    closed_at: int = 0
    summary: str = ""


def summarize(task: TaskId, controls: Sequence[Recorded]) -> TaskSummary | None:
    """Return what a list says of a super-task; None where no opening is among *controls*."""
    state = TaskState(task=task)
    for recorded in controls:
        state.apply(recorded)
    if state.opened_by is None:
        return None
    return TaskSummary(
        task,
        state.title,
        state.status,
        state.opened_by,
        state.opened_at,
        state.closed_at,
        state.summary,
    )
