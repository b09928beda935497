"""Over how many streams the log and the inboxes are spread, and which stream something is in.

One stream is the common case: the log is ``BUS``, the inboxes are ``MENTIONS``. A log of several
partitions is ``BUS-0``, ``BUS-1``…: whoever appends sends to ``part.<i>.<task>.…``, where *i* is
the hash of the task, and the stream of that partition stores it as ``bus.<task>.…``. Inboxes of
several streams are ``MENTIONS-0``…, each with the agents of its hash; ``MENTIONS`` is then the hub
that they are filled from.

It is decided when the streams are made, and found in their metadata afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from threadbus.bus.ports import MessageHandler, StoredMessage
from threadbus.schemas import partition_of, partition_of_seq, partition_subject

LOG_STREAM: Final = "BUS"
INBOX_STREAM: Final = "MENTIONS"
PARTITIONS_KEY: Final = "threadbus.partitions"
INBOXES_KEY: Final = "threadbus.inboxes"
_WHOLE: Final = frozenset({"*", ">"})


@dataclass(frozen=True)
class Layout:
    """How the log and the inboxes of one bus are spread."""

    partitions: int = 1
    inboxes: int = 1

    @property
    def log_streams(self) -> tuple[str, ...]:
        """The streams of the log, by partition."""
        if self.partitions == 1:
            return (LOG_STREAM,)
        return tuple(f"{LOG_STREAM}-{number}" for number in range(self.partitions))

    @property
    def inbox_streams(self) -> tuple[str, ...]:
        """The work queues that agents are woken from."""
        if self.inboxes == 1:
            return (INBOX_STREAM,)
        return tuple(f"{INBOX_STREAM}-{number}" for number in range(self.inboxes))

    def inbox_stream(self, agent: str) -> str:
        """Return the work queue of one agent."""
        return self.inbox_streams[partition_of(agent, self.inboxes)]

    def partition_of_filter(self, subject: str) -> int | None:
        """Return the partition of what matches; None where that may be any."""
        if self.partitions == 1:
            return 0
        token = _task_of(subject)
        return None if token in _WHOLE else partition_of(token, self.partitions)

    def entry_of(self, subject: str) -> str:
        """Return the subject that an event is sent to, to be stored on *subject*."""
        if self.partitions == 1 or not subject.startswith("bus."):
            return subject
        return partition_subject(subject, partition_of(_task_of(subject), self.partitions))

    def is_misplaced(self, seq: int, subject: str) -> bool:
        """Whether a message of the log is in a partition where nobody looks for it.

        Whoever may publish chooses the partition. The server cannot check it; readers do.
        """
        if self.partitions == 1:
            return False
        return partition_of_seq(seq) != partition_of(_task_of(subject), self.partitions)


def _task_of(subject: str) -> str:
    return f"{subject}..".split(".", 2)[1]


async def placed_batches(
    layout: Layout, batches: AsyncGenerator[list[StoredMessage]]
) -> AsyncGenerator[list[StoredMessage]]:
    """Mark in each batch what is in a partition where nobody looks for it."""
    async with aclosing(batches):
        async for batch in batches:
            yield [_placed(layout, message) for message in batch]


def placed_handler(layout: Layout, partition: int, handler: MessageHandler) -> MessageHandler:
    """Return a handler of a tail that passes over what is in another partition.

    One subscription hears all partitions, and the sequence of another one would mislead.
    """

    def placed(message: StoredMessage) -> None:
        if partition_of_seq(message.seq) == partition:
            handler(_placed(layout, message))

    return placed


def _placed(layout: Layout, message: StoredMessage) -> StoredMessage:
    if layout.is_misplaced(message.seq, message.subject):
        return message._replace(misplaced=True)
    return message
