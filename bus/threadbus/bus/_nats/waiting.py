"""What waits in a stream of inboxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threadbus.bus._nats.api import look
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import parse_time
from threadbus.bus.errors import ReadError
from threadbus.bus.facts import WaitingMention
from threadbus.schemas import AgentName, inbox_filter

_NO_MESSAGE: Final = 10037


async def pending_in(client: DirectClient, stream: str) -> Mapping[str, int]:
    """Return how many mentions wait for each agent in one stream.

    Raises:
        ReadError: the server refused or did not answer.
    """
    counts: dict[str, int] = {}
    offset = 0
    while True:
        answer = await look(
            client,
            f"STREAM.INFO.{stream}",
            f"stream {stream}",
            {"subjects_filter": "mention.>", "offset": offset},
        )
        if answer.error is not None:
            raise ReadError(f"stream {stream}", answer.error.description)
        subjects = answer.state.subjects or {}
        for subject, count in subjects.items():
            agent = subject.split(".")[1]
            counts[agent] = counts.get(agent, 0) + count
        offset += len(subjects)
        if not subjects or offset >= answer.total:
            return counts


async def oldest_in(client: DirectClient, agent: AgentName, stream: str) -> WaitingMention | None:
    """Return the mention that has waited longest for *agent* in one stream.

    Raises:
        ReadError: the server refused or did not answer.
    """
    answer = await look(
        client,
        f"STREAM.MSG.GET.{stream}",
        f"the inbox of {agent}",
        {"seq": 1, "next_by_subj": inbox_filter(agent)},
    )
    if answer.err_code == _NO_MESSAGE:
        return None
    if answer.error is not None:
        raise ReadError(f"the inbox of {agent}", answer.error.description)
    message = answer.message
    return WaitingMention(agent, message.subject, parse_time(message.time))
