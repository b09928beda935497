"""Counters from the log: the same log gives the same numbers, whoever counts and how often.

So a restart need not begin at 0: either the log is read again, and nothing is shown before its end,
or the counters and the place up to which they count are read from a file. They are in it together,
so nothing is counted twice and nothing is left out.

What agents say is untrusted: each label takes a bounded number of values, and what comes beyond is
counted as ``other``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from threadbus.agents.monitoring.families import OTHER
from threadbus.schemas import (
    DATA_TYPES,
    Event,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    ModelCalled,
    Recorded,
    Rejected,
    TaskClosed,
    TaskOpened,
    ToolReturned,
    partition_of_seq,
    partition_start,
)

BUCKETS_S: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Upper ends of the buckets of every histogram, in seconds."""

MAX_NAMES: Final = 50
"""Models, and tools, that have a label of their own."""

MAX_SERIES: Final = 2_000
"""Series of one metric."""

MAX_OPEN: Final = 100_000
"""Open super-tasks that are remembered, for how long they took."""

_NS: Final = 1_000_000_000
_SEPARATOR: Final = "\x1f"
_TYPES: Final = frozenset(DATA_TYPES)

Labels: TypeAlias = tuple[str, ...]


class Histogram(msgspec.Struct):
    """How often what took how long."""

    counts: list[int]
    """By bucket, not added up; the last one has no upper end."""
    sum: float = 0.0

    @classmethod
    def empty(cls) -> Histogram:
        """Make one that has seen nothing."""
        return cls([0] * (len(BUCKETS_S) + 1))

    def observe(self, seconds: float) -> None:
        """Count one; what a clock that was set back makes negative is 0."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds


class Counts(msgspec.Struct):
    """Everything that was counted, and up to where; may be kept as JSON."""

    form: int = 1
    """The version of this structure."""
    log: dict[str, int] = {}
    """Which log: its streams and when they were made."""
    seq: int = 0
    """The last place in the log that is counted; in its first partition, where it is spread."""
    later: dict[int, int] = {}
    """The same of each later partition."""
    since: int = 0
    """When what is counted was stored first, in nanoseconds since the epoch."""
    numbers: dict[str, dict[str, int]] = {}
    """By metric, and by the values of its labels (see :func:`label_key`)."""
    durations: dict[str, dict[str, Histogram]] = {}
    open_tasks: dict[str, int] = {}
    """Open super-tasks and when they were opened, in nanoseconds."""
    more_open: int = 0
    """Open super-tasks beyond those that are remembered."""
    names: dict[str, list[str]] = {}
    """Values in use of the labels that are bounded."""

    def counted_to(self, partition: int) -> int:
        """Return the last place that is counted in a partition."""
        return self.later.get(partition, partition_start(partition)) if partition else self.seq

    def move(self, partition: int, seq: int) -> None:
        """Say that a partition is counted up to a place."""
        if partition:
            self.later[partition] = seq
        else:
            self.seq = seq

    @property
    def entries(self) -> int:
        """How many places of the log are counted, in all its partitions."""
        return self.seq + sum(seq - partition_start(number) for number, seq in self.later.items())


def label_key(values: Sequence[str]) -> str:
    """Return the values of labels as one text."""
    return _SEPARATOR.join(value.replace(_SEPARATOR, " ") for value in values)


def label_values(key: str) -> Labels:
    """Return the values of labels that are in a text."""
    return tuple(key.split(_SEPARATOR)) if key else ()


class LogCounter:
    """Counts the entries of a log, in its order.

    Args:
        counts: what was counted already.
        max_agents: agents that have a label of their own.
    """

    def __init__(self, counts: Counts, *, max_agents: int) -> None:
        self.counts = counts
        self._bounds = {"agent": max_agents, "model": MAX_NAMES, "tool": MAX_NAMES}
        self._known = {kind: set(counts.names.get(kind, ())) for kind in self._bounds}

    @property
    def tasks_open(self) -> int:
        """Super-tasks that have not ended."""
        return len(self.counts.open_tasks) + self.counts.more_open

    def label(self, kind: str, value: str) -> str:
        """Return the value of a bounded label: *value* itself, or ``other``."""
        known = self._known[kind]
        if value not in known:
            if not value or len(known) >= self._bounds[kind]:
                return OTHER
            known.add(value)
            self.counts.names.setdefault(kind, []).append(value)
        return value

    def take(self, entry: Recorded | Rejected) -> None:
        """Count one entry; what was counted before is passed over."""
        counts = self.counts
        partition = partition_of_seq(entry.seq)
        if entry.seq <= counts.counted_to(partition):
            return
        counts.move(partition, entry.seq)
        counts.since = counts.since or entry.stored_at
        if isinstance(entry, Rejected):
            self._add("not_events")
            return
        event = entry.event
        known = event.type in _TYPES
        self._add("events", str(event.event_class), event.type if known else OTHER)
        self._follow_task(event, entry.stored_at)
        if event.copy_of is not None:
            # It happened, and was counted, in the super-task that it was copied from.
            return
        for agent in event.mentions:
            self._add("mentions", self.label("agent", agent))
        self._count_work(event)

    def _follow_task(self, event: Event, stored_at: int) -> None:
        counts, data = self.counts, event.data
        if isinstance(data, TaskOpened):
            if event.task in counts.open_tasks:
                return
            self._add("tasks_opened")
            if len(counts.open_tasks) < MAX_OPEN:
                counts.open_tasks[event.task] = stored_at
            else:
                counts.more_open += 1
        elif isinstance(data, TaskClosed) and event.copy_of is None:
            opened_at = counts.open_tasks.pop(event.task, None)
            if opened_at is None:
                if not counts.more_open:
                    # It ended before, or whoever wrote this went around the guard.
                    return
                counts.more_open -= 1
            else:
                self._time("task_seconds", stored_at - opened_at, str(data.outcome))
            self._add("tasks_ended", str(data.outcome))

    def _count_work(self, event: Event) -> None:
        data, agent = event.data, str(event.sender)
        if isinstance(data, HandlingEnded):
            agent = self.label("agent", agent)
            self._add("turns", agent, "ended")
            self._time("turn_seconds", data.ended_at - data.started_at, agent)
            self._time("turn_wait_seconds", data.started_at - data.received_at, agent)
        elif isinstance(data, HandlingFailed):
            self._add("turns", self.label("agent", agent), "failed")
        elif isinstance(data, MentionDeadLettered):
            self._add("dead_letters", self.label("agent", agent))
        elif isinstance(data, ModelCalled):
            agent, model = self.label("agent", agent), self.label("model", data.model)
            self._add("model_calls", agent, model, "ok" if data.error is None else "failed")
            self._add("tokens", agent, model, "input", count=data.input_tokens)
            self._add("tokens", agent, model, "cached", count=data.cached_tokens)
            self._add("tokens", agent, model, "output", count=data.output_tokens)
            self._time("model_call_seconds", data.duration_ns, model)
        elif isinstance(data, ToolReturned):
            agent, tool = self.label("agent", agent), self.label("tool", data.tool)
            self._add("tool_calls", agent, tool, "ok" if data.error is None else "failed")
            self._time("tool_call_seconds", data.duration_ns, tool)

    def _add(self, name: str, *labels: str, count: int = 1) -> None:
        series = self.counts.numbers.setdefault(name, {})
        key = _within(series, labels)
        series[key] = series.get(key, 0) + count

    def _time(self, name: str, duration_ns: int, *labels: str) -> None:
        series = self.counts.durations.setdefault(name, {})
        key = _within(series, labels)
        series.setdefault(key, Histogram.empty()).observe(duration_ns / _NS)


def _within(series: Mapping[str, object], labels: Labels) -> str:
    key = label_key(labels)
    if key in series or len(series) < MAX_SERIES:
        return key
    # The last label says how it went, and takes few values.
    return label_key([*([OTHER] * (len(labels) - 1)), *labels[-1:]])
