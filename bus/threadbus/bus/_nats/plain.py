"""A connection for a command of the operator: without ports, streams or the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from nats.errors import Error as NatsError
from nats.errors import NoServersError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.credentials import connect_options, is_refusal
from threadbus.bus.errors import NoServerError, NotAdmittedError
from threadbus.bus.settings import BusSettings, shown_url

_CLOSE_S: Final = 2
_PAUSE_S: Final = 0.2


@asynccontextmanager
async def open_client(settings: BusSettings, name: str) -> AsyncGenerator[DirectClient]:
    """Connect; close when the context ends.

    Raises:
        NoServerError: no server can be reached.
        NotAdmittedError: the server does not let this key in.
    """
    client = DirectClient()
    refusal: list[str] = []

    async def on_error(error: Exception) -> None:
        text = str(error)
        if is_refusal(text):
            refusal[:] = [text]
        elif "permissions violation" in text.lower():
            client.on_denied(text.lower())

    url = shown_url(settings.url)
    # The wait is typed as whole seconds and works with fractions.
    options: dict[str, Any] = {"reconnect_time_wait": _PAUSE_S, **connect_options(settings)}
    try:
        await in_time(
            client.connect(
                [server.strip() for server in settings.url.split(",")],
                name=f"threadbus:{name}",
                inbox_prefix=f"_INBOX_{name}".encode(),
                error_cb=on_error,
                **options,
            ),
            settings.connect_timeout.total_seconds(),
        )
    except (TimeoutError, NoServersError, NatsError, OSError, ValueError) as error:
        await _close(client)
        if refusal:
            raise NotAdmittedError(url, settings.nkey, refusal[0]) from None
        raise NoServerError(url, str(error) or "no answer in time") from error
    try:
        client.start_answers()
        yield client
    finally:
        await _close(client)


async def in_time(work: Coroutine[Any, Any, None], seconds: float) -> None:
    """Await *work*; what takes longer is ended, as often as that takes.

    nats-py takes a cancellation that comes while it gives an attempt up for the end of that
    attempt, and goes on with the next for ever.

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.create_task(work, name="threadbus.bus.connect")
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError
        task.result()
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_PAUSE_S)
        if not task.cancelled():
            # Otherwise the loop reports an error that nobody looked at.
            task.exception()


async def _close(client: DirectClient) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_S):
            await client.close()
