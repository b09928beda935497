"""The system account of NATS: what each server of a cluster says of itself, and how it is told
to read its configuration again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.plain import open_client
from threadbus.bus.settings import BusSettings


class SystemServer(msgspec.Struct, frozen=True):
    """Who answers."""

    name: str = ""
    id: str = ""


class SystemMeta(msgspec.Struct, frozen=True):
    """The group that decides which server keeps which stream."""

    leader: str = ""
    cluster_size: int = 0


class SystemJetStream(msgspec.Struct, frozen=True):
    """The part of a server's answer about its streams."""

    meta: SystemMeta | None = None


class SystemFacts(msgspec.Struct, frozen=True):
    """What a server says of itself."""

    version: str = ""
    connections: int = 0
    routes: int = 0
    config_digest: str = ""
    slow_consumers: int = 0
    uptime: str = ""
    jetstream: SystemJetStream = SystemJetStream()


class SystemFailure(msgspec.Struct, frozen=True):
    """Why a server did not do it."""

    description: str = ""


class SystemAnswer(msgspec.Struct, frozen=True):
    """One answer of one server."""

    server: SystemServer = SystemServer()
    data: SystemFacts = SystemFacts()
    error: SystemFailure | None = None


_DECODER: Final = msgspec.json.Decoder(SystemAnswer)


class SystemClient:
    """A connection with the key of the system account; made by :func:`open_system`."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client

    async def servers(self, expected: int, timeout_s: float) -> list[SystemAnswer]:
        """Ask every server of the cluster what it is.

        Args:
            expected: how many there should be; it is not waited for more.
            timeout_s: seconds to wait for the last of them.

        Raises:
            NatsError: it could not be asked.
        """
        found: dict[str, SystemAnswer] = {}
        everybody = asyncio.Event()
        failed: list[Exception] = []

        def on_answer(_subject: bytes, _reply: bytes, body: bytes, _raw: bytes) -> None:
            with contextlib.suppress(msgspec.DecodeError):
                answer = _DECODER.decode(body)
                found[answer.server.id] = answer
            if len(found) >= expected:
                everybody.set()

        def on_failure(error: Exception) -> None:
            failed.append(error)
            everybody.set()

        reply = self._client.expect("$SYS.REQ.SERVER.PING.VARZ", on_answer, on_failure)
        try:
            self._client.post("$SYS.REQ.SERVER.PING.VARZ", b"", reply=reply)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await everybody.wait()
        finally:
            self._client.forget(reply)
        if failed and not found:
            raise failed[0]
        return sorted(found.values(), key=lambda answer: answer.server.name)

    async def reload(self, server_id: str, timeout_s: float) -> str:
        """Have one server read its configuration again.

        Returns:
            Why it did not; empty when it did.
        """
        subject = f"$SYS.REQ.SERVER.{server_id}.RELOAD"
        try:
            reply = await self._client.ask(subject, b"", timeout_s=timeout_s)
            answer = _DECODER.decode(reply.body)
        except (NatsError, TimeoutError, msgspec.DecodeError) as error:
            return str(error) or "no answer in time"
        return "" if answer.error is None else answer.error.description or "it refused"


@asynccontextmanager
async def open_system(settings: BusSettings) -> AsyncGenerator[SystemClient]:
    """Connect with the key of the system account.

    Raises:
        NoServerError: no server can be reached.
        NotAdmittedError: the key is not known.
    """
    async with open_client(settings, "system") as client:
        yield SystemClient(client)
