"""What was counted and seen, in the format of Prometheus; the only module that imports its client.

A scrape is made of a copy and in a thread of its own: it neither asks the server nor holds up who
reads from it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from threadbus.agents.monitoring.counts import (
    BUCKETS_S,
    Counts,
    Histogram,
    Labels,
    label_key,
    label_values,
)
from threadbus.agents.monitoring.errors import MetricsMissingError
from threadbus.agents.monitoring.families import FROM_LOG, SAMPLED, Family, Kind
from threadbus.agents.monitoring.sampling import Sample

if TYPE_CHECKING:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

_NS: Final = 1_000_000_000
_OUTCOMES: Final = ("ended", "failed")


class Shown:
    """What a scrape gets, at one moment.

    Args:
        counts: what was counted; None while it is not known yet.
        tasks_open: super-tasks that have not ended.
        sample: what was last seen of the server; None before the first look.
        sampled_at: when that was, in seconds since the epoch.
        is_up: whether the last look succeeded.
    """

    def __init__(
        self,
        counts: Counts | None,
        tasks_open: int,
        sample: Sample | None,
        sampled_at: float,
        *,
        is_up: bool,
    ) -> None:
        self._numbers: Mapping[str, Mapping[str, int]] = {}
        self._durations: Mapping[str, Mapping[str, Histogram]] = {}
        self._agents: tuple[str, ...] = ()
        self._since = 0.0
        gauges: dict[str, dict[Labels, float]] = {} if sample is None else dict(sample.gauges)
        gauges["up"] = {(): is_up}
        gauges["catching_up"] = {(): counts is None}
        if sampled_at:
            gauges["sample_timestamp_seconds"] = {(): sampled_at}
        if counts is not None:
            self._numbers = copy.deepcopy(counts.numbers)
            self._durations = copy.deepcopy(counts.durations)
            self._agents = tuple(counts.names.get("agent", ()))
            self._since = (counts.since or time.time_ns()) / _NS
            gauges["tasks_open"] = {(): tasks_open}
            gauges["counted_sequence"] = {(): counts.entries}
            gauges["counting_since_timestamp_seconds"] = {(): self._since}
        self._gauges = gauges
        self._counted = counts is not None

    def collect(self) -> Iterator[Any]:
        """Give each metric that has a value, as the client's registry asks for them."""
        for family in (*(FROM_LOG if self._counted else ()), *SAMPLED):
            if family.kind is Kind.COUNTER:
                yield self._counter(family)
            elif family.kind is Kind.HISTOGRAM:
                yield self._histogram(family)
            elif family.name in self._gauges:
                yield self._gauge(family)

    def _counter(self, family: Family) -> CounterMetricFamily:
        from prometheus_client.core import CounterMetricFamily

        made = CounterMetricFamily(_name(family), family.about, labels=family.labels)
        # What begins at 1 has not increased, for Prometheus: the first one would be missed.
        series = {**self._zeros(family), **self._numbers.get(family.name, {})}
        for key, value in sorted(series.items()):
            made.add_metric(label_values(key), value, created=self._since)
        return made

    def _zeros(self, family: Family) -> dict[str, int]:
        if not family.labels:
            return {"": 0}
        if family.labels == ("agent",):
            return {label_key([agent]): 0 for agent in self._agents}
        if family.labels == ("agent", "outcome"):
            return {
                label_key([agent, outcome]): 0 for agent in self._agents for outcome in _OUTCOMES
            }
        return {}

    def _histogram(self, family: Family) -> HistogramMetricFamily:
        from prometheus_client.core import HistogramMetricFamily

        made = HistogramMetricFamily(_name(family), family.about, labels=family.labels)
        for key, found in sorted(self._durations.get(family.name, {}).items()):
            made.add_metric(label_values(key), list(_buckets(found)), found.sum)
        return made

    def _gauge(self, family: Family) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily

        made = GaugeMetricFamily(_name(family), family.about, labels=family.labels)
        for labels, value in sorted(self._gauges[family.name].items()):
            made.add_metric(labels, value)
        return made


def render(shown: Shown, accept: str = "") -> tuple[bytes, str]:
    """Return the text of a scrape and its media type.

    Args:
        shown: what to show.
        accept: which formats whoever asks takes: the header of HTTP.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder
    except ImportError as error:
        raise MetricsMissingError("prometheus-client") from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(shown)  # pyright: ignore[reportArgumentType] - it has what is needed
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


def check_installed() -> None:
    """Raise MetricsMissingError unless the extra is installed."""
    render(Shown(None, 0, None, 0.0, is_up=False))


def _name(family: Family) -> str:
    name = family.full_name
    return name.removesuffix("_total") if family.kind is Kind.COUNTER else name


def _buckets(found: Histogram) -> Iterable[tuple[str, float]]:
    total = 0
    for end, count in zip((*map(str, BUCKETS_S), "+Inf"), found.counts, strict=True):
        total += count
        yield end, float(total)
