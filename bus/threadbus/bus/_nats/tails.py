"""Tails: what the server repeats once it has stored it, to whoever follows.

A subscription costs the server more than a message does, and who asks one agent something often
asks again. So a subscription stays for a while after the last of its followers has left.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from nats.aio.subscription import Subscription

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import stored_message
from threadbus.bus.ports import LossHandler, MessageHandler
from threadbus.schemas import STORED_PREFIX

_STAYS_S: Final = 10.0
_MAX_IDLE: Final = 64


@dataclass(eq=False, slots=True)
class _Tail:
    """One subscription and whoever follows it."""

    handlers: list[MessageHandler] = field(default_factory=list[MessageHandler])
    sub: Subscription | None = None
    idle_since: float = 0.0

    def on_frame(self, _subject: bytes, _reply: bytes, body: bytes, raw: bytes) -> None:
        if not self.handlers:
            return
        message = stored_message(body, raw)
        if message is not None:
            for handler in self.handlers:
                handler(message)


class NatsTails:
    """The tails of one connection."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client
        self._tails: dict[str, _Tail] = {}
        self._idle: dict[str, _Tail] = {}
        """Those that nobody follows, the longest idle first."""
        self._timer: asyncio.TimerHandle | None = None
        self._losses: list[LossHandler] = []

    def tail(
        self, subject: str, handler: MessageHandler, on_loss: LossHandler
    ) -> AbstractAsyncContextManager[None]:
        """Call *handler* with each message that matches, for as long as the context lasts."""
        return _Following(self, subject, handler, on_loss)

    def enter(self, subject: str, handler: MessageHandler, on_loss: LossHandler) -> None:
        """Follow *subject*."""
        tail = self._tails.get(subject)
        if tail is None:
            tail = _Tail()
            tail.sub = self._client.start_listening(STORED_PREFIX + subject, tail.on_frame)
            self._tails[subject] = tail
        self._idle.pop(subject, None)
        tail.handlers.append(handler)
        self._losses.append(on_loss)

    def leave(self, subject: str, handler: MessageHandler, on_loss: LossHandler) -> None:
        """Follow *subject* no longer."""
        self._losses.remove(on_loss)
        tail = self._tails[subject]
        tail.handlers.remove(handler)
        if not tail.handlers:
            tail.idle_since = time.monotonic()
            self._idle[subject] = tail
            if len(self._idle) > _MAX_IDLE:
                self._drop(next(iter(self._idle)))
            if self._timer is None:
                # One for all, so that a wait costs none.
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_STAYS_S, self._drop_old)

    def _drop_old(self) -> None:
        self._timer = None
        now = time.monotonic()
        for subject, tail in list(self._idle.items()):
            if now >= tail.idle_since + _STAYS_S:
                self._drop(subject)
        if self._idle:
            self._timer = asyncio.get_running_loop().call_later(_STAYS_S, self._drop_old)

    def _drop(self, subject: str) -> None:
        self._idle.pop(subject, None)
        tail = self._tails.pop(subject)
        if tail.sub is not None:
            # A write of its own would wake the server, which costs more than what is in it.
            self._client.stop_listening(tail.sub, idle=True)

    def lose(self) -> None:
        """Tell everybody that something may have been missed."""
        for on_loss in list(self._losses):
            on_loss()

    def close(self) -> None:
        """Drop what stays without a follower; the connection ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for subject in list(self._idle):
            self._drop(subject)


class _Following(AbstractAsyncContextManager[None]):
    """One follower of a tail. A class: a generator costs more than what it does."""

    def __init__(
        self, tails: NatsTails, subject: str, handler: MessageHandler, on_loss: LossHandler
    ) -> None:
        self._tails = tails
        self._what = (subject, handler, on_loss)

    async def __aenter__(self) -> None:
        self._tails.enter(*self._what)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tails.leave(*self._what)
