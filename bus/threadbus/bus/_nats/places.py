"""Where in the log a mention is that came out of a spread log, or through the hub.

The server says of a mention where it was copied from. Where that is the hub, the hub says it of the
log; what is too old to be in the hub is looked for in the thread.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import Final

from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.frames import status
from threadbus.bus._nats.layout import INBOX_STREAM, Layout
from threadbus.bus._nats.log import NatsLog
from threadbus.bus.errors import ReadTimeoutError

_GET_S: Final = 10.0
_NO_LIMIT: Final = 1 << 60
# The server puts it behind the headers of the publisher, who might have sent one as well.
_SOURCE_START: Final = b"\r\nNats-Stream-Source: "
_SOURCE: Final = re.compile(_SOURCE_START + rb"[^ ]* (\d{1,20}) [^ ]* [^ ]* ([^ \r]*)")


def source_of(raw: bytes) -> tuple[int, str]:
    """Return the sequence and the subject that a message was copied from; 0 where it was not.

    The header: ``<stream> <seq> <filters> <destinations> <subject> <…>``.
    """
    source = _SOURCE.match(raw, raw.rfind(_SOURCE_START))
    if source is None:
        return 0, ""
    return int(source[1]), source[2].decode("utf-8", "replace")


class MentionPlaces:
    """Finds mentions in the log of one bus."""

    def __init__(self, client: DirectClient, log: NatsLog, layout: Layout) -> None:
        self._client = client
        self._log = log
        self._layout = layout

    @property
    def come_from_several(self) -> bool:
        """Whether mentions come from several partitions, whose sequences are in no order."""
        return self._layout.inboxes == 1

    async def find(self, seq: int, subject: str, body: bytes) -> tuple[int, str, bool]:
        """Return the sequence and subject in the log of what was copied from (*seq*, *subject*).

        Returns:
            The two, and whether it is in a partition that it does not belong to.

        Raises:
            ReadError: the server refused or did not answer.
        """
        if self._layout.inboxes > 1:
            place = await self._in_hub(seq)
            seq, subject = place or await self._in_log(subject, body)
        return seq, subject, self._layout.is_misplaced(seq, subject)

    async def _in_hub(self, seq: int) -> tuple[int, str] | None:
        try:
            reply = await self._client.ask(
                f"$JS.API.DIRECT.GET.{INBOX_STREAM}", b'{"seq":%d}' % seq, timeout_s=_GET_S
            )
        except (NatsError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ReadTimeoutError(f"stream {INBOX_STREAM}", reason) from error
        if status(reply.raw):
            return None
        return source_of(reply.raw)

    async def _in_log(self, subject: str, body: bytes) -> tuple[int, str]:
        # hub.<i>.<agent>.<task>.<thread>.<class>.<sender>
        sent = ".".join(["bus", *subject.split(".")[3:], ">"])
        async with aclosing(self._log.read(sent, 0, _NO_LIMIT)) as batches:
            async for batch in batches:
                for message in batch:
                    if message.body == body:
                        return message.seq, message.subject
        # It is in no place where it could be looked up: what came of it would not be either.
        return 0, ""
