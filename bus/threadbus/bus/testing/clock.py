"""Time that passes only when a test says so."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from datetime import timedelta


def nanoseconds(duration: timedelta) -> int:
    """Return *duration* in nanoseconds, exactly."""
    return duration // timedelta(microseconds=1) * 1000


class Timer:
    """Something that is to happen at one moment of a :class:`Clock`, unless it is cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Let it not happen. Idempotent."""
        self.callback = None


class Clock:
    """What leases, delays and times to live are measured by.

    Nothing runs out by itself, however long a test takes or stands in a debugger. Time stamps are
    those of the machine's clock plus what was advanced, so that they never go back.
    """

    def __init__(self) -> None:
        self._elapsed = 0
        self._made = 0
        self._timers: list[tuple[int, int, Timer]] = []

    def now(self) -> int:
        """Return the time for a stamp, in nanoseconds since the epoch."""
        return time.time_ns() + self._elapsed

    def after(self, delay: timedelta, callback: Callable[[], None]) -> Timer:
        """Call *callback* once the clock was advanced by *delay*."""
        timer = Timer(callback)
        self._made += 1
        heapq.heappush(self._timers, (self._elapsed + nanoseconds(delay), self._made, timer))
        return timer

    def advance(self, duration: timedelta) -> None:
        """Let *duration* pass: everything due in it happens now, in the order of its time.

        Raises:
            ValueError: *duration* is negative.
        """
        if duration < timedelta(0):
            raise ValueError(f"time cannot go back by {-duration}")
        end = self._elapsed + nanoseconds(duration)
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = due
            if timer.callback is not None:
                timer.callback()
        self._elapsed = end
