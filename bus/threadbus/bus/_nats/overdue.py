"""Mentions that were given back for a while, and asked for again where they do not come.

The server reckons from its wall clock when a mention comes again. Where that clock is set back
meanwhile, the mention waits until it has caught up, an hour for an hour. What it is asked for
without a delay comes at once, whatever its clock says.
"""

from __future__ import annotations

import asyncio
from typing import Final

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.inbox_message import NatsInboxMessage

_GRACE_S: Final = 5.0
"""A server that is busy is late as well; to ask once too often costs one delivery."""

_TRIES: Final = 6
"""Each waits twice as long as the one before. Then the mention is not there any more."""


class Overdue:
    """What one inbox gave back and waits for.

    Not for one of several replicas: what comes again may have come to another one.
    """

    def __init__(self) -> None:
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def expect(self, message: NatsInboxMessage, delay_s: float) -> None:
        """Wait for a mention that was just given back for so many seconds."""
        self._look_after(delay_s + _GRACE_S, message, 1)

    def came(self, message: NatsInboxMessage) -> None:
        """Take in that it came again."""
        if self._timers and (timer := self._timers.pop(message.place, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Wait for nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _look_after(self, delay_s: float, message: NatsInboxMessage, attempt: int) -> None:
        if (former := self._timers.get(message.place)) is not None:
            former.cancel()
        loop = asyncio.get_running_loop()
        self._timers[message.place] = loop.call_later(delay_s, self._ask, message, attempt)

    def _ask(self, message: NatsInboxMessage, attempt: int) -> None:
        del self._timers[message.place]
        message.ask_again()
        if attempt == 1:
            _log.info(
                "a mention does not come again in time, asked for it", subject=message.subject
            )
        if attempt < _TRIES:
            self._look_after(_GRACE_S * 2**attempt, message, attempt + 1)
