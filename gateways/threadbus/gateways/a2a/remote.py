"""A remote A2A agent: its card, and its operations as the card says."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, TaskNotFoundError

from threadbus.gateways.a2a.reach import Reach
from threadbus.gateways.a2a.transport import MendingTransport
from threadbus.gateways.errors import AddressRefusedError, MissingExtraError, RemoteError
from threadbus.gateways.web.ssrf import Target

CONNECT_S: Final = 10.0
SILENCE_S: Final = 120.0
"""A stream that says nothing for so long, not even a comment, is taken for dead."""

UNREADABLE: Final = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What the library makes of an answer that is not what it should be."""

_WEB: Final = ("JSONRPC", "HTTP+JSON")
_GRPC: Final = "GRPC"
_SCHEMES: Final = {"http": False, "grpc": False, "https": True, "grpcs": True}
_MAX_INTERFACES: Final = 32


class RemoteAgent:
    """A remote agent: its card, and its operations."""

    def __init__(
        self, url: str, token: str = "", key: str = "", allowed: Sequence[str] = ()
    ) -> None:
        """Prepare; nothing is asked before :meth:`card`.

        Args:
            url: where the agent is; its card is below it.
            token: a bearer token that it takes.
            key: an API key that it takes, sent as ``X-API-Key``.
            allowed: hosts and networks, not public ones, that its card may lead to all the same.

        Raises:
            AddressRefusedError: *url* is none.
            InvalidOptionError: what is allowed is neither a host nor a network.
        """
        self.url = url.rstrip("/")
        self._reach = Reach(url, allowed)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if key:
            self._headers["X-API-Key"] = key
        self._http = httpx.AsyncClient(
            transport=MendingTransport(httpx.AsyncHTTPTransport(retries=1), self._reach),
            timeout=httpx.Timeout(CONNECT_S, read=SILENCE_S),
            headers=self._headers,
        )
        self._client: Client | None = None
        self._asking: Client | None = None
        self._channels: dict[str, Any] = {}
        self._targets: dict[str, Target | None] = {}
        self._card = pb.AgentCard()
        self.is_grpc = False
        """Whether it is spoken to over gRPC."""

    async def aclose(self) -> None:
        """Close its connections."""
        await self._close_channels()
        await self._http.aclose()

    async def _close_channels(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def card(self) -> pb.AgentCard:
        """Fetch the card; from then on the remote agent is spoken to as it says.

        Raises:
            RemoteError: it is not to be reached, or what it says is no card.
            MissingExtraError: it speaks only gRPC, and that is not installed.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                card = await A2ACardResolver(self._http, self.url).get_agent_card()
            if self._client is None or card != self._card:
                await self._meet(card)
        except (AddressRefusedError, A2AError, httpx.HTTPError, TimeoutError, *UNREADABLE) as error:
            raise RemoteError(self.url, told(error)) from error
        return self._card

    async def _meet(self, card: pb.AgentCard) -> None:
        """Make the ways to speak to it, of those that its card may lead to."""
        usable = pb.AgentCard()
        usable.CopyFrom(card)
        del usable.supported_interfaces[:]
        refused: AddressRefusedError | None = None
        self._targets.clear()
        for interface in card.supported_interfaces[:_MAX_INTERFACES]:
            try:
                await self._see(interface)
            except AddressRefusedError as error:
                refused = error
            else:
                usable.supported_interfaces.append(interface)
        if refused is not None and not usable.supported_interfaces:
            raise refused
        offered = {interface.protocol_binding for interface in usable.supported_interfaces}
        is_grpc = _GRPC in offered and not offered.intersection(_WEB)
        config = ClientConfig(
            httpx_client=self._http,
            supported_protocol_bindings=[_GRPC] if is_grpc else list(_WEB),
            grpc_channel_factory=self._channel,
            # Where it does not stream, the answer to a message comes at once and is asked for.
            polling=True,
        )
        await self._close_channels()
        client = ClientFactory(config).create(usable)
        asking = ClientFactory(dataclasses.replace(config, streaming=False)).create(usable)
        self._client, self._asking, self._card, self.is_grpc = client, asking, card, is_grpc

    async def _see(self, interface: pb.AgentInterface) -> None:
        """Check where a way leads.

        Raises:
            AddressRefusedError: to where nothing may be sent.
        """
        url = interface.url
        if interface.protocol_binding == _GRPC:
            is_secure, target = grpc_target(url, is_secure=self.url.startswith("https://"))
            url = f"{'https' if is_secure else 'http'}://{target}"
        self._targets[interface.url] = await self._reach.check(url)

    def _channel(self, address: str) -> Any:
        try:
            from threadbus.gateways.a2a.channels import open_channel
        except ModuleNotFoundError as error:
            raise MissingExtraError("grpc", str(error.name)) from error
        if address not in self._channels:
            is_secure, target = grpc_target(address, is_secure=self.url.startswith("https://"))
            self._channels[address] = open_channel(
                target, self._headers, is_secure=is_secure, pinned=self._targets.get(address)
            )
        return self._channels[address]

    @property
    def client(self) -> Client:
        """The operations, once the card is known."""
        return self._known(self._client)

    @property
    def asking(self) -> Client:
        """The operations without streams."""
        return self._known(self._asking)

    def _known(self, client: Client | None) -> Client:
        if client is None:
            raise RemoteError(self.url, "its card was not read")
        return client

    @property
    def streams(self) -> bool:
        """Whether its card offers streams."""
        return self._card.capabilities.streaming

    @property
    def pushes(self) -> bool:
        """Whether its card offers push notifications."""
        return self._card.capabilities.push_notifications


def grpc_target(address: str, *, is_secure: bool) -> tuple[bool, str]:
    """Return whether an address of gRPC is TLS, and its ``HOST:PORT``.

    Args:
        address: what a card says, as ``HOST:PORT`` or with a scheme.
        is_secure: what it is where it has no scheme, or none that is known.
    """
    scheme, found, rest = address.partition("://")
    target = (rest if found else address).rstrip("/")
    return (_SCHEMES.get(scheme.lower(), is_secure) if found else is_secure), target


def told(error: BaseException) -> str:
    """Return what an error says, with its kind."""
    kind = "TaskNotFound" if isinstance(error, TaskNotFoundError) else type(error).__name__
    return f"{kind}: {error}"
