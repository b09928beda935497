"""From what one event costs to what so many a day need: arithmetic, and what it is shown as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DAYS_KEPT: Final = 30
"""Days that a log is kept in the model."""
BUSY: Final = 5
"""The busiest hour has so many times the average."""
_DAY_S: Final = 86_400
_STEPS: Final = (10**5, 10**6, 10**7, 10**8, 10**9)
_UNITS: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was measured. Sizes in bytes; what compares two works or times is a ratio."""

    task_events: float
    task_subjects: float
    task_mentions: float
    body_bytes: int
    event_bytes: float
    event_memory: float
    subject_memory: float
    mention_bytes: float
    hub_bytes: float
    inbox_memory: float
    partition_memory: float
    measured_subjects: int
    restart_events: float
    restart_subjects: float
    mention_work: float
    hub_work: float
    spread_work: float


def costs_table(costs: Costs) -> str:
    """Return what was measured as a table for the page."""
    few = f"{costs.measured_subjects:,} events"
    rows = [
        ("events of a question that one agent answers", f"{costs.task_events:.1f}"),
        ("subjects of it", f"{costs.task_subjects:.1f}"),
        ("mentions in it", f"{costs.task_mentions:.1f}"),
        (f"an event on disk ({costs.body_bytes} bytes as JSON)", _size(costs.event_bytes)),
        ("a mention that waits, on disk", _size(costs.mention_bytes)),
        ("the hub's copy of a mention, for a day", _size(costs.hub_bytes)),
        ("an event on a known subject, in memory", _size(costs.event_memory)),
        ("a subject, in memory", _size(costs.subject_memory)),
        ("an inbox, in memory", _size(costs.inbox_memory)),
        ("a partition with its sources, in memory", _size(costs.partition_memory)),
        (
            f"restart after a crash with {few} on few subjects, to an empty log",
            f"{costs.restart_events:.1f} times",
        ),
        (
            f"the same with {few} on a subject each, to an empty log",
            f"{costs.restart_subjects:.1f} times",
        ),
        (
            "the server's work for an event with a mention, to one without",
            f"{costs.mention_work:.1f} times",
        ),
        ("for the same through a hub, to one stream of inboxes", f"{costs.hub_work:.1f} times"),
        (
            "for an event without a mention in 8 partitions, to one stream",
            f"{costs.spread_work:.1f} times",
        ),
    ]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def model_table(costs: Costs) -> str:
    """Return what so many events a day need."""
    lines = [
        f"| events a day | a second, busiest hour | questions a day | disk of a copy, {DAYS_KEPT} "
        f"days | memory for subjects, {DAYS_KEPT} days | hub on disk |",
        "|---|---|---|---|---|---|",
    ]
    for events in _STEPS:
        questions = events / costs.task_events
        subjects = questions * costs.task_subjects
        mentions = questions * costs.task_mentions
        lines.append(
            f"| {events:,} | {events * BUSY / _DAY_S:,.0f} | {questions:,.0f} "
            f"| {_size(events * costs.event_bytes * DAYS_KEPT)} "
            f"| {_size(subjects * costs.subject_memory * DAYS_KEPT)} "
            f"| {_size(mentions * costs.hub_bytes)} |"
        )
    return "\n".join(lines)


def _size(count: float) -> str:
    for unit, factor in _UNITS:
        if count >= factor:
            value = count / factor
            return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"
