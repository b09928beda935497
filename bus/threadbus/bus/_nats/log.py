"""The log on a JetStream stream: appends with our own table of acknowledgements, reads, tails.

nats-py's ``publish_async`` never resolves when the server refuses or dies. Here each append has a
row in a table with a deadline; after a reconnect and after a silence it is sent again with the
same id, so that it ends in a position or an error and is never stored twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.api import ApiError, api, look
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import direct_get, read_batches, stored_messages
from threadbus.bus._nats.frames import header_block, status
from threadbus.bus._nats.layout import Layout, placed_batches, placed_handler
from threadbus.bus._nats.tails import NatsTails
from threadbus.bus._running import running
from threadbus.bus.errors import (
    AppendError,
    AppendTimeoutError,
    ClosedError,
    PayloadTooLargeError,
    PermissionDeniedError,
    ReadError,
    StorageFullError,
)
from threadbus.bus.ports import (
    Guard,
    GuardFailedError,
    Haste,
    LossHandler,
    MessageHandler,
    Position,
    StoredMessage,
)

_RESEND_AFTER_S: Final = 2.0
_SWEEP_S: Final = 0.25
_GUARD_CODES: Final = frozenset({10071, 10164})
_NOT_BEHIND_CODE: Final = 10070
_FULL_CODES: Final = frozenset({10023, 10047, 10077, 10122, 10028})
_RETRY_CODES: Final = frozenset({10008, 10009, 10012})


class _PubAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


_ACK: Final = msgspec.json.Decoder(_PubAck)


class RefusedError(AppendError):
    """The server refused an append for a reason that has no class of its own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"the server refused the event: {self.reason} (code {self.code})"


@dataclass(slots=True)
class _Row:
    subject: str
    body: bytes
    head: bytes
    future: asyncio.Future[Position]
    msg_id: str
    timeout: timedelta
    since: float
    """The monotonic clock when it was first sent."""
    resend_at: float
    sends: int = 0


