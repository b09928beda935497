"""Where a super-task, or an agent's inbox, is when one stream is not enough.

The partition of a token is its 32-bit FNV-1a hash modulo the number of partitions: the same as
``{{partition(n,…)}}`` in a subject mapping of nats-server, so that a client and a server that maps
put an event into the same stream. docs/wire.md has test vectors.

Each partition of the log numbers from a start of its own. So a sequence is unique in the whole
log, and says which partition it is in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

MAX_PARTITIONS: Final = 64
"""Streams that the log, or the inboxes, may be spread over."""

PARTITION_SPAN: Final = 1_000_000_000_000
"""Sequences of one partition: partition 3 begins behind 3,000,000,000,000.

All together stay below 2**53, so that every language's JSON can carry them.
"""

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=8192)
def partition_of(token: str, count: int) -> int:
    """Return the partition of a token of a subject.

    Args:
        token: a task id, or an agent's name.
        count: how many partitions there are, from 1.

    Returns:
        A number from 0 to *count* - 1.
    """
    value = _OFFSET
    for byte in token.encode("utf-8", "surrogateescape"):
        value = ((value ^ byte) * _PRIME) & _MASK
    return value % count


def partition_of_seq(seq: int) -> int:
    """Return the partition that a sequence of the log is in; 0 where the log has only one."""
    return max(seq - 1, 0) // PARTITION_SPAN


def partition_start(partition: int) -> int:
    """Return the sequence behind which a partition begins."""
    return partition * PARTITION_SPAN


def partition_subject(subject: str, partition: int) -> str:
    """Return what an event is sent to, for the stream of a partition to store it on *subject*."""
    return f"part.{partition}.{subject.removeprefix('bus.')}"


class LogPlaces:
    """How far somebody has read in each partition of the log; nowhere yet when it is new."""

    def __init__(self) -> None:
        self._seqs: dict[int, int] = {}

    def take(self, seq: int) -> None:
        """Note that everything up to *seq*, in its partition, was read."""
        partition = partition_of_seq(seq)
        self._seqs[partition] = max(seq, self._seqs.get(partition, 0))

    def after(self, partition: int) -> int:
        """Return the sequence behind which to read on in a partition."""
        return self._seqs.get(partition, partition_start(partition))
