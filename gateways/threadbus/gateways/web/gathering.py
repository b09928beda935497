"""Writes of one turn of the loop go out together: the head of an answer with its body.

uvicorn writes them one after the other, and each write wakes the peer, which costs more than what
is in it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_MOST_BYTES: Final = 64 * 1024
"""More is written at once: whoever sends much has to feel when the peer does not take it."""


class GatheredTransport(asyncio.Transport):
    """A transport that holds what is written until the turn of the loop is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._held: list[bytes | bytearray | memoryview] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write *data* at the end of this turn, or at once where it is much."""
        if not data:
            return
        if not self._held:
            asyncio.get_running_loop().call_soon(self.flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def write_eof(self) -> None:
        """End the stream behind what is held."""
        self.flush()
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Return what the transport says."""
        return self._transport.can_write_eof()

    def close(self) -> None:
        """Close behind what is held."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is held is dropped."""
        self._held, self._size = [], 0
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return what the transport says."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport says."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how much is held, here or behind."""
        return self._size + self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return what the transport says."""
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Tell the transport."""
        self._transport.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        """Return what the transport says."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Tell the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Tell the transport."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell the transport."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what the transport says."""
        return self._transport.get_protocol()


class GatheringProtocol(AutoHTTPProtocol):  # type: ignore[valid-type,misc] # chosen at import
    """The protocol of uvicorn over such a transport."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        gathered = transport
        if isinstance(transport, asyncio.Transport):
            gathered = GatheredTransport(transport)
        super().connection_made(gathered)
