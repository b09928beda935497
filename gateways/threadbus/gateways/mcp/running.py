"""One gateway process, over HTTP or stdio, from its settings to its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from mcp.server.stdio import stdio_server

from threadbus.agents import stopping_on_signals
from threadbus.bus import BusSettings, SteadyLog, connect
from threadbus.gateways.errors import InvalidOptionError
from threadbus.gateways.mcp.gateway import GatewayOptions, open_gateway
from threadbus.gateways.mcp.http import PATH, HttpOptions, make_app
from threadbus.gateways.names import speaker_of
from threadbus.gateways.principals import Principals
from threadbus.gateways.web.serving import parse_address, serve_until, serving
from threadbus.schemas import AgentName

_SPEAKER: Final = "mcp-gateway"
"""Who it is where it is not one agent only, whose own key is then enough."""
_MIN_KEY_CHARS: Final = 32
_LAST_WORDS_S: Final = 5.0
_log: Final = SteadyLog("threadbus.gateways.mcp")


def options(
    agent: AgentName | None, description: str, *, coral: bool, state_keys: Path | None = None
) -> GatewayOptions:
    """Return how a gateway is.

    Raises:
        InvalidOptionError: the file with the keys cannot be used.
    """
    return GatewayOptions(
        agent=agent,
        description=description,
        coral=coral,
        state_keys=() if state_keys is None else _keys(state_keys),
    )


def http_options(
    http: str,
    agent: AgentName | None,
    tokens: Path | None,
    *,
    hosts: Collection[str],
    origins: Collection[str],
    issuer: str,
    public_url: str,
) -> HttpOptions:
    """Return how the gateway is over HTTP.

    Raises:
        InvalidOptionError: who a host is would be left open.
        TokensFileError: the tokens file cannot be used.
    """
    if (tokens is None) == (agent is None):
        raise InvalidOptionError(
            "--tokens and --agent", "", "with --http give one of the two: it says who a host is"
        )
    if bool(issuer) != bool(public_url):
        raise InvalidOptionError("--issuer and --public-url", "", "they go together")
    principals = None
    if tokens is not None:
        principals = Principals(tokens)
        principals.load()
    elif not parse_address(http).is_loopback:
        raise InvalidOptionError(
            "--agent", agent or "", "anybody could be it at this address: use --tokens"
        )
    return HttpOptions(
        principals=principals,
        hosts=hosts,
        origins=origins,
        issuer=issuer,
        public_url=public_url,
    )


async def over_http(
    settings: BusSettings,
    how: GatewayOptions,
    web: HttpOptions,
    http: str,
    on_ready: Callable[[str, int], None],
) -> None:
    """Serve hosts over HTTP until SIGTERM or SIGINT.

    Args:
        settings: where the bus is.
        how: how the gateway is.
        web: how it is over HTTP.
        http: where to listen.
        on_ready: called with the URL and the process id once hosts are let in.

    Raises:
        ConnectError: there is no usable server behind the bus.
        ListenError: the address cannot be listened on.
    """
    address = parse_address(http)
    stop = asyncio.Event()
    async with (
        stopping_on_signals(stop.set),
        connect(settings, name=speaker_of(settings, how.agent or _SPEAKER)) as bus,
        open_gateway(bus, how) as gateway,
        serving(make_app(gateway, web), address, on_stop=gateway.stop) as served,
    ):
        on_ready(f"{served.url}{PATH}", os.getpid())
        await serve_until(stop, served)
    _log.info("stopped in order")


async def over_stdio(settings: BusSettings, how: GatewayOptions) -> None:
    """Serve the host that started this process until it closes the pipe, SIGTERM or SIGINT.

    Raises:
        ConnectError: there is no usable server behind the bus.
        AgentNameTakenError: somebody else holds the agent's name.
    """
    stop = asyncio.Event()
    async with (
        stopping_on_signals(stop.set),
        connect(settings, name=speaker_of(settings, how.agent or _SPEAKER)) as bus,
        open_gateway(bus, how) as gateway,
    ):
        if how.agent is not None:
            desk = await gateway.desks.at(how.agent)
            with desk.busy(counted=False):
                await _serve_pipe(gateway.server, stop)


async def _serve_pipe(server: Any, stop: asyncio.Event) -> None:
    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    work = asyncio.create_task(serve(), name="threadbus.mcp.stdio")
    stopped = asyncio.create_task(stop.wait(), name="threadbus.mcp.stop")
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        stopped.cancel()
        if not work.done():
            # The thread that reads standard input cannot be stopped: the process ends without it.
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, os._exit, 0)
            work.cancel()


def _keys(path: Path) -> tuple[bytes, ...]:
    try:
        lines = path.read_bytes()[: 1 << 20].split(b"\n")
    except OSError as error:
        raise InvalidOptionError(
            "--state-keys", str(path), f"it cannot be read ({error.strerror})"
        ) from error
    keys = tuple(line.strip() for line in lines if line.strip())
    if not keys or any(len(key) < _MIN_KEY_CHARS for key in keys):
        raise InvalidOptionError(
            "--state-keys",
            str(path),
            f"one key a line, each of {_MIN_KEY_CHARS} characters or more",
        )
    return keys
