"""`busreplay --follow` while the server is killed and comes back under load."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess

import msgspec

from tests.support.busreplay import COMMAND, environment
from threadbus.bus import AppendError, Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    AgentCard,
    MessagePosted,
    TaskId,
    TaskStatus,
    TextPart,
    new_event_id,
)

_EVENTS = 600
_WRITERS = 8


async def _write(bus: Bus, task: TaskId, ids: list[str], done: asyncio.Event) -> None:
    """Append events one after the other; each waits for the server, however long it is away."""
    for number in range(_EVENTS // _WRITERS):
        event_id = new_event_id()
        ids.append(event_id)
        data = MessagePosted(parts=(TextPart(f"number {number}"),))
        while True:
            # The same id again: it is there once, whatever became of the first try.
            with contextlib.suppress(AppendError):
                await bus.append(data, task=task, event_id=event_id)
                break
        if len(ids) > _EVENTS // 3:
            done.set()


async def test_following_sees_every_event_once_over_two_kills() -> None:
    """All that was appended before, while and after it was away; in order, nothing twice."""
    ids: list[str] = []
    under_way = asyncio.Event()
    async with EmbeddedServer() as server, connect(server.url, name="user") as bus:
        await bus.registry.register(AgentCard(name="user"), holder="tests")
        task = (await bus.tasks.open("What is it?", to=[])).event.task
        follower = await asyncio.create_subprocess_exec(
            COMMAND,
            *(task, "--follow", "--format", "jsonl", "--url", server.url),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=1 << 22,
        )
        assert follower.stdout is not None
        assert b"task.opened" in await follower.stdout.readline()
        read = asyncio.create_task(follower.communicate())
        async with asyncio.timeout(60), asyncio.TaskGroup() as writers:
            for _ in range(_WRITERS):
                writers.create_task(_write(bus, task, ids, under_way))
            await under_way.wait()
            for _ in range(2):
                await server.kill()
                await server.start()
        await bus.tasks.close(task, TaskStatus.COMPLETED, summary="done")
        async with asyncio.timeout(60):
            written, errors = await read

    assert follower.returncode == 0, errors.decode()
    lines = [msgspec.json.decode(line) for line in written.splitlines()]
    seen = [line["event"]["id"] for line in lines if line["event"]["type"] == "message.posted"]
    assert sorted(seen) == sorted(ids)
    assert len(seen) == len(set(seen)) == _EVENTS
    assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)
