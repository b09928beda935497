"""``bus gateway a2a``: serve the agents of the bus over A2A."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from threadbus.agents.cli import Shell, UsageError, command
from threadbus.bus import SteadyLog
from threadbus.gateways.cli import group
from threadbus.schemas import parse_agent_name

_CARD: Final = "/.well-known/agent-card.json"
_MAX_WAIT_S: Final = 24 * 3600
_MAX_SECRET_BYTES: Final = 16 * 1024
_log: Final = SteadyLog("threadbus.gateways.a2a")


class Serving(msgspec.Struct, frozen=True):
    """What `bus gateway a2a --json` prints once it takes requests."""

    url: str
    card: str
    pid: int


@command("a2a", group=group, log_level="info")
async def a2a(
    shell: Shell,
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8642",
    url: Annotated[
        str, typer.Option("--public-url", help="Where clients reach it, for the cards.")
    ] = "",
    grpc: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Where to listen for gRPC too; it needs threadbus[grpc]."
        ),
    ] = "",
    grpc_target: Annotated[
        str,
        typer.Option(
            "--public-grpc",
            metavar="HOST:PORT",
            help="Where clients reach that, for the cards.",
        ),
    ] = "",
    tokens: Annotated[
        Path | None,
        typer.Option(help="The tokens file; without it only this machine, and all are one guest."),
    ] = None,
    issuer: Annotated[
        str, typer.Option(help="An OpenID Connect issuer whose tokens are taken too; with --jwks.")
    ] = "",
    jwks: Annotated[
        Path | None, typer.Option(help="The issuer's public keys, a JSON Web Key Set.")
    ] = None,
    audience: Annotated[
        str, typer.Option(help="Whom its tokens have to be for; --public-url if absent.")
    ] = "",
    token_url: Annotated[
        str,
        typer.Option(help="Where it gives tokens to programs (OAuth 2), for the cards."),
    ] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What its tokens have to allow; repeat for several, of which all count."),
    ] = None,
    guest: Annotated[
        str, typer.Option(help="The name of callers without tokens on the bus.")
    ] = "a2a-guest",
    team: Annotated[
        list[str] | None,
        typer.Option(help="Who takes messages to the whole bus: first who plans; repeat."),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", help="A Host header to serve beside the loopback; repeat."),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="A web page's origin that may call; repeat."),
    ] = None,
    push_key: Annotated[
        Path | None,
        typer.Option(
            help="32 secret bytes, the same for all gateways of a bus; yours, made, if absent."
        ),
    ] = None,
    push_allow: Annotated[
        list[str] | None,
        typer.Option(help="A host, or a private network, to push to all the same; repeat."),
    ] = None,
    sign_key: Annotated[
        Path | None, typer.Option(help="Sign the cards: a private key in PEM (P-256 or RSA).")
    ] = None,
    only_1_0: Annotated[
        bool, typer.Option("--only-1.0", help="Do not offer version 0.3 on the cards.")
    ] = False,
    max_body: Annotated[int, typer.Option(help="Bytes of the largest request.")] = 8 * 1024 * 1024,
    rate: Annotated[float, typer.Option(help="Requests a second of one caller.")] = 200.0,
    wait: Annotated[
        float, typer.Option(help="Seconds that a request without a stream waits for its task.")
    ] = 600.0,
) -> None:
    """Serve every agent of the bus, and the bus as a whole, to A2A clients until Ctrl-C."""
    from threadbus.agents import stopping_on_signals
    from threadbus.gateways.a2a.gateway import GatewayOptions, running
    from threadbus.gateways.web.serving import parse_address, serve_until

    if not 1 <= max_body <= 1024**3:
        raise UsageError("--max-body", str(max_body), "1 byte to 1 GiB")
    if not 0.1 <= rate <= 1e6:
        raise UsageError("--rate", str(rate), "0.1 to 1,000,000 a second")
    if not 0 < wait <= _MAX_WAIT_S:
        raise UsageError("--wait", str(wait), f"more than 0, at most {_MAX_WAIT_S}")
    options = GatewayOptions(
        address=parse_address(http),
        url=url,
        grpc=parse_address(grpc, "--grpc") if grpc else None,
        grpc_target=str(parse_address(grpc_target, "--public-grpc")) if grpc_target else "",
        tokens=tokens,
        issuer=issuer,
        jwks=jwks,
        audience=audience,
        token_url=token_url,
        scopes=tuple(scope or []),
        guest=parse_agent_name(guest),
        team=tuple(parse_agent_name(name) for name in team or []),
        hosts=tuple(host_name or []),
        origins=tuple(origin or []),
        old_clients=not only_1_0,
        push_key=push_key or _usual_key(),
        push_allow=tuple(push_allow or []),
        sign_key=sign_key,
        max_body_bytes=max_body,
        per_second=rate,
        burst=max(1, round(2 * rate)),
        wait=timedelta(seconds=wait),
    )
    stop = asyncio.Event()
    async with stopping_on_signals(stop.set), running(shell.settings(), options) as served:
        card = f"{url.rstrip('/') or served.url}{_CARD}"
        if shell.json:
            shell.result(Serving(url=served.url, card=card, pid=os.getpid()))
        _log.info("serving A2A", url=served.url, card=card)
        await serve_until(stop, served)
    _log.info("stopped in order")


class Joined(msgspec.Struct, frozen=True):
    """What `bus gateway a2a-client --json` prints each time the agent takes mentions."""

    agent: str
    url: str
    pid: int


@command("a2a-client", group=group, log_level="info")
async def a2a_client(
    shell: Shell,
    remote: Annotated[
        str, typer.Argument(metavar="URL", help="Where the remote agent is, or its card.")
    ],
    agent_name: Annotated[
        str, typer.Option("--name", help="Its name on the bus; --as if absent.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="A file with a bearer token that it takes.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="A file with an API key, sent as X-API-Key.")
    ] = None,
    push_http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to take push notifications of it; without this it streams or is polled.",
        ),
    ] = "",
    push_url: Annotated[
        str, typer.Option(help="Where it reaches that, http://… or https://….")
    ] = "",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="A host, or a private network, that its card may lead to beside its own; repeat."
        ),
    ] = None,
    look_every: Annotated[
        float, typer.Option(help="Seconds between two looks whether it is there.")
    ] = 10.0,
) -> None:
    """Let a remote A2A agent take part, under a name of its own, until Ctrl-C.

    Mentions become messages to it, its updates progress and artifacts, its questions questions in
    the thread. While it is not to be reached it is not living, and its mentions wait.
    """
    from threadbus.agents import stopping_on_signals
    from threadbus.gateways.a2a.joining import join
    from threadbus.gateways.a2a.receiving import receiving
    from threadbus.gateways.a2a.remote import RemoteAgent
    from threadbus.gateways.web.serving import parse_address, parse_base

    settings = shell.settings()
    if not agent_name and shell.source_of("name") == "default":
        raise UsageError("--as", "", "the remote agent needs a name on the bus")
    name = parse_agent_name(agent_name or settings.name)
    # Some give the card itself, as the gateway prints it.
    remote = parse_base(remote, "URL").removesuffix(_CARD)
    if not 0.1 <= look_every <= 3600:
        raise UsageError("--look-every", str(look_every), "0.1 to 3600 seconds")
    if push_url and not push_http:
        raise UsageError("--push-url", push_url, "it goes together with --push-http")
    agent = RemoteAgent(
        remote,
        _secret("--token-file", token_file),
        _secret("--key-file", key_file),
        tuple(allow or []),
    )
    stop = asyncio.Event()

    def on_ready() -> None:
        if shell.json:
            shell.result(Joined(agent=name, url=remote, pid=os.getpid()))
        _log.info("takes part", agent=name, remote=remote)

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stopping_on_signals(stop.set))
        bells = None
        if push_http:
            address = parse_address(push_http, "--push-http")
            bells = await stack.enter_async_context(receiving(address, push_url))
        await join(
            settings, agent, name, stop, on_ready=on_ready, look_every_s=look_every, bells=bells
        )
    _log.info("stopped in order", agent=name)


def _secret(option: str, path: Path | None) -> str:
    """Return the one line of a file."""
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_SECRET_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise UsageError(option, str(path), f"it cannot be read: {error}") from error
    if not 1 <= len(text) <= _MAX_SECRET_BYTES or not text.isprintable():
        wanted = f"it is one line of 1 to {_MAX_SECRET_BYTES:,} printable ASCII characters"
        raise UsageError(option, str(path), wanted)
    return text


def _usual_key() -> Path:
    """Return where this user's key is."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "threadbus" / "a2a-push.key"
