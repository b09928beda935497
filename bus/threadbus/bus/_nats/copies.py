"""How many servers keep a copy of each stream."""

from __future__ import annotations

from threadbus.bus._nats.api import api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.layout import Layout
from threadbus.bus._nats.spreading import find_layout
from threadbus.bus._nats.streams import POSITIONS_BUCKET, specs
from threadbus.bus.errors import StreamMismatchError

_UPDATE_S = 30.0
_NOT_FOUND = 10059


async def change_copies(client: DirectClient, copies: int) -> list[str]:
    """Have every stream that is there kept by *copies* servers; return those that were changed.

    Raises:
        StreamMismatchError: the server refuses; those before it are changed.
        NatsError, TimeoutError: there was no answer.
    """
    changed: list[str] = []
    layout = await find_layout(client) or Layout()
    for name in [*(spec.name for spec in specs(layout, copies)), f"KV_{POSITIONS_BUCKET}"]:
        found = await api(client, f"STREAM.INFO.{name}")
        if found.err_code == _NOT_FOUND:
            continue
        if found.error is None and found.config.get("num_replicas", 1) == copies:
            continue
        if found.error is None:
            wanted = {**found.config, "num_replicas": copies}
            found = await api(client, f"STREAM.UPDATE.{name}", wanted, timeout_s=_UPDATE_S)
        if found.error is not None:
            raise StreamMismatchError(name, [found.error.description])
        changed.append(name)
    return changed
