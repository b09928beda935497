"""Metrics for Prometheus: counters from the log, and gauges of the server (``bus metrics``).

``prometheus-client`` (extra ``metrics``) is imported when a scrape is answered, not before.
"""

from threadbus.agents.monitoring.counts import BUCKETS_S, Counts, Histogram, LogCounter
from threadbus.agents.monitoring.errors import (
    CannotListenError,
    CountsFileError,
    MetricsMissingError,
    MonitoringError,
)
from threadbus.agents.monitoring.exposition import Shown, check_installed, render
from threadbus.agents.monitoring.families import (
    FAMILIES,
    FROM_LOG,
    OTHER,
    SAMPLED,
    Family,
    Kind,
)
from threadbus.agents.monitoring.keeping import read_counts, write_counts
from threadbus.agents.monitoring.sampling import Sample, take_sample
from threadbus.agents.monitoring.serving import Request, Response, parse_address, serving
from threadbus.agents.monitoring.waiting import (
    Waiting,
    WaitingFacts,
    inbox_streams,
    look_at_waiting,
)
from threadbus.agents.monitoring.watching import Watch, Watcher, watching

__all__ = [
    "BUCKETS_S",
    "FAMILIES",
    "FROM_LOG",
    "OTHER",
    "SAMPLED",
    "CannotListenError",
    "Counts",
    "CountsFileError",
    "Family",
    "Histogram",
    "Kind",
    "LogCounter",
    "MetricsMissingError",
    "MonitoringError",
    "Request",
    "Response",
    "Sample",
    "Shown",
    "Waiting",
    "WaitingFacts",
    "Watch",
    "Watcher",
    "check_installed",
    "inbox_streams",
    "look_at_waiting",
    "parse_address",
    "read_counts",
    "render",
    "serving",
    "take_sample",
    "watching",
    "write_counts",
]