class NatsLog:
    """The streams of the log as one. Owned by the backend, which starts and stops it."""

    def __init__(self, client: DirectClient, pending_max: int) -> None:
        self._client = client
        self._layout = Layout()
        self._is_spread = False
        self._rows: dict[bytes, _Row] = {}
        self._next = 0
        self._loop: asyncio.AbstractEventLoop
        self._reply = ""
        self._reply_cut = 0
        self._pending_max = pending_max
        self._room: deque[asyncio.Future[None]] = deque()
        self._tails = NatsTails(client)
        self._closed = False
        self._tail_is_whole = False
        self._is_alone = False
        self._ended = 0
        """Connections that ended."""

    @property
    def max_payload(self) -> int:
        """Bytes of one message, its headers included."""
        return self._client.max_payload

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[None]:
        """Listen for acknowledgements and watch deadlines; fail what is outstanding at the end."""
        self._loop = asyncio.get_running_loop()
        self._reply = f"{self._client.new_inbox()}."
        self._reply_cut = len(self._reply)
        try:
            async with (
                self._client.listen(f"{self._reply}*", self._on_ack),
                running(self._sweep(), "threadbus.log.sweep"),
            ):
                yield
        finally:
            self._tails.close()
            self._closed = True
            for key in list(self._rows):
                self._fail(key, ClosedError())
            self._give_room()

    async def drain(self, deadline: timedelta) -> None:
        """Wait for outstanding appends, at most until *deadline*."""
        waiting = [row.future for row in self._rows.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=deadline.total_seconds())

    def spread(self, layout: Layout) -> None:
        """Take in over which streams the log is spread."""
        self._layout = layout
        self._is_spread = layout.partitions > 1

    @property
    def partitions(self) -> int:
        """Over how many streams it is spread."""
        return self._layout.partitions

    @property
    def tail_is_whole(self) -> bool:
        """Whether the tail misses nothing while the connection lasts.

        True where the server that this connection leads to is the only one that keeps the stream:
        it repeats what it stores in order on the same connection. In a cluster a leader may die
        between the two, so there the tail only says when to read.
        """
        return self._tail_is_whole

    @property
    def can_chain(self) -> bool:
        """Whether an append may be on condition of the one before.

        Only of a stream with one copy. With several, the servers look at that condition when they
        write and not before: where it fails, each of them takes it for a broken disk and gives the
        stream up for good (nats-server 2.15.1).
        """
        return self._is_alone

    async def look_at_leader(self) -> None:
        """Find out who keeps the stream; after each connect, since it may be another server."""
        self._tail_is_whole = self._is_alone = False
        ended = self._ended
        alone = here = True
        for stream in self._layout.log_streams:
            info = await api(self._client, f"STREAM.INFO.{stream}")
            leader = info.cluster.leader if info.cluster is not None else ""
            alone = alone and info.config.get("num_replicas") == 1
            here = here and leader == self._client.server_name
        # A server outside of a cluster cannot be given more copies while we are connected.
        self._is_alone = alone and not self._client.is_clustered
        self._tail_is_whole = alone and here and ended == self._ended

    # appending

    async def append(
        self,
        subject: str,
        body: bytes,
        *,
        msg_id: str,
        guard: Guard | None,
        headers: Mapping[str, str],
        timeout: timedelta,
        haste: Haste = Haste.AT_ONCE,
    ) -> asyncio.Future[Position]:
        """Send a message and return a future of where it landed (see :class:`LogPort`)."""
        if self._closed:
            raise ClosedError
        if len(self._rows) >= self._pending_max:
            await self._wait_for_room()
        if self._is_spread:
            subject = self._layout.entry_of(subject)
        head = header_block(msg_id, guard, headers)
        size = len(body) + len(head)
        if size > self._client.max_payload:
            # Sent anyway, it would cost everybody on this connection the connection.
            raise PayloadTooLargeError(size, self._client.max_payload)
        self._next += 1
        key = b"%d" % self._next
        future: asyncio.Future[Position] = self._loop.create_future()
        now = time.monotonic()
        row = _Row(subject, body, head, future, msg_id, timeout, now, now + _RESEND_AFTER_S)
        self._rows[key] = row
        self._send(key, row, haste=haste)
        if self._client.is_behind:
            await self._client.wait_for_socket()
        return future

    def _send(self, key: bytes, row: _Row, *, haste: Haste = Haste.AT_ONCE) -> None:
        row.sends += 1
        # While reconnecting the client may refuse: the row stays and is sent again later.
        with contextlib.suppress(NatsError):
            self._client.post(
                row.subject,
                row.body,
                reply=self._reply + key.decode(),
                head=row.head,
                haste=haste,
            )

    async def _wait_for_room(self) -> None:
        while len(self._rows) >= self._pending_max:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # The room that it may have been given goes to the next one.
                self._give_room()
                raise
            if self._closed:
                raise ClosedError

    def _settle(self, key: bytes) -> _Row | None:
        row = self._rows.pop(key, None)
        self._give_room()
        return row if row is not None and not row.future.done() else None

    def _give_room(self) -> None:
        """Wake one that waits for room; all of them at the end."""
        while self._room and (self._closed or len(self._rows) < self._pending_max):
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if not self._closed:
                    return

    def _fail(self, key: bytes, error: Exception) -> None:
        row = self._settle(key)
        if row is not None:
            row.future.set_exception(error)
            # Whoever sent and forgot is not to be warned of by the loop.
            row.future.exception()

    def _on_ack(self, subject: bytes, _reply: bytes, body: bytes, raw: bytes) -> None:
        key = subject[self._reply_cut :]
        row = self._rows.get(key)
        if row is None:
            return
        if status(raw) == 503:
            # No responders: the server is up before the stream is. The sweeper sends it again.
            row.resend_at = time.monotonic() + _SWEEP_S
            return
        try:
            ack = _ACK.decode(body)
        except msgspec.DecodeError as error:
            self._fail(key, RefusedError(0, f"unreadable acknowledgement: {error}"))
            return
        problem = ack.error
        if problem is None:
            settled = self._settle(key)
            if settled is not None:
                settled.future.set_result(Position(ack.seq, ack.duplicate))
        elif problem.err_code in _RETRY_CODES:
            row.resend_at = time.monotonic() + _SWEEP_S
        else:
            self._fail(key, _append_error(problem, resent=row.sends > 1))

    def on_permission_error(self, message: str) -> None:
        """Fail the append that the server has just refused by permission, if it is one."""
        for key, row in list(self._rows.items()):
            if f'"{row.subject.lower()}"' in message:
                self._fail(key, PermissionDeniedError("publishing", row.subject))

    def on_revoked(self, url: str) -> None:
        """Fail every append: the server does not let this identity in any more."""
        for key in list(self._rows):
            self._fail(key, PermissionDeniedError("connecting", url))

    def on_disconnected(self) -> None:
        """Trust no tail before this log has been told of the next connection.

        The server sends what it stores as soon as it has the subscriptions again, which is before
        anybody reads what was stored until then: it must not be taken for what comes next.
        """
        self._ended += 1
        self._tail_is_whole = False

    async def on_reconnected(self) -> None:
        """Send everything outstanding again; its ids keep it from being stored twice."""
        for key, row in list(self._rows.items()):
            self._send(key, row)
        self._tails.lose()
        with contextlib.suppress(NatsError, TimeoutError):
            await self.look_at_leader()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            if not self._rows:
                continue
            now = time.monotonic()
            for key, row in list(self._rows.items()):
                if row.future.cancelled():
                    self._settle(key)
                elif now >= row.since + row.timeout.total_seconds():
                    self._fail(key, AppendTimeoutError(row.msg_id, row.timeout.total_seconds()))
                elif now >= row.resend_at and self._client.is_connected:
                    # Later and later: a network that is slow is not to be filled with copies.
                    row.resend_at = now + _RESEND_AFTER_S * 2**row.sends
                    self._send(key, row)

    # reading

    def _partition(self, subject: str, partition: int | None) -> int:
        """Return where to look for what matches: of one super-task, or in a named partition."""
        if not self._is_spread:
            return 0
        known = self._layout.partition_of_filter(subject)
        if known is None and partition is None:
            raise ReadError(subject, f"which of the {self.partitions} partitions must be said")
        return known if known is not None else partition or 0

    def read(
        self, subject: str, after: int, limit: int, partition: int | None = None
    ) -> AsyncGenerator[list[StoredMessage]]:
        """Read up to *limit* messages that match, later than *after*, in batches."""
        stream = self._layout.log_streams[self._partition(subject, partition)]
        batches = read_batches(self._client, stream, subject, after, limit)
        return placed_batches(self._layout, batches) if self._is_spread else batches

    async def last_per_subject(self, subject: str, limit: int) -> list[StoredMessage]:
        """Return the last message of each subject that matches, oldest first."""
        request = {"multi_last": [subject], "batch": limit}
        stream = self._layout.log_streams[self._partition(subject, None)]
        return stored_messages(await direct_get(self._client, stream, request))

    async def last_seq(self, partition: int = 0) -> int:
        """Return the last sequence of one partition of the log."""
        stream = self._layout.log_streams[partition]
        what = f"stream {stream}"
        info = await look(self._client, f"STREAM.INFO.{stream}", what)
        if info.error is not None:
            raise ReadError(what, info.error.description)
        return info.state.last_seq

    # tailing

    def tail(
        self,
        subject: str,
        handler: MessageHandler,
        on_loss: LossHandler,
        partition: int | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Call *handler* with each matching message of a partition once it is stored."""
        if self._is_spread:
            number = self._partition(subject, partition)
            handler = placed_handler(self._layout, number, handler)
        return self._tails.tail(subject, handler, on_loss)


def _append_error(problem: ApiError, *, resent: bool) -> Exception:
    if problem.err_code in _GUARD_CODES:
        digits = "".join(c for c in problem.description if c.isdigit())
        return GuardFailedError(int(digits or 0), resent=resent)
    if problem.err_code == _NOT_BEHIND_CODE:
        return GuardFailedError(0, resent=resent)
    if problem.err_code in _FULL_CODES:
        return StorageFullError(problem.description)
    return RefusedError(problem.err_code, problem.description)
