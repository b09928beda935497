"""Batched direct get: the way history is read.

One request, one answer of many messages, nothing kept on the server for it. A slow reader cannot
be overrun, since it asks for the next batch when it is done with the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient, description, header, status
from threadbus.bus.errors import ReadError
from threadbus.bus.ports import StoredMessage

_SILENCE_S: Final = 5.0
_ATTEMPTS: Final = 5


class DirectFrame(NamedTuple):
    """One message of an answer."""

    seq: int
    subject: str
    body: bytes
    raw: bytes
    """Its header block."""

    def stored(self) -> StoredMessage:
        """Return it as a message of the log."""
        return StoredMessage(self.seq, self.subject, self.body, time_stamp(self.raw))


async def direct_get(
    client: DirectClient, stream: str, request: Mapping[str, object]
) -> tuple[list[DirectFrame], bool]:
    """Do one batched direct get; tried again while the server comes back.

    Returns:
        The messages in order, and whether more may follow.

    Raises:
        ReadError: the server refused, or did not answer in several tries.
    """
    reason = ""
    for attempt in range(_ATTEMPTS):
        try:
            return await _once(client, stream, request)
        except (TimeoutError, NatsError) as error:
            reason = str(error) or "no answer in time"
        # A server that restarts answers "no responders" until the stream is back.
        await asyncio.sleep(0.1 * 2**attempt)
    raise ReadError(f"stream {stream}", reason)


async def _once(
    client: DirectClient, stream: str, request: Mapping[str, object]
) -> tuple[list[DirectFrame], bool]:
    frames: list[DirectFrame] = []
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_frame(_subject: str, _reply: str, body: bytes, raw: bytes) -> None:
        code = status(raw)
        if code == 0:
            seq = header(raw, b"Nats-Sequence")
            subject = header(raw, b"Nats-Subject")
            if seq is not None and subject is not None:
                frames.append(DirectFrame(int(seq), subject.decode("utf-8", "replace"), body, raw))
        elif done.done():
            return
        elif code == 204:
            done.set_result(header(raw, b"Nats-Num-Pending") not in {None, b"0"})
        elif code == 404:
            done.set_result(False)
        elif code == 503:
            done.set_exception(TimeoutError("no responders"))
        else:
            done.set_exception(ReadError(f"stream {stream}", f"{code} {description(raw)}"))

    inbox = client.new_inbox()
    async with client.listen(inbox, on_frame):
        await client.publish(
            f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), reply=inbox
        )
        seen = -1
        while not done.done():
            # A large batch may take long; only silence is an error.
            await asyncio.wait({done}, timeout=_SILENCE_S)
            if not done.done() and len(frames) == seen:
                raise TimeoutError("no answer in time")
            seen = len(frames)
    return frames, done.result()


def time_stamp(raw: bytes) -> int:
    """Return when a message was stored, in nanoseconds since the epoch; 0 where it is not said."""
    text = header(raw, b"Nats-Time-Stamp")
    return 0 if text is None else parse_time(text.decode())


_seconds: dict[str, int] = {}


def parse_time(text: str) -> int:
    """Return the nanoseconds since the epoch of an RFC 3339 time in UTC.

    ``datetime`` keeps microseconds only, and messages come many to a second: the whole second is
    parsed once and the fraction by hand.
    """
    second, _, fraction = text.rstrip("Z").partition(".")
    base = _seconds.get(second)
    if base is None:
        if len(_seconds) > 4096:
            _seconds.clear()
        moment = datetime.strptime(second, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
        base = _seconds[second] = int(moment.timestamp()) * 1_000_000_000
    return base + int(fraction.ljust(9, "0")[:9] or 0)
