"""Which streams of a cluster wait for sources that nobody asks for."""

from __future__ import annotations

import msgspec
import pytest

from threadbus.bus._nats.api import ApiAnswer
from threadbus.bus._nats.sources import is_stalled

_NOW = "2026-11-30T15:16:43.274129044Z"
_LONG_AGO = "2026-11-30T15:16:10.522563627Z"
_JUST_NOW = "2026-11-30T15:16:42.000000001Z"
_SECOND = 1_000_000_000


def _answer(since: str, *active: int) -> ApiAnswer:
    """What STREAM.INFO says of a stream in a cluster."""
    row = {
        "ts": _NOW,
        "cluster": {"leader": "n2", "leader_since": since},
        "sources": [{"name": "BUS", "lag": 0, "active": each} for each in active],
    }
    return msgspec.convert(row, ApiAnswer)


@pytest.mark.parametrize("active", [-1, 6 * _SECOND, 3600 * _SECOND])
def test_a_source_that_is_not_heard_is_stalled(active: int) -> None:
    """Never heard under this leader, or not for longer than a live one is silent."""
    assert is_stalled(_answer(_LONG_AGO, 0, active))


def test_sources_that_are_heard_are_not_stalled() -> None:
    """A live one says so each second; a log without sources has none to hear."""
    assert not is_stalled(_answer(_LONG_AGO, 0, 2 * _SECOND))
    assert not is_stalled(_answer(_LONG_AGO))


def test_a_new_leader_is_given_time() -> None:
    """Its sources are asked for a moment later, so another step-down would only delay them."""
    assert not is_stalled(_answer(_JUST_NOW, -1, -1))


def test_a_single_server_is_left_alone() -> None:
    """It tells of no leader, and there is nobody to step down for."""
    alone = msgspec.convert({"ts": _NOW, "sources": [{"name": "BUS", "active": -1}]}, ApiAnswer)

    assert not is_stalled(alone)
