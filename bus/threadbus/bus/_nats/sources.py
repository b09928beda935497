"""The sources of the inboxes, watched in a cluster: what stalls is set up again.

When the leaders of the log and of a work queue die together, the queue's next leader may ask for
its source before the log has a leader. The server then waits half a minute for an answer, and some
more before it asks again; meanwhile nothing comes to anybody's inbox. If its leader steps down the
next one asks at once. Whoever is connected for a while looks now and then, and asks for that where
this identity may. Access control lets operators only: where agents have keys of their own it is
`bus guard` or `bus metrics` that mends it (docs/operations/chaos.md).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Final

from nats.errors import Error as NatsError

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.api import ApiAnswer, api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import parse_time
from threadbus.bus.errors import PermissionDeniedError

_SOONEST_S: Final = 4.0
_LATEST_S: Final = 12.0
"""Between two looks; spread, so that of many agents one finds it and the others find it mended."""

_LOOKERS: Final = 8
"""So many together look as often as that; of a thousand agents each looks as much less often."""

_SILENT_NS: Final = 5_000_000_000
"""A source that is alive says so each second, and a new leader's are there within one."""

_ANSWER_S: Final = 3.0


def is_stalled(answer: ApiAnswer) -> bool:
    """Whether a stream has had a leader for long enough and still does not hear its sources."""
    if answer.cluster is None or not answer.cluster.leader_since or not answer.ts:
        return False
    if parse_time(answer.ts) - parse_time(answer.cluster.leader_since) < _SILENT_NS:
        return False
    return any(not 0 <= source.active <= _SILENT_NS for source in answer.sources)


async def watch_sources(client: DirectClient, streams: Callable[[], Collection[str]]) -> None:
    """Look until this identity is told that it may not mend anything.

    Args:
        client: the connection.
        streams: says which to look at; asked each time.

    Cancellation: safe.
    """
    share = 1
    while client.is_clustered:
        pause_s = random.uniform(_SOONEST_S, _LATEST_S)  # noqa: S311 - spread, no secret
        await asyncio.sleep(pause_s * share)
        stalled: list[str] = []
        try:
            stalled, inboxes = await _look(client, streams())
            share = max(1, inboxes // _LOOKERS)
            for stream in stalled:
                await api(client, f"STREAM.LEADER.STEPDOWN.{stream}", timeout_s=_ANSWER_S)
                _log.warning(
                    "the sources of a stream stalled; its leader stepped down", stream=stream
                )
        except PermissionDeniedError as error:
            if stalled:
                _log.warning(
                    "the sources of a stream stalled; an operator can mend it", reason=str(error)
                )
            return
        except (NatsError, TimeoutError):
            # Without a leader there is nothing to step down. The next look comes.
            continue


async def _look(client: DirectClient, streams: Collection[str]) -> tuple[list[str], int]:
    """Return which of *streams*, and of what those are filled from, are stalled.

    Returns:
        Those, and how many inboxes the one with the most has.
    """
    stalled: list[str] = []
    inboxes = 0
    waiting, seen = sorted(streams), set(streams)
    while waiting:
        stream = waiting.pop()
        answer = await api(client, f"STREAM.INFO.{stream}", timeout_s=_ANSWER_S)
        inboxes = max(inboxes, answer.state.consumer_count)
        if is_stalled(answer):
            stalled.append(stream)
        more = {source.name for source in answer.sources} - seen
        seen |= more
        waiting += sorted(more)
    return stalled, inboxes
