"""The whole log, for whoever takes in all of it: an exporter, an index, an archive.

A :class:`LogConsumer` is durable by its name: the server keeps the sequence up to which it is
done, so that it goes on there after whatever ended it. What came after that sequence comes again;
each entry carries its sequence, by which a repetition is known.

A log that is spread over several partitions has a consumer for each: a super-task is whole in one
of them, and between two of them there is no order but that of time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec

from threadbus.bus.errors import ReadError
from threadbus.bus.following import Entry, Follower
from threadbus.bus.ports import Backend, KeyValuePort
from threadbus.bus.reading import LogReader
from threadbus.schemas import parse_agent_name, partition_start

_MAX_SEQ: Final = 2**63 - 1


class _Position(msgspec.Struct, frozen=True):
    """What is kept of a consumer."""

    seq: int


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Position)


class LogConsumer(AsyncIterator[Entry]):
    """A named reader of the whole log. Made by :meth:`Bus.consuming`."""

    def __init__(
        self,
        backend: Backend,
        positions: KeyValuePort,
        name: str,
        follower: Follower,
        position: int,
        partition: int = 0,
    ) -> None:
        self._backend = backend
        self._positions = positions
        self._follower = follower
        self.name = name
        self.partition = partition
        """Which partition of the log it takes in."""
        self.position = position
        """The sequence up to which it is done, as the server has it."""
        self.read_to = position
        """The sequence of the last entry that was given out."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        """Return the next entry; there is always one more.

        Cancellation: safe.
        """
        entry = await self._follower.__anext__()
        self.read_to = entry.seq
        return entry

    async def commit(self, seq: int) -> None:
        """Say that everything up to *seq* is done; a smaller one than before changes nothing.

        Raises:
            AppendError: the server did not keep it; what follows the old position comes again.

        Cancellation: it may or may not be kept.
        """
        if seq > self.position:
            await self._positions.put(
                _key(self.name, self.partition), _ENCODER.encode(_Position(seq))
            )
            self.position = seq

    async def end(self) -> int:
        """Return the last sequence of the partition: up to there, nothing can come between.

        Raises:
            ReadError: the server refused or did not answer.
        """
        return await self._backend.log.last_seq(self.partition)

    async def server_time(self) -> int:
        """Return the server's clock, in nanoseconds since the epoch.

        Raises:
            ReadError: the server refused or did not answer.
        """
        return (await self._backend.storage()).server_time


@asynccontextmanager
async def open_consumer(
    backend: Backend, reader: LogReader, name: str, after: int | None, partition: int | None
) -> AsyncGenerator[LogConsumer]:
    """Take in the whole log under a name: the server keeps how far it got.

    Two processes that use one name at a time both get everything.

    Args:
        backend: what the bus is on.
        reader: the log as events.
        name: of the consumer, with the grammar of an agent's name: ``exporter-jaeger``.
        after: begin behind this sequence; where it was done, or at the beginning, when absent.
        partition: of the log; needs no saying where there is one.

    Raises:
        InvalidNameError: the name is outside the grammar.
        ReadError, AppendError: the position cannot be read, or there is no such partition.
        StreamMismatchError: the bucket of the positions is not as it must be.
    """
    name = parse_agent_name(name)
    count = backend.log.partitions
    number = (0 if count == 1 else -1) if partition is None else partition
    if not 0 <= number < count:
        said = "none was named" if partition is None else f"not {partition}"
        raise ReadError("the whole log", f"it has the partitions 0 to {count - 1}; {said}")
    positions = await backend.positions()
    if after is None:
        found = await positions.get(_key(name, number))
        after = partition_start(number) if found is None else _decode(name, found.value)
    async with reader.following_all(after, number) as follower:
        yield LogConsumer(backend, positions, name, follower, after, number)


def _key(name: str, partition: int) -> str:
    return f"{name}.{partition}" if partition else name


def _decode(name: str, value: bytes) -> int:
    try:
        seq = _DECODER.decode(value).seq
    except msgspec.MsgspecError as error:
        raise ReadError(f"the position of {name}", f"it is not one: {error}") from error
    if not 0 <= seq <= _MAX_SEQ:
        raise ReadError(f"the position of {name}", f"{seq} is no sequence")
    return seq
