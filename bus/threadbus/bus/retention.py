"""What an operator needs to shorten the log: who still needs it, and the cut itself.

``bus archive`` is made of it: it first writes the super-tasks to files. Whoever calls these alone
is responsible for what is lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from nats.errors import Error as NatsError

from threadbus.bus._nats.plain import open_client
from threadbus.bus._nats.trimming import trim_log, waiting_tasks
from threadbus.bus.errors import ReadError
from threadbus.bus.settings import BusSettings
from threadbus.schemas import TaskId

DEFAULT_SPARE: Final = timedelta(seconds=60)
"""So much more than was asked for stays in the log."""


async def tasks_with_waiting_mentions(settings: BusSettings) -> set[TaskId]:
    """Return the super-tasks of which somebody has yet to take a mention.

    Args:
        settings: where, and the operator's key.

    Raises:
        ConnectError: no server can be reached, or it does not let this key in.
        ReadError: the server did not answer.

    Cancellation: safe.
    """
    async with open_client(settings, "operator") as client:
        try:
            return {TaskId(task) for task in await waiting_tasks(client)}
        except (NatsError, TimeoutError) as error:
            raise ReadError("the inboxes", str(error) or "no answer in time") from error


async def drop_before(
    settings: BusSettings, before: int, *, spare: timedelta = DEFAULT_SPARE
) -> int:
    """Drop what was stored before a time from the log; it cannot be had back.

    Args:
        settings: where, and the operator's key.
        before: nanoseconds since the epoch; at least two minutes ago, which is how long the server
            knows repetitions.
        spare: what was stored so long before *before* stays too.

    Returns:
        How many events are gone.

    Raises:
        ConnectError: no server can be reached, or it does not let this key in.
        StreamMismatchError: the server refuses, for a time that is too near for instance.
        ReadError: the server did not answer, or did not drop it within two minutes.

    Cancellation: something may be gone; the streams are as they were otherwise.
    """
    async with open_client(settings, "operator") as client:
        try:
            return await trim_log(client, before, spare // timedelta(microseconds=1) * 1000)
        except (NatsError, TimeoutError) as error:
            raise ReadError("the log", str(error) or "no answer in time") from error
