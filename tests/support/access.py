"""A server with access control, its identities, and a client that tries what it must not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests.support.bus_env import DEADLINE_S, opened
from threadbus.bus import Bus, BusSettings, access, connect, server
from threadbus.schemas import AgentCard, TaskId

MAIN = "main"


@dataclass
class Secured:
    """A running server that admits only who has a key."""

    folder: access.AccessFolder
    server: server.EmbeddedServer

    def settings(self, name: str, tenant: str = MAIN) -> BusSettings:
        """Return the settings of who has the key of *name*."""
        return BusSettings(url=self.server.url, nkey=str(self.folder.key_path(name, tenant)))

    @asynccontextmanager
    async def bus(self, name: str, *, key: str = "", tenant: str = MAIN) -> AsyncGenerator[Bus]:
        """Connect as *name*, with its own key or that of another identity."""
        async with connect(self.settings(key or name, tenant), name=name) as bus:
            yield bus

    async def add(self, *names: str, role: access.Role = access.Role.AGENT, **more: Any) -> None:
        """Add identities to the running server."""
        for name in names:
            await self.folder.add(name, role, **more)
        await self.server.reload()

    async def task(self, to: str, *participants: str) -> TaskId:
        """Open a super-task as the operator, with everybody registered."""
        async with self.bus("user", key="operator") as user:
            for name in ("user", to, *participants):
                await user.registry.register(AgentCard(name=name), holder="test", takeover=True)
            return await opened(user, to, participants=participants)


@asynccontextmanager
async def secured(
    path: Path,
    *agents: str,
    settings: server.ServerSettings | None = None,
    apart: bool = False,
    jwt: bool = False,
) -> AsyncGenerator[Secured]:
    """Run a server with a tenant, its operator and some agents; its streams are there."""
    folder = access.AccessFolder(path / "auth")
    await folder.init(apart=apart, jwt=jwt)
    for name in agents:
        await folder.add(name, access.Role.AGENT)
    limits = settings or server.ServerSettings()
    limits = server.ServerSettings(
        access=folder.config,
        max_payload_bytes=limits.max_payload_bytes,
        max_subscriptions=limits.max_subscriptions,
        tls_cert=limits.tls_cert,
        tls_key=limits.tls_key,
        tls_ca=limits.tls_ca,
    )
    async with server.EmbeddedServer(path / "data", settings=limits) as running:
        made = Secured(folder, running)
        if limits.tls_cert is None:
            async with made.bus("operator"):
                pass
        yield made


class Attacker:
    """A plain NATS client with somebody's key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client = Client()
        self._errors: asyncio.Queue[str] = asyncio.Queue()

    async def on_error(self, error: Exception) -> None:
        """Keep what the server says."""
        self._errors.put_nowait(str(error))

    async def refused(self, subject: str, body: bytes = b"", **headers: str) -> str:
        """Publish what the server must refuse; return what it says."""
        await self.client.publish(subject, body, headers=headers or None)
        return await self._said("publish", subject)

    async def refused_subscription(self, subject: str) -> str:
        """Subscribe where the server must refuse it; return what it says."""
        await self.client.subscribe(subject)  # pyright: ignore[reportUnknownMemberType]
        return await self._said("subscri", subject)

    async def said(self) -> str:
        """Wait for the next thing that the server has to say."""
        async with asyncio.timeout(2 * DEADLINE_S):
            return await self._errors.get()

    async def _said(self, verb: str, subject: str) -> str:
        async with asyncio.timeout(DEADLINE_S):
            said = await self._errors.get()
        assert "permissions violation" in said.lower(), said
        assert verb in said.lower(), said
        assert f'"{subject}"'.lower() in said.lower(), said
        print(f"{self.name} {verb} {subject}: {said}")
        return said

    async def ask(self, subject: str, body: bytes = b"", **headers: str) -> bytes:
        """Send a request that is allowed, and return the answer."""
        answer = await self.client.request(
            subject, body, timeout=DEADLINE_S, headers=headers or None
        )
        return answer.data

    async def relay(self, subject: str, body: bytes, to: str) -> None:
        """Send a request that is allowed, and have it answered on a subject that is not."""
        await self.client.publish(subject, body, reply=to)
        await self.client.flush(int(DEADLINE_S))


@asynccontextmanager
async def attackers(made: Secured, *names: str) -> AsyncGenerator[Sequence[Attacker]]:
    """Connect plain clients with the keys of agents."""
    async with AsyncExitStack() as stack:
        found: list[Attacker] = []
        for name in names:
            attacker = Attacker(name)
            key = made.folder.key_path(name)
            kind = "user_credentials" if key.suffix == ".creds" else "nkeys_seed"
            proof: dict[str, Any] = {kind: str(key)}
            await attacker.client.connect(
                made.server.url,
                **proof,
                inbox_prefix=f"_INBOX_{name}".encode(),
                error_cb=attacker.on_error,
                allow_reconnect=False,
            )
            stack.push_async_callback(attacker.client.close)
            found.append(attacker)
        yield found
