"""Forks: super-tasks whose log begins with a copy of another one's.

The copies come first and wake nobody. ``task.forked`` ends them: it wakes, in the same append,
those who had not settled a mention at that point. A fork without it is half, and shows as paused.
"""

from __future__ import annotations

from threadbus.bus.appended import Appended
from threadbus.bus.errors import InvalidTransitionError
from threadbus.bus.log import EventLog
from threadbus.schemas import Event, TaskForked


class Forks:
    """What is needed to write one. Whoever writes speaks under the names of all who spoke."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def append(self, event: Event) -> Appended:
        """Append a copy, or the end of the copies, under the guard of its thread.

        Args:
            event: has an ``origin`` and no mentions; or is ``task.forked``.

        Raises:
            InvalidTransitionError: it is neither.
            PermissionDeniedError: the credentials do not allow to speak under that name.
            AppendError: the thread does not allow it, or the server refused or did not answer.

        Cancellation: the event may or may not be in the log; append it again to be sure.
        """
        is_copy = event.copy_of is not None and not event.mentions
        if not is_copy and not isinstance(event.data, TaskForked):
            raise InvalidTransitionError(
                f"copying event {event.id}",
                "it has no origin, or it wakes somebody",
                ["set its origin and no mentions"],
            )
        return await self._log.append(event)
