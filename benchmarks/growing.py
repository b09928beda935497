"""What the programs that measure growth share: a server of a size, plain events, its memory."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client

from threadbus.bus import BusSettings, connect
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.schemas import AgentName, Event, encode_event, partition_of, partition_subject

_AT_ONCE: Final = 500
_AHEAD: Final = 5_000
_ANSWER_S: Final = 60
_POLL_S: Final = 0.05
_CONSUMERS: Final = 100_000


@dataclass
class Grown:
    """A server with the streams of a bus, and a plain connection to it."""

    server: EmbeddedServer
    client: Client

    async def api(self, subject: str, request: object = None) -> dict[str, Any]:
        """Call the JetStream API; an error ends the benchmark."""
        body = b"" if request is None else json.dumps(request).encode()
        message = await self.client.request(f"$JS.API.{subject}", body, timeout=_ANSWER_S)
        answer: dict[str, Any] = json.loads(message.data)
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")
        return answer

    async def state(self, stream: str) -> dict[str, Any]:
        """Return what a stream holds."""
        state: dict[str, Any] = (await self.api(f"STREAM.INFO.{stream}"))["state"]
        return state

    async def publish(self, events: Iterable[Event], streams: Sequence[str] = ()) -> None:
        """Publish events with the headers that a bus sends, without an acknowledgement of each.

        Args:
            events: what to publish.
            streams: of the log, which were empty: waited for now and then, and at the end, so that
                the server is never sent more than it keeps.
        """
        number = 0
        for number, event in enumerate(events, 1):
            headers = {
                "Nats-Msg-Id": event.id,
                "traceparent": f"00-{event.task}-{event.id[16:]}-01",
            }
            to = str(event.subject)
            if len(streams) > 1:
                to = partition_subject(to, partition_of(event.task, len(streams)))
            await self.client.publish(to, encode_event(event), headers=headers)
            if number % _AT_ONCE == 0:
                await self.client.flush(_ANSWER_S)
            if number % _AHEAD == 0 and streams:
                await self.until(streams, number)
        await self.client.flush(_ANSWER_S)
        if streams:
            await self.until(streams, number)

    async def until(self, streams: Sequence[str], count: int) -> None:
        """Wait until streams hold so many messages together."""
        while True:
            held = [(await self.state(stream))["messages"] for stream in streams]
            if sum(held) == count:
                return
            await asyncio.sleep(_POLL_S)

    async def reconnect(self) -> None:
        """Connect anew; the server was started again."""
        await self.client.close()
        self.client = await _connected(self.server.url)

    def resident_bytes(self) -> int:
        """Return the memory of the server that is in use. Linux only: it reads /proc."""
        pages = int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_ns(self) -> int:
        """Return the nanoseconds that the server has run on a processor."""
        return sum(
            int((thread / "schedstat").read_text().split()[0])
            for thread in Path(f"/proc/{self.server.pid}/task").iterdir()
        )


@asynccontextmanager
async def grown(partitions: int = 1, inboxes: int = 1) -> AsyncGenerator[Grown]:
    """Run a server with the streams of a bus that is so spread."""
    settings = ServerSettings(max_consumers=_CONSUMERS)
    async with EmbeddedServer(settings=settings) as server:
        spread = BusSettings(url=server.url, partitions=partitions, inboxes=inboxes)
        async with connect(spread, name="user"):
            pass
        bus = Grown(server, await _connected(server.url))
        try:
            yield bus
        finally:
            await bus.client.close()


async def _connected(url: str) -> Client:
    client = Client()
    await client.connect(url, pending_size=64 * 1024 * 1024, error_cb=_quiet)
    return client


async def _quiet(_error: Exception) -> None:
    """Say nothing: the server is killed on purpose."""


def agent(number: int) -> AgentName:
    """Return the name of one of many agents."""
    return AgentName(f"agent-{number}")
