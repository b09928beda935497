"""How many servers keep a copy of each stream: changed while everything goes on."""

from __future__ import annotations

from nats.errors import Error as NatsError

from threadbus.bus._nats.copies import change_copies
from threadbus.bus._nats.plain import open_client
from threadbus.bus.errors import ReadError
from threadbus.bus.settings import BusSettings


async def set_copies(settings: BusSettings, copies: int) -> list[str]:
    """Have every stream that is there kept by *copies* servers of the cluster.

    Args:
        settings: where, and the operator's key.
        copies: 1 to 5, and not more than there are servers.

    Returns:
        The streams that were changed.

    Raises:
        ConnectError: no server can be reached, or it does not let this key in.
        StreamMismatchError: the server refuses; streams before that one are changed.
        ReadError: the server did not answer.

    Cancellation: some may be changed; call it again.
    """
    async with open_client(settings, "operator") as client:
        try:
            return await change_copies(client, copies)
        except (NatsError, TimeoutError) as error:
            raise ReadError("the streams", str(error) or "no answer in time") from error
