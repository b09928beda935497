"""The NATS client with a short way between the socket and us.

nats-py puts each message through a queue and a task of its own, each publish through the queue of
its flusher, and each request through an id, a timer and a callback of its own. Acknowledgements,
mentions and reads do not need them, and they took most of the time of a round trip.

A handler given to :meth:`DirectClient.listen` is called at once with the bytes as they came. It
must not block, and what it raises is logged, never lost with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from nats.aio.subscription import Subscription
from nats.errors import (
    BadSubjectError,
    ConnectionClosedError,
    ConnectionDrainingError,
    MaxPayloadError,
    NoRespondersError,
    OutboundBufferLimitError,
)
from nats.errors import Error as NatsError

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.frames import FrameHandler, FrameParser, publish_frame, status
from threadbus.bus._nats.steady import SteadyClient
from threadbus.bus.errors import PermissionDeniedError
from threadbus.bus.ports import Haste

_FINISH_S: Final = 2
_NO_RESPONDERS: Final = 503
_SOCKET_BEHIND_BYTES: Final = 64 * 1024
_WRITE_FRAMES: Final = 32
"""Messages that are written together; the server works on them while the next are made."""

_LATEST_S: Final = 0.002
"""How long what nobody waits for stays here, so that several go together."""

_IDLE_S: Final = 0.5
"""How long the end of a subscription stays here that nothing comes to."""


class Reply(NamedTuple):
    """The answer to a request."""

    body: bytes
    raw: bytes
    """Its header block; empty where there is none."""


class _Asked(NamedTuple):
    """A request whose answer may never come."""

    subject: str
    fail: Callable[[Exception], None]


class DirectClient(SteadyClient):
    """A client whose chosen subscriptions are handled without a queue."""

    def __init__(self) -> None:
        super().__init__()
        self._ps: FrameParser = FrameParser(self)  # pyright: ignore[reportIncompatibleVariableOverride]
        self._direct: dict[bytes, FrameHandler] = {}
        self._answers: dict[bytes, FrameHandler] = {}
        self._outstanding: dict[bytes, _Asked] = {}
        self._answers_at = ""
        self._asked = 0
        self._last: list[bytes] = []
        self._corked = self._has_written = self._late = self._idle = False

    # messages in

    async def _read_loop(self) -> None:
        reader: asyncio.StreamReader | None = getattr(self._transport, "_io_reader", None)
        if reader is not None:
            self._ps.attach(reader)
        await super()._read_loop()

    def take_frame(self, sid: bytes, subject: bytes, reply: bytes, body: bytes, raw: bytes) -> bool:
        """Call the handler of a subscription; False where nats-py has to (see FrameParser)."""
        handler = self._direct.get(sid)
        if handler is None:
            return False
        stats = self.stats
        stats["in_msgs"] += 1
        stats["in_bytes"] += len(body)
        try:
            handler(subject, reply, body, raw)
        except Exception:
            # An error here would end the read loop, and with it every other subscription.
            _log.exception("a message handler failed", subject=subject.decode("utf-8", "replace"))
        return True

    async def pass_on(
        self, sid: int, subject: bytes, reply: bytes, body: bytes, raw: bytes
    ) -> None:
        """Have nats-py handle a message."""
        await self._process_msg(sid, subject, reply, body, raw)

    def start_listening(self, subject: str, handler: FrameHandler, queue: str = "") -> Subscription:
        """Subscribe; *handler* is called for each message until :meth:`stop_listening`.

        Raises:
            BadSubjectError: white space would be read as part of the protocol.
            ConnectionClosedError: it is over.
        """
        if self.is_closed:
            raise ConnectionClosedError
        if len(subject.split()) != 1 or len(queue.split()) > 1:
            raise BadSubjectError
        self._sid += 1
        # nats-py subscribes again with what it finds here when it has reconnected.
        sub = Subscription(self, self._sid, subject, queue)
        self._subs[self._sid] = sub
        self._direct[b"%d" % self._sid] = handler
        self._queue_line(b"SUB %b %b %d\r\n" % (subject.encode(), queue.encode(), self._sid))
        # Together with what is sent in this turn of the loop, which often waits for the answer.
        self._uncork_soon()
        return sub

    def stop_listening(self, sub: Subscription, *, idle: bool = False) -> None:
        """Unsubscribe, also when the connection is gone.

        Args:
            sub: the subscription.
            idle: nothing comes to it, so that its end can wait for what is written next.
        """
        sid = _sid(sub)
        self._direct.pop(b"%d" % sid, None)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._queue_line(b"UNSUB %d\r\n" % sid)
            if idle:
                self._write_when_idle()
            else:
                self._write_later()

    async def finish_listening(self, sub: Subscription) -> None:
        """Unsubscribe and take in what the server had sent by then; nothing can come after it."""
        sid = _sid(sub)
        if self._subs.pop(sid, None) is not None and self.is_connected:
            self._queue_line(b"UNSUB %d\r\n" % sid)
            # The ping of a flush does not wait for what is to be written.
            self._write_pending()
            with contextlib.suppress(NatsError, TimeoutError):
                await self.flush(_FINISH_S)
        self._direct.pop(b"%d" % sid, None)

    @asynccontextmanager
    async def listen(
        self, subject: str, handler: FrameHandler, *, settled: bool = False
    ) -> AsyncGenerator[None]:
        """Subscribe for as long as the context lasts.

        Args:
            subject: what to listen to.
            handler: takes each frame.
            settled: begin when the server has the subscription. Without this, what another
                connection sends at once can come before it.
        """
        sub = self.start_listening(subject, handler)
        try:
            if settled and self.is_connected:
                self._write_pending()
                with contextlib.suppress(NatsError, TimeoutError):
                    await self.flush(_FINISH_S)
            yield
        finally:
            self.stop_listening(sub)

    async def close(self) -> None:
        """Close the connection; what a broken one still had to send is dropped."""
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None and writer.transport.is_closing():
            self._pending, self._last = [], []
            self._pending_data_size = 0
        self._write_pending()
        await super().close()

    # messages out

    def post(
        self,
        subject: str,
        body: bytes,
        *,
        reply: str = "",
        head: bytes = b"",
        haste: Haste = Haste.AT_ONCE,
    ) -> None:
        """Publish without waiting; kept while there is no connection, as far as there is room.

        Args:
            subject: where to.
            body: the message.
            reply: where an answer goes.
            head: a whole header block, or nothing.
            haste: whether somebody waits for it; otherwise it goes after two milliseconds, or with
                what is sent before that if it is not to come last.

        Raises:
            BadSubjectError: white space would be read as part of the protocol.
            OutboundBufferLimitError: there is no connection, and no room to keep it.
            ConnectionClosedError, ConnectionDrainingError: it is over.
        """
        frame = publish_frame(subject, reply, head, body)
        if not self.is_connected:
            self._check_can_wait()
        frames = self._last if haste is Haste.LAST else self._pending
        frames.append(frame)
        self._pending_data_size += len(frame)
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(body)
        is_much = len(frames) >= _WRITE_FRAMES
        if haste is not Haste.AT_ONCE:
            self._write_later()
            if is_much:
                self._write_pending()
            return
        if is_much or not self._has_written:
            # The first at once, for the sake of a round trip; those that follow in this turn of
            # the loop go some together, for the sake of a thousand at once.
            self._has_written = True
            self._write_pending(late=False)
        self._uncork_soon()

    def _check_can_wait(self) -> None:
        """Check that a message may be kept until there is a connection again."""
        if self.is_closed:
            raise ConnectionClosedError
        if self.is_draining_pubs:
            raise ConnectionDrainingError
        if self._pending_data_size > self._max_pending_size:
            raise OutboundBufferLimitError

    @property
    def is_behind(self) -> bool:
        """Whether so much is to be written that a sender should wait for the socket."""
        return self._pending_data_size > self._max_pending_size

    async def wait_for_socket(self) -> None:
        """Wait while more is to be written than is kept."""
        if self.is_behind and self.is_connected:
            await self._flush_pending(force_flush=True)

    def _queue_line(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_data_size += len(line)

    def _uncork_soon(self) -> None:
        if not self._corked:
            self._corked = True
            asyncio.get_running_loop().call_soon(self._uncork)

    def _uncork(self) -> None:
        self._corked = self._has_written = False
        self._write_pending(late=False)

    def _write_later(self) -> None:
        if not self._late:
            self._late = True
            asyncio.get_running_loop().call_later(_LATEST_S, self._write_late)

    def _write_late(self) -> None:
        self._late = False
        self._write_pending()

    def _write_when_idle(self) -> None:
        if not self._idle:
            self._idle = True
            asyncio.get_running_loop().call_later(_IDLE_S, self._write_idle)

    def _write_idle(self) -> None:
        self._idle = False
        self._write_pending()

    def _write_pending(self, *, late: bool = True) -> None:
        if late and self._last:
            self._pending += self._last
            self._last = []
        if not self._pending or not self.is_connected or self._flush_queue is None:
            return
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None and writer.transport.is_closing():
            # It is kept for the next connection. Python 3.12 raises TypeError where lines are
            # written to what is closed, and nats-py's flusher would end of it.
            return
        if writer is not None and writer.transport.get_write_buffer_size() < _SOCKET_BEHIND_BYTES:
            writer.writelines(self._pending)
            self._pending = []
            self._pending_data_size = sum(map(len, self._last))
        elif self._flush_queue.empty():
            # nats-py's own flusher waits until the socket takes more.
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    # requests

    def start_answers(self) -> None:
        """Subscribe once for the answers to every request of this connection."""
        self._answers_at = f"{self.new_inbox()}."
        self.start_listening(f"{self._answers_at}*", self._on_answer)

    def _on_answer(self, subject: bytes, reply: bytes, body: bytes, raw: bytes) -> None:
        handler = self._answers.get(subject)
        if handler is not None:
            handler(subject, reply, body, raw)

    def expect(self, subject: str, handler: FrameHandler, fail: Callable[[Exception], None]) -> str:
        """Return a new reply subject, in use until :meth:`forget`.

        Args:
            subject: where the request goes.
            handler: called with what comes to the reply subject.
            fail: called with PermissionDeniedError when the server denies the request, and with
                TimeoutError when the connection that it was sent on is gone: ask again.
        """
        self._asked += 1
        reply = f"{self._answers_at}{self._asked}"
        key = reply.encode()
        self._answers[key] = handler
        self._outstanding[key] = _Asked(subject, fail)
        return reply

    def forget(self, reply: str) -> None:
        """Drop what still comes to *reply*. Idempotent."""
        key = reply.encode()
        self._answers.pop(key, None)
        self._outstanding.pop(key, None)

    def on_denied(self, text: str) -> None:
        """Fail what the server denies in *text*, in lower case: requests, or all answers."""
        for asked in list(self._outstanding.values()):
            if f'"{asked.subject.lower()}"' in text:
                asked.fail(PermissionDeniedError("publishing", asked.subject))
            elif f'"{self._answers_at.lower()}*"' in text:
                asked.fail(PermissionDeniedError("subscribing", self._answers_at + "*"))

    def on_revoked(self, url: str) -> None:
        """Fail what was asked: the server does not let this identity in any more."""
        for asked in list(self._outstanding.values()):
            asked.fail(PermissionDeniedError("connecting", url))

    def on_reconnected(self) -> None:
        """Fail what was asked of the connection before."""
        for asked in list(self._outstanding.values()):
            asked.fail(TimeoutError("the connection was lost"))

    async def ask(self, subject: str, body: bytes, *, timeout_s: float) -> Reply:
        """Send a request and return its answer; sent again on another connection.

        Raises:
            TimeoutError: none came in time.
            PermissionDeniedError: the server does not allow it.
            NoRespondersError: nobody listens there.
            NatsError: it could not be sent.
        """
        deadline = time.monotonic() + timeout_s
        reconnects = self.stats["reconnects"]
        while True:
            try:
                return await self._ask(subject, body, deadline - time.monotonic())
            except TimeoutError:
                if self.stats["reconnects"] == reconnects or time.monotonic() >= deadline:
                    raise
            reconnects = self.stats["reconnects"]

    async def _ask(self, subject: str, body: bytes, timeout_s: float) -> Reply:
        if len(body) > self.max_payload:
            # Sent anyway, it would cost everybody on this connection the connection.
            raise MaxPayloadError
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        def on_answer(_subject: bytes, _reply: bytes, answer: bytes, raw: bytes) -> None:
            if status(raw) == _NO_RESPONDERS:
                fail(NoRespondersError())
            elif not future.done():
                future.set_result(Reply(answer, raw))

        reply = self.expect(subject, on_answer, fail)
        try:
            self.post(subject, body, reply=reply)
            async with asyncio.timeout(timeout_s):
                return await future
        finally:
            self.forget(reply)


def _sid(sub: Subscription) -> int:
    return sub._id  # pyright: ignore[reportPrivateUsage]
