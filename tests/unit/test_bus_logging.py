"""The log of the bus: lines that cannot be written, and many lines of one kind."""

from __future__ import annotations

import io

import pytest
import structlog
from structlog.testing import capture_logs

from threadbus.bus import SteadyLog
from threadbus.bus._logging import FULL_LINES, THINNED_EVERY_S, ThinnedLog


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return what is the time."""
        return self.now


def test_a_line_that_cannot_be_written_is_counted() -> None:
    """Whatever the level, nothing is raised, and what was lost is known."""
    stream = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(stream))
    log = SteadyLog("tests")
    log.info("a line")
    stream.close()
    for write in (log.debug, log.info, log.warning, log.error, log.exception):
        write("another line", value=1)

    assert log.lost == 5


@pytest.mark.parametrize("flood", [1_000, 100_000])
def test_a_flood_is_a_few_lines(flood: int) -> None:
    """The first ones say it in full, each later one has the count, and at least half is told of."""
    thinned = ThinnedLog("garbage", clock=Clock())
    with capture_logs() as lines:
        for seq in range(1, flood + 1):
            thinned.warning(seq=seq, reason="no JSON")
    counts = [line["count"] for line in lines if "count" in line]

    assert [line["seq"] for line in lines[:FULL_LINES]] == list(range(1, FULL_LINES + 1))
    assert "further" in lines[FULL_LINES - 1]
    assert all((line["event"], line["reason"]) == ("garbage", "no JSON") for line in lines)
    assert [line["seq"] for line in lines[FULL_LINES:]] == counts
    assert len(lines) < FULL_LINES + 20
    assert counts[-1] * 2 > flood


def test_a_trickle_is_told_each_time() -> None:
    """What comes long after the last line is told, however many there were before."""
    clock = Clock()
    thinned = ThinnedLog("garbage", clock=clock)
    for seq in range(1_000):
        thinned.warning(seq=seq)
    with capture_logs() as lines:
        for seq in range(1_000, 1_010):
            thinned.warning(seq=seq)
            clock.now += THINNED_EVERY_S
            thinned.warning(seq=seq)

    assert [line["count"] for line in lines] == [1_002 + 2 * number for number in range(10)]
