"""Batched direct get: the way history is read.

One request, one answer of many messages, nothing kept on the server for it. A slow reader cannot
be overrun: at most one batch is on its way, of bounded size, besides what is being used.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.frames import description, header, status
from threadbus.bus.errors import ReadError, ReadTimeoutError
from threadbus.bus.ports import StoredMessage

_SILENCE_S: Final = 5.0
_PATIENCE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
# Each batch makes the server count what is left of the whole stream, so they are large.
_BATCH: Final = 10_000
_BATCH_BYTES: Final = 4 * 1024 * 1024
# What the server adds to a stored message; it stands behind the headers of the publisher, who
# might have sent the same ones.
_PLACE: Final = re.compile(
    rb"\r\nNats-Subject: ([^\r]+)\r\nNats-Sequence: (\d{1,20})\r\nNats-Time-Stamp: ([^\r]+)\r\n"
)
_PLACE_START: Final = b"\r\nNats-Subject: "
_SEQUENCE_START: Final = b"\r\nNats-Sequence: "


DirectFrame: TypeAlias = tuple[bytes, bytes]
"""One message of an answer as it came: its body and its header block."""


async def read_batches(
    client: DirectClient, stream: str, subject: str, after: int, limit: int
) -> AsyncGenerator[list[StoredMessage]]:
    """Read up to *limit* messages that match, later than *after*, in the pieces they come in.

    Raises:
        ReadError: the server refused.
        ReadTimeoutError: it did not answer within 30 seconds.
        PermissionDeniedError: this identity may not read the stream.
    """
    left = limit
    patience = _Patience(client, stream)
    if left <= 0:
        return
    fetch = _Fetch(client, stream, _request(subject, after, left))
    try:
        while True:
            try:
                messages = stored_messages(await fetch.some())
            except (TimeoutError, NatsError) as error:
                fetch.close()
                await patience.pause(error)
                fetch = _Fetch(client, stream, _request(subject, after, left))
                continue
            if messages:
                patience = _Patience(client, stream)
                after = messages[-1].seq
                left -= len(messages)
            has_ended = fetch.has_ended
            goes_on = has_ended and fetch.has_more and left > 0
            if goes_on:
                # The server looks for the next batch while the end of this one is used.
                fetch.close()
                fetch = _Fetch(client, stream, _request(subject, after, left))
            if messages:
                yield messages
            if has_ended and not goes_on:
                return
    finally:
        fetch.close()


def _request(subject: str, after: int, left: int) -> dict[str, object]:
    return {
        "seq": after + 1,
        "batch": min(_BATCH, left),
        "max_bytes": _BATCH_BYTES,
        "next_by_subj": subject,
    }


class _Patience:
    """How long a server that restarts is asked again; it says "no responders" for a while."""

    def __init__(self, client: DirectClient, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._deadline = time.monotonic() + _PATIENCE_S
        self._pause = _FIRST_PAUSE_S

    async def pause(self, error: Exception) -> None:
        """Wait before the next try.

        Raises:
            ReadTimeoutError: there were enough.
        """
        if self._client.is_closed or time.monotonic() >= self._deadline:
            reason = str(error) or "no answer in time"
            raise ReadTimeoutError(f"stream {self._stream}", reason) from error
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)


async def direct_get(
    client: DirectClient, stream: str, request: Mapping[str, object]
) -> Sequence[DirectFrame]:
    """Do one direct get; tried again while the server comes back.

    Returns:
        The messages of its one batch, in order.

    Raises:
        ReadError: the server refused.
        ReadTimeoutError: it did not answer within 30 seconds.
        PermissionDeniedError: this identity may not read the stream.
    """
    patience = _Patience(client, stream)
    while True:
        fetch = _Fetch(client, stream, request)
        frames: list[DirectFrame] = []
        try:
            while not fetch.has_ended:
                frames += await fetch.some()
        except (TimeoutError, NatsError) as error:
            fetch.close()
            await patience.pause(error)
        else:
            return frames
        finally:
            fetch.close()


class _Fetch:
    """One batch, asked for when it is made; its messages are taken as they come."""

    def __init__(self, client: DirectClient, stream: str, request: Mapping[str, object]) -> None:
        self.has_ended = False
        self.has_more = False
        """Whether there are more behind the batch; says nothing before its end."""
        self._stream = stream
        self._frames: list[DirectFrame] = []
        self._count = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._client = client
        subject = f"$JS.API.DIRECT.GET.{stream}"
        self._reply = client.expect(subject, self._on_frame, self._fail)
        body = msgspec.json.encode(request)
        try:
            client.post(subject, body, reply=self._reply)
        except NatsError as error:
            self._error = error

    def close(self) -> None:
        """Let go; what still arrives is dropped. Idempotent."""
        self._client.forget(self._reply)

    def _on_frame(self, _subject: bytes, _reply: bytes, body: bytes, raw: bytes) -> None:
        # The server makes the first line of what it has stored anew, whatever was sent there.
        if not raw.startswith(b"NATS/1.0 "):
            self._frames.append((body, raw))
            self._count += 1
        elif (code := status(raw)) == 204:
            self.has_ended = True
            # Nothing in a batch is the end as well, or it would be asked for again for ever.
            self.has_more = self._count > 0 and header(raw, b"Nats-Num-Pending") != b"0"
        elif code == 404:
            self.has_ended = True
        elif code == 503:
            self._error = TimeoutError("no responders")
        else:
            self._error = ReadError(f"stream {self._stream}", f"{code} {description(raw)}")
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def some(self) -> list[DirectFrame]:
        """Return what has arrived, waiting for the first; empty at the end.

        Raises:
            TimeoutError: nothing came for a while, or nobody answers.
            NatsError, ReadError: it could not be asked for, or was refused.
        """
        if not self._frames and not self.has_ended and self._error is None:
            loop = asyncio.get_running_loop()
            waiter = self._waiter = loop.create_future()
            timer = loop.call_later(_SILENCE_S, _give_up, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self._error is not None:
            raise self._error
        frames, self._frames = self._frames, []
        return frames


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError("no answer in time"))


def stored_messages(frames: Sequence[DirectFrame]) -> list[StoredMessage]:
    """Return the messages of an answer with their places in the log."""
    found: list[StoredMessage] = []
    for body, raw in frames:
        message = stored_message(body, raw)
        if message is not None:
            found.append(message)
    return found


def stored_message(body: bytes, raw: bytes) -> StoredMessage | None:
    """Return a message with its place in the log; None where the server does not say it."""
    place = _PLACE.match(raw, raw.rfind(_PLACE_START))
    if place is None:
        return None
    subject, seq, stamp = place.groups()
    # The server takes any bytes as a subject.
    text = subject.decode("utf-8", "replace")
    try:
        stored_at = _time(stamp)
    except ValueError:
        # No server's word.
        return None
    return StoredMessage(int(seq), text, body, stored_at, is_relayed(raw))


def is_relayed(raw: bytes) -> bool:
    """Whether a message that was just read had been stored as the answer to a request.

    A client may name any subject for an answer, also one that it must not publish on: asked for a
    message by a direct get, the server puts that message there. It then has what the server added
    for the answer, besides what it adds now.
    """
    return raw.count(_SEQUENCE_START) > 1


def parse_time(text: str) -> int:
    """Return the nanoseconds since the epoch of an RFC 3339 time in UTC."""
    return _time(text.encode())


_seconds: dict[bytes, int] = {}


def _time(stamp: bytes) -> int:
    """Parse a time: ``datetime`` keeps microseconds only, and messages come many to a second.

    The whole second is parsed once and the fraction by hand.
    """
    second = stamp[:19]
    base = _seconds.get(second)
    if base is None:
        if len(_seconds) > 4096:
            _seconds.clear()
        moment = datetime.strptime(second.decode(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
        base = _seconds[second] = int(moment.timestamp()) * 1_000_000_000
    # ".123Z": the server leaves zeros at the end of the fraction away.
    return base + int(stamp[20:-1].ljust(9, b"0"))
