"""A real Jaeger for tests, on free ports, and what it has of a trace."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support.eventually import eventually
from tests.support.require import require
from threadbus.agents.cli.jaeger import find_jaeger, running_jaeger

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Jaeger:
    """Where a running Jaeger is."""

    otlp: str
    page: str

    async def get(self, path: str) -> Json | None:
        """Return the JSON at a path of its API; None where it has nothing."""

        def load() -> Json | None:
            try:
                with urlopen(f"{self.page}{path}", timeout=20) as answer:  # noqa: S310
                    found: Json = json.load(answer)
                    return found
            except HTTPError as error:
                if error.code == 404:
                    return None
                raise

        return await asyncio.to_thread(load)

    async def spans(self, trace: str) -> list[Json]:
        """Return the spans of a trace as OTLP has them, each with the service it belongs to."""
        found = await self.get(f"/api/v3/traces/{trace}")
        return [
            {**span, "service": _service(resource)}
            for resource in (found or {"result": {"resourceSpans": []}})["result"]["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope.get("spans", [])
        ]

    async def rows(self, trace: str) -> list[Json]:
        """Return the spans of a trace as Jaeger's page gets them."""
        found = await self.get(f"/api/traces/{trace}")
        if found is None:
            return []
        (one,) = found["data"]
        return [
            {**span, "service": one["processes"][span["processID"]]["serviceName"]}
            for span in one["spans"]
        ]

    async def has(self, trace: str, count: int) -> None:
        """Wait until a trace has so many spans."""

        async def enough() -> bool:
            return len(await self.spans(trace)) >= count

        await eventually(enough, f"{count} spans of {trace}", 60)


def _service(resource: Json) -> str:
    pairs = resource["resource"]["attributes"]
    (name,) = (pair["value"]["stringValue"] for pair in pairs if pair["key"] == "service.name")
    return str(name)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@asynccontextmanager
async def private_jaeger() -> AsyncGenerator[Jaeger]:
    """Run a Jaeger for a test; a missing one skips it, or fails it where all is required."""
    require("a Jaeger (sh ops/jaeger.sh builds one)", find_jaeger())
    otlp, page = free_ports(2)
    async with running_jaeger(otlp_port=otlp, ui_port=page):
        yield Jaeger(f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{page}")
