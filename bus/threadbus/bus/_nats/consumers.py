"""The consumer of an inbox, as the server is asked for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from threadbus.bus._nats.api import ApiAnswer, api
from threadbus.bus._nats.client import DirectClient
from threadbus.schemas import AgentName, inbox_filter

_CREATE_S: Final = 3.0
_MAX_ACK_PENDING: Final = 10_000


async def create_consumer(
    client: DirectClient, agent: AgentName, stream: str, ack_wait: timedelta, **more: object
) -> ApiAnswer:
    """Create the consumer of an inbox, or find it.

    Args:
        client: the connection.
        agent: whose inbox.
        stream: the work queue.
        ack_wait: how long a mention is leased.
        more: what else its configuration says.

    Raises:
        nats.errors.Error, TimeoutError: there was no answer.
    """
    subject, name = inbox_filter(agent), f"agent-{agent}"
    config: dict[str, object] = {
        "name": name,
        "durable_name": name,
        "filter_subject": subject,
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait.total_seconds() * 1e9),
        # Attempts are counted from the log; past max_deliver a message is stuck.
        "max_deliver": -1,
        "max_ack_pending": _MAX_ACK_PENDING,
        "mem_storage": True,
        **more,
    }
    request = {"stream_name": stream, "config": config}
    # Without a leader nobody answers: it is asked again soon.
    return await api(
        client, f"CONSUMER.CREATE.{stream}.{name}.{subject}", request, timeout_s=_CREATE_S
    )
