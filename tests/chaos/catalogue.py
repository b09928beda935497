"""The scenarios by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tests.chaos import clocks, clusters, crowds, disks, gates, single
from tests.chaos.stage import Stage
from tests.chaos.verdict import Verdict


class Scenario(NamedTuple):
    """What is broken, and how."""

    name: str
    run: Callable[[Stage], Awaitable[Verdict]]

    @property
    def about(self) -> str:
        """What it does, in a line."""
        return (self.run.__doc__ or "").split("\n", 1)[0]


_ALL: Final = (
    single.agents_killed,
    single.server_killed,
    single.spread_server_killed,
    single.agents_paused,
    single.server_stalls,
    single.server_refuses,
    clocks.clocks_jump,
    clocks.server_clock_jumps,
    disks.disk_full,
    disks.disk_slow,
    disks.disk_fails,
    clusters.cluster_leaders_killed,
    clusters.cluster_partitioned,
    clusters.cluster_disk_fails,
    gates.gateways_killed,
    gates.requests_mangled,
    gates.exporter_killed,
    crowds.thousand_agents,
)

SCENARIOS: Final = tuple(Scenario(run.__name__.replace("_", "-"), run) for run in _ALL)

QUICK: Final = (
    "agents-killed",
    "server-killed",
    "agents-paused",
    "server-clock-jumps",
    "disk-fails",
    "cluster-leaders-killed",
)
"""Those that CI runs, for a few seconds each."""
