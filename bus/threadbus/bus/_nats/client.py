"""The NATS client with a short way from the socket to us.

nats-py puts each message through a queue and a task of its own. Acknowledgements, mentions and
reads do not need either, and took most of the time of a round trip. A handler given to
:meth:`DirectClient.listen` is called at once with the raw header instead. It must not block, and
what it raises is logged, never lost with the connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import structlog
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

FrameHandler: TypeAlias = Callable[[str, str, bytes, bytes], None]
"""Called with subject, reply subject, body and raw header (empty where there is none)."""

_FINISH_S: Final = 2
_STATUS_AT: Final = len(b"NATS/1.0 ")
_log: Any = structlog.get_logger("threadbus.bus")


class DirectClient(Client):
    """A client whose chosen subscriptions are handled without a queue."""

    def __init__(self) -> None:
        super().__init__()
        self._direct: dict[int, FrameHandler] = {}

    @property
    def server_name(self) -> str:
        """The name of the server at the other end."""
        return str(self._server_info.get("server_name", ""))

    @property
    def server_version(self) -> str:
        """The version of the server at the other end, as 2.15.1."""
        return str(self._server_info.get("version", ""))

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        handler = self._direct.get(sid)
        if handler is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        # The server takes any bytes as a subject.
        on = subject.decode("utf-8", "replace")
        try:
            handler(on, reply.decode("utf-8", "replace"), data, headers or b"")
        except Exception:
            # An error here would end the read loop, and with it every other subscription.
            _log.exception("a message handler failed", subject=on)

    async def start_listening(
        self, subject: str, handler: FrameHandler, queue: str = ""
    ) -> Subscription:
        """Subscribe; *handler* is called for each message until :meth:`stop_listening`."""
        sub = await self.subscribe(subject, queue=queue)  # pyright: ignore[reportUnknownMemberType]
        self._direct[_sid(sub)] = handler
        return sub

    async def stop_listening(self, sub: Subscription) -> None:
        """Unsubscribe, also when the connection is gone."""
        self._direct.pop(_sid(sub), None)
        if not self.is_closed and not self.is_draining:
            await sub.unsubscribe()

    async def finish_listening(self, sub: Subscription) -> None:
        """Unsubscribe and take in what the server had sent by then; nothing can come after it."""
        if not self.is_closed and not self.is_draining:
            with contextlib.suppress(NatsError, TimeoutError):
                await sub.unsubscribe()
                await self.flush(_FINISH_S)
        self._direct.pop(_sid(sub), None)

    @asynccontextmanager
    async def listen(self, subject: str, handler: FrameHandler) -> AsyncGenerator[None]:
        """Subscribe for as long as the context lasts."""
        sub = await self.start_listening(subject, handler)
        try:
            yield
        finally:
            await self.stop_listening(sub)


def _sid(sub: Subscription) -> int:
    return sub._id  # pyright: ignore[reportPrivateUsage]


def header(raw: bytes, name: bytes) -> bytes | None:
    """Return the value of one header of a raw block, or None.

    Of several the last: the server adds its own at the end and leaves what a publisher has put
    before them, which would be a way to lie about the subject, and so about the sender.
    """
    start = raw.rfind(b"\r\n" + name + b": ")
    if start < 0:
        return None
    start += len(name) + 4
    return raw[start : raw.find(b"\r\n", start)]


def status(raw: bytes) -> int:
    """Return the status of a message that the server made, or 0 for an ordinary one."""
    if not raw.startswith(b"NATS/1.0 "):
        return 0
    code = raw[_STATUS_AT : _STATUS_AT + 3]
    return int(code) if code.isdigit() else 0


def description(raw: bytes) -> str:
    """Return what the server says beside a status."""
    return raw[_STATUS_AT + 4 : raw.find(b"\r\n")].decode("utf-8", "replace").strip()
