"""The A2A gateway as a process: one connection to the bus, one web server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec
from starlette.types import ASGIApp

from threadbus.agents import AgentRunner
from threadbus.bus import AgentNameTakenError, Bus, BusSettings, SteadyLog, connect
from threadbus.gateways.a2a.app import Application, link
from threadbus.gateways.a2a.authentication import Authentication, Finder
from threadbus.gateways.a2a.callers import Agents
from threadbus.gateways.a2a.cards import CardSettings
from threadbus.gateways.a2a.handler import DEFAULT_WAIT, Handler, HandlerSettings
from threadbus.gateways.a2a.issued import AnyOf, IssuedTokens
from threadbus.gateways.a2a.log import Stopping, TaskLog
from threadbus.gateways.a2a.push import PUSHER, pusher
from threadbus.gateways.a2a.sealing import Seal
from threadbus.gateways.a2a.signing import card_signer
from threadbus.gateways.errors import InvalidOptionError, MissingExtraError, SealError
from threadbus.gateways.names import speaker_of
from threadbus.gateways.principals import Principals
from threadbus.gateways.web.limits import DEFAULT_MAX_BODY_BYTES, HostCheck, Rate
from threadbus.gateways.web.serving import (
    DEFAULT_MAX_CONNECTIONS,
    DEFAULT_STOP_DEADLINE,
    Address,
    Served,
    parse_base,
    serving,
)
from threadbus.gateways.web.ssrf import Screen
from threadbus.schemas import AgentName

if TYPE_CHECKING:
    from threadbus.gateways.a2a.rpc import Bound

GATEWAY: Final = AgentName("a2a-gateway")
GUEST: Final = AgentName("a2a-guest")
_OWN: Final = frozenset({GATEWAY, PUSHER})
_HOLDER: Final = "a2a-gateways"
_PUSH_TIMEOUT_S: Final = 10.0
_log: Final = SteadyLog("threadbus.gateways.a2a")


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one gateway is started with."""

    address: Address
    url: str = ""
    """Where clients reach it; the address it listens on when empty."""
    grpc: Address | None = None
    """Where to listen for gRPC; it is not served without."""
    grpc_target: str = ""
    """Where clients reach that, as HOST:PORT; the address it listens on when empty."""
    tokens: Path | None = None
    """The tokens file; without one everybody who reaches the gateway is the guest."""
    issuer: str = ""
    """Whose OpenID Connect tokens are taken too."""
    jwks: Path | None = None
    """The keys of the issuer."""
    audience: str = ""
    """Whom its tokens have to be for; the public URL when empty."""
    token_url: str = ""
    """Where it gives tokens to programs, for the cards."""
    scopes: tuple[str, ...] = ()
    """What its tokens have to allow, all of it."""
    guest: AgentName = GUEST
    team: tuple[AgentName, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    old_clients: bool = True
    per_second: float = 200.0
    burst: int = 400
    push_key: Path | None = None
    """The key that secrets of push configurations are sealed with; without one there is no push."""
    push_allow: tuple[str, ...] = ()
    sign_key: Path | None = None
    """The private key that cards are signed with; unsigned without one."""
    wait: timedelta = DEFAULT_WAIT
    stop_deadline: timedelta = DEFAULT_STOP_DEADLINE


@asynccontextmanager
async def running(
    settings: BusSettings,
    options: GatewayOptions,
    *,
    layer: Callable[[ASGIApp], ASGIApp] | None = None,
    interceptors: Sequence[Any] = (),
) -> AsyncGenerator[Served]:
    """Serve the bus over A2A for as long as the context lasts; entered once it takes requests.

    Args:
        settings: where the bus is.
        options: how to serve.
        layer: put around everything over HTTP, for whoever embeds the gateway.
        interceptors: the same over gRPC, each a ``grpc.aio.ServerInterceptor``.

    Raises:
        MissingExtraError: gRPC is asked for and not installed.
        InvalidOptionError: it would let in everybody from everywhere.
        TokensFileError: the tokens cannot be used.
        ConnectError: there is no usable server.
        ListenError: the address cannot be listened on.
        SealError: the key cannot be used, or the bus has gateways with another one.

    Cancellation: stops it as leaving does.
    """
    public = parse_base(options.url, "--public-url") if options.url else ""
    principals = _principals(options)
    for option, address in (("--http", options.address), ("--grpc", options.grpc)):
        if principals is None and address is not None and not address.is_loopback:
            raise InvalidOptionError(
                option,
                str(address),
                "without --tokens only an address of this machine, 127.0.0.1 for instance",
            )
    screen = Screen(options.push_allow)
    seal = None if options.push_key is None else Seal(options.push_key)
    if seal is not None:
        seal.load()
    sign = None if options.sign_key is None else card_signer(options.sign_key)
    stopping = Stopping()
    late = _Late()
    async with (
        connect(settings, name=speaker_of(settings, GATEWAY)) as bus,
        serving(
            late,
            options.address,
            stop_deadline=options.stop_deadline,
            max_connections=options.max_connections,
            on_stop=stopping.set,
        ) as served,
        _grpc(options, principals, stopping, interceptors) as over_grpc,
    ):
        base = public or served.url
        cards = CardSettings(
            base=base,
            secured=principals is not None,
            grpc=options.grpc_target or over_grpc.target if over_grpc else "",
            oidc_issuer=options.issuer,
            token_url=options.token_url,
            scopes=options.scopes,
            push=seal is not None,
            old_clients=options.old_clients,
        )
        log = TaskLog(bus, lambda task, part: link(base, task, part), stopping)
        agents = Agents(bus, lambda name: name in _OWN)
        handler = Handler(
            bus,
            log,
            agents,
            HandlerSettings(cards=cards, team=options.team, wait=options.wait),
            None if seal is None else (seal, screen),
        )
        application = Application(
            bus, handler, agents, log, cards, started_at=time.time(), sign=sign
        )
        app: ASGIApp = HostCheck(
            application.build(
                lambda app: Authentication(app, principals, options.guest),
                max_body_bytes=options.max_body_bytes,
                per_second=options.per_second,
                burst=options.burst,
            ),
            options.hosts,
            options.origins,
        )
        late.app = app if layer is None else layer(app)
        async with _pushing(bus, log, seal, screen):
            if over_grpc is not None:
                await over_grpc.start(handler)
            late.ready.set()
            yield served


def _principals(options: GatewayOptions) -> Finder | None:
    """Return who says whose a token is; None where everybody is the guest."""
    finders: list[Finder] = []
    if options.tokens is not None:
        tokens = Principals(options.tokens)
        tokens.load()
        finders.append(tokens)
    if bool(options.issuer) != (options.jwks is not None):
        raise InvalidOptionError("--issuer", options.issuer, "it goes together with --jwks")
    if options.jwks is None and (options.token_url or options.scopes):
        option = ("--token-url", options.token_url) if options.token_url else ("--scope", "")
        raise InvalidOptionError(*option, "it goes together with --issuer and --jwks")
    if options.jwks is not None:
        audience = options.audience or options.url
        if not audience:
            raise InvalidOptionError(
                "--audience", "", "it is needed where there is no --public-url"
            )
        issued = IssuedTokens(options.jwks, options.issuer, audience, options.scopes)
        issued.load()
        finders.append(issued)
    return AnyOf(finders) if finders else None


@asynccontextmanager
async def _grpc(
    options: GatewayOptions,
    principals: Finder | None,
    stopping: Stopping,
    interceptors: Sequence[Any],
) -> AsyncGenerator[Bound | None]:
    """Hold the port for gRPC for as long as the context lasts."""
    if options.grpc is None:
        yield None
        return
    try:
        from threadbus.gateways.a2a import rpc
    except ModuleNotFoundError as error:
        raise MissingExtraError("grpc", str(error.name)) from error
    guard = rpc.Guard(principals, options.guest, Rate(options.per_second, options.burst))
    async with rpc.bound(
        options.grpc,
        (*interceptors, guard),
        max_request_bytes=options.max_body_bytes,
        max_calls=options.max_connections,
        stop_deadline=options.stop_deadline,
        on_stop=stopping.set,
    ) as served:
        yield served


@asynccontextmanager
async def _pushing(
    bus: Bus, log: TaskLog, seal: Seal | None, screen: Screen
) -> AsyncGenerator[None]:
    """Send push notifications for as long as the context lasts."""
    if seal is None:
        yield
        return
    # No proxy of the environment: the connection has to go to the IP that was screened.
    async with httpx.AsyncClient(trust_env=False, timeout=_PUSH_TIMEOUT_S) as http:
        # Several gateways are replicas of one holder: a mention goes to any of them. One with
        # another key could open nothing of what it gets.
        runner = AgentRunner(
            pusher(log, seal, screen, http),
            bus.acting_as(PUSHER),
            holder=f"{_HOLDER}-{seal.name}",
            replicas=2,
        )
        work = asyncio.create_task(runner.run(), name="threadbus.a2a.push")
        ready = asyncio.create_task(runner.ready.wait(), name="threadbus.a2a.push.ready")
        try:
            await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                try:
                    work.result()
                except AgentNameTakenError as error:
                    raise SealError(
                        seal.path, "another gateway of the bus has another one"
                    ) from error
            yield
        finally:
            # What is being sent goes back at once, for another gateway.
            ready.cancel()
            work.cancel()
            await asyncio.wait({work})
            if not work.cancelled() and (failure := work.exception()) is not None:
                _log.error("sending push notifications ended", reason=str(failure))


class _Late:
    """The application, made once the port is known that its cards name."""

    def __init__(self) -> None:
        self.app: Any = None
        self.ready = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await self.ready.wait()
        await self.app(scope, receive, send)
