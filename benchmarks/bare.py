"""The floor: the same bytes to the same server over a bare socket, and nothing else.

No event is made, checked, encoded or decoded, no deadline is kept and no error handled. What is
left is the work of the server, of the kernel and of the loop of asyncio: no client in Python that
stores the same things in the same streams takes less.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from threadbus.schemas import Event, control_filter, encode_event

Handler: TypeAlias = Callable[[bytes, bytes], None]
"""Called with the subject and the reply subject of a message."""

_END: Final = b"\r\n"
_WRITTEN_TOGETHER: Final = 32
_CONNECT: Final = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'


class BareConnection(asyncio.Protocol):
    """One connection that speaks as much of the NATS protocol as the floor needs."""

    def __init__(self) -> None:
        self._handlers: dict[bytes, Handler] = {}
        self._rest = b""
        self._pending: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce ourselves."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(transport)
        self._transport = transport
        transport.write(_CONNECT)

    def write(self, data: bytes) -> None:
        """Send bytes of the protocol."""
        if self._transport is not None:
            self._transport.write(data)

    def write_soon(self, data: bytes) -> None:
        """Send bytes together with those that follow in this turn of the loop, up to a bound."""
        self._pending.append(data)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(self._write_pending)
        elif len(self._pending) >= _WRITTEN_TOGETHER:
            self._write_pending()

    def _write_pending(self) -> None:
        self.write(b"".join(self._pending))
        self._pending.clear()

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.close()

    def subscribe(self, subject: str, handler: Handler) -> None:
        """Call *handler* with each message."""
        sid = b"%d" % (len(self._handlers) + 1)
        self._handlers[sid] = handler
        self.write(b"SUB %b %b\r\n" % (subject.encode(), sid))

    def data_received(self, data: bytes) -> None:
        """Hand on each message."""
        data = self._rest + data
        at = 0
        while (end := data.find(_END, at)) >= 0:
            words = data[at:end].split()
            start = end + 2
            if words[0] in {b"MSG", b"HMSG"}:
                stop = start + int(words[-1])
                if len(data) < stop + 2:
                    break
                has_head = words[0] == b"HMSG"
                reply = words[3] if len(words) == (6 if has_head else 5) else b""
                self._handlers[words[2]](words[1], reply)
                start = stop + 2
            elif words[0] == b"PING":
                self.write(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise RuntimeError(data[at:end].decode())
            at = start
        self._rest = data[at:]


@asynccontextmanager
async def bare_connection(url: str) -> AsyncGenerator[BareConnection]:
    """Connect to the server at *url*."""
    where = urlsplit(url)
    if where.hostname is None or where.port is None:
        raise ValueError(url)
    _, connection = await asyncio.get_running_loop().create_connection(
        BareConnection, where.hostname, where.port
    )
    try:
        yield connection
    finally:
        connection.close()


def publish(subject: bytes, body: bytes, reply: str = "") -> bytes:
    """Return the bytes of a publish without headers."""
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply.encode(), len(body), body)


class AppendFrames:
    """What a guarded append of one event sends, ready but for its id."""

    def __init__(self, event: Event, last_ctl_seq: int, reply: str) -> None:
        self.reply = reply
        body = encode_event(event)
        head = (
            "NATS/1.0\r\nNats-Msg-Id: {}\r\n"
            f"Nats-Expected-Last-Subject-Sequence: {last_ctl_seq}\r\n"
            "Nats-Expected-Last-Subject-Sequence-Subject: "
            f"{control_filter(event.task, event.thread)}\r\n"
            f"traceparent: 00-{event.task}-{event.id[16:]}-01\r\n\r\n"
        )
        size = len(head.format(event.id))
        line = f"HPUB {event.subject} {reply} {size} {size + len(body)}\r\n"
        before, after = head.split("{}")
        self._before = (line + before).encode()
        self._after = after.encode() + body + _END
        self._count = 0
        self._prefix = event.id[:20].encode()

    def next(self) -> bytes:
        """Return the next one, under an id of its own."""
        self._count += 1
        return b"%b%b%012x%b" % (self._before, self._prefix, self._count, self._after)
