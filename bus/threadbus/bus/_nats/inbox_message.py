"""A mention as the server delivers it: leased until it is settled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from nats.errors import Error as NatsError

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.places import MentionPlaces, source_of
from threadbus.bus.ports import Haste

_SEQUENCE: Final = b"\r\nNats-Sequence: "


class NatsInboxMessage:
    """One mention under a lease."""

    __slots__ = (
        "_ack",
        "_client",
        "_settled",
        "body",
        "holder",
        "is_placed",
        "misplaced",
        "on_delayed",
        "order",
        "relayed",
        "seq",
        "subject",
    )

    def __init__(self, client: DirectClient, ack: bytes, body: bytes, raw: bytes) -> None:
        self.holder: set[NatsInboxMessage] | None = None
        self.on_delayed: Callable[[NatsInboxMessage, float], None] | None = None
        """Is told when it is given back for a while, and of the seconds."""
        self._client = client
        self._ack = ack.decode()
        self._settled = False
        self.body = body
        # The server's answer to a direct get has it; one of an inbox is not stored at all.
        self.relayed = _SEQUENCE in raw
        self.seq, self.subject = source_of(raw)
        self.order = self.seq
        self.is_placed = self.misplaced = False

    # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>

    @property
    def deliveries(self) -> int:
        """How often it was delivered since the consumer was made, from 1."""
        return int(self._ack.split(".")[-5])

    @property
    def place(self) -> int:
        """Where it is in the stream of inboxes."""
        return int(self._ack.split(".")[-4])

    @property
    def stored_at(self) -> int:
        """Nanoseconds since the epoch when it was put into the inbox."""
        return int(self._ack.split(".")[-2])

    async def find_place(self, places: MentionPlaces) -> None:
        """Find out where in the log it is, where the server did not say so.

        Raises:
            ReadTimeoutError: it did not answer.
        """
        place = await places.find(self.seq, self.subject, self.body)
        self.seq, self.subject, self.misplaced = place
        self.is_placed = True

    async def ack(self) -> None:
        """Say that it was handled."""
        await self._say(b"+ACK", final=True, haste=Haste.LAST)

    async def nak(self, delay: timedelta) -> None:
        """Give it back; it comes again after *delay*."""
        if self._settled:
            return
        nanoseconds = int(delay.total_seconds() * 1e9)
        await self._say(b'-NAK {"delay": %d}' % nanoseconds, final=True)
        if delay and self.on_delayed is not None:
            self.on_delayed(self, delay.total_seconds())

    def ask_again(self) -> None:
        """Have it come at once, though it was given back for a while."""
        with contextlib.suppress(NatsError):
            self._client.post(self._ack, b"-NAK")

    async def in_progress(self) -> None:
        """Extend the lease."""
        await self._say(b"+WPI", final=False)

    async def _say(self, word: bytes, *, final: bool, haste: Haste = Haste.SOON) -> None:
        if self._settled:
            return
        self._settled = final
        if final and self.holder is not None:
            self.holder.discard(self)
        try:
            # Together: what several give back in one go comes again in that order.
            self._client.post(self._ack, word, haste=haste)
        except NatsError as error:
            # Not acknowledged means delivered again, which every handler must bear anyway.
            _log.warning("could not settle a mention", subject=self.subject, error=str(error))
