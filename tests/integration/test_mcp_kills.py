"""A gateway process is killed in the middle of waits and sends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.cli import Cli
from tests.support.eventually import eventually
from tests.support.mcp_processes import host, serving, token
from threadbus.bus import connect
from threadbus.gateways.mcp.commands import Serving
from threadbus.schemas import Recorded


async def test_kills_in_waits_and_sends_lose_and_double_nothing(cli: Cli, tmp_path: Path) -> None:
    """A gateway is killed again and again; every message stands once, and each arrives."""
    count, kills = 18, 2
    ada, bob = [await token(cli, tmp_path, name) for name in ("ada-kill", "bob-kill")]
    seen: list[str] = []
    gateways: list[Serving] = []
    changed = asyncio.Condition()
    done = asyncio.Event()

    async def keep_up() -> None:
        while not done.is_set():
            async with serving(cli, tmp_path) as running:
                async with changed:
                    gateways.append(running)
                    changed.notify_all()

                def is_gone(pid: int = running.pid) -> bool:
                    return done.is_set() or not _lives(pid)

                await eventually(is_gone, "the gateway ends", 60)

    async def call(secret: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call until a gateway has answered, as a host does that starts anew."""
        while True:
            known = len(gateways)
            try:
                async with asyncio.timeout(20), host(gateways[-1].url, secret) as one:
                    return await one.call(tool, **arguments)
            except (Exception, BaseExceptionGroup):
                async with changed:
                    if len(gateways) == known and not _lives(gateways[-1].pid):
                        await changed.wait()

    async def send(where: str) -> None:
        for number in range(count):
            await call(
                ada,
                "send_message",
                thread_id=where,
                content=str(number),
                mentions=["bob-kill"],
                idempotency_key=f"n{number}",
            )

    async def receive() -> None:
        cursor = ""
        while len(set(seen)) < count:
            got = await call(bob, "wait_for_mentions", timeout_s=5, cursor=cursor)
            seen.extend(message["text"] for message in got["messages"])
            cursor = got["cursor"]

    async def kill() -> None:
        for part in range(1, kills + 1):
            await eventually(
                lambda part=part: len(set(seen)) >= part * count // (kills + 2),  # type: ignore[misc]
                "some have arrived",
                60,
            )
            os.kill(gateways[-1].pid, signal.SIGKILL)

    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        tasks.create_task(keep_up())
        async with changed:
            await changed.wait_for(lambda: gateways)
        await call(bob, "list_agents")
        opened = await call(ada, "create_thread", name="T", participants=["bob-kill"])
        where = opened["thread_id"]
        work = [tasks.create_task(one) for one in (send(where), receive(), kill())]
        await asyncio.wait(work)
        done.set()

    assert len(gateways) > kills
    assert sorted(set(seen), key=int) == [str(number) for number in range(count)]
    async with connect(cli.url, name="looks") as bus:
        texts: list[str] = [
            entry.event.data.parts[0].text  # type: ignore[union-attr]
            async for entry in bus.read(opened["thread"]["task_id"])
            if isinstance(entry, Recorded) and entry.event.type == "message.posted"
        ]
    assert texts == [str(number) for number in range(count)]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed child stays until it is waited for.
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
