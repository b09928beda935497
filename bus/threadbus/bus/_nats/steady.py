"""nats-py's client without the ways in which its connection ends for good, or without a word."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError

DENIED: Final = "permissions violation"
_STALE: Final = "stale connection"
_TRIES: Final = 5
_END_S: Final = 0.1


class _QuietTransport(TcpTransport):
    """A transport that asyncio does not warn of at the end of each TLS connection."""

    def __init__(self, connected: TcpTransport) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # nats-py has no types here
        vars(self).update(vars(connected))

    async def connect_tls(self, *args: Any, **kwargs: Any) -> None:
        await super().connect_tls(*args, **kwargs)
        writer: asyncio.StreamWriter | None = getattr(self, "_io_writer", None)
        # A server that does not take our certificate may have hung up by now.
        protocol = None if writer is None else writer.transport.get_protocol()
        if protocol is not None:
            # As asyncio itself does where it changes a stream to TLS.
            setattr(protocol, "_over_ssl", True)  # noqa: B010 - not public


class SteadyClient(Client):
    """A client that connects again whatever ended its connection."""

    def __init__(self) -> None:
        super().__init__()
        self._attempts: set[asyncio.Task[Any]] = set()
        """What connects anew."""

    @property
    def server_name(self) -> str:
        """The name of the server at the other end."""
        return str(self._server_info.get("server_name", ""))

    @property
    def server_version(self) -> str:
        """The version of the server at the other end, as 2.15.1."""
        return str(self._server_info.get("version", ""))

    @property
    def server_certificate(self) -> bytes | None:
        """The certificate that the server showed, as DER; None without TLS."""
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        shown = None if writer is None else writer.get_extra_info("ssl_object")
        found: bytes | None = None if shown is None else shown.getpeercert(binary_form=True)
        return found

    @property
    def is_clustered(self) -> bool:
        """Whether the server is one of a cluster."""
        return bool(self._server_info.get("cluster"))

    async def _process_err(self, err_msg: str) -> None:
        """Take in an error that the server sends.

        On most of them nats-py closes for good, and whoever uses it waits for ever. Connecting
        again helps, or says over and over what is wrong.
        """
        text = err_msg.lower()
        if DENIED in text or _STALE in text or self.is_connecting:
            await super()._process_err(err_msg)
            return
        error = NatsError(err_msg.strip("'"))
        await self._error_cb(error)
        await self._process_op_err(error)

    async def _process_pong(self) -> None:
        # nats-py answers a flush that was cancelled or is too late all the same: the error of that
        # would end its read loop without a word, and with it everything that waits here.
        pongs: list[Any] = getattr(self, "_pongs")  # noqa: B009 - nats-py does not say of what
        if pongs and pongs[0].done():
            pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def close(self) -> None:
        """Close the connection, and leave no socket open however that ends.

        Cancellation: the connection is closed all the same, what it still had to send may be lost.
        """
        try:
            await super().close()
        except asyncio.CancelledError:
            # nats-py cancels its attempt to reconnect, and may wait for the same future as that.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
        finally:
            await self._end_reconnecting()
            self._abort()

    async def _end_reconnecting(self) -> None:
        for _ in range(_TRIES):
            others = self._attempts - {asyncio.current_task()}
            if not others:
                return
            # Up to Python 3.11 one that has just got what it waits for does not notice the first.
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_END_S)

    async def _attempt_reconnect(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._attempts.add(task)
            task.add_done_callback(self._on_attempt_ended)
        # nats-py only asks the one before to end. Two at once would lose each other's connections.
        await self._end_reconnecting()
        # Closing in order would wait until a peer that is frozen has read what we wrote.
        self._abort()
        await super()._attempt_reconnect()

    def _on_attempt_ended(self, task: asyncio.Task[Any]) -> None:
        self._attempts.discard(task)
        if not task.cancelled():
            # It may have failed of being closed; asyncio would report that nobody looked.
            task.exception()

    async def _connect_to_server(self, s: Srv) -> None:
        # nats-py forgets the connection of an attempt that failed, and leaves it open.
        self._abort()
        await super()._connect_to_server(s)
        if type(self._transport) is TcpTransport:
            self._transport = _QuietTransport(self._transport)

    def _abort(self) -> None:
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
