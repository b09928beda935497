"""In order within a thread, once each: with one process and with three of which one is killed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.support.agent_process import AgentProcess, agent_process
from tests.support.eventually import eventually
from tests.support.running_agents import find, log_of, quiet_task, text
from threadbus.bus import Bus, connect
from threadbus.schemas import (
    MAIN_THREAD,
    Event,
    HandlingEnded,
    MessagePosted,
    TaskId,
)

AGENT = f"{Path(__file__).parent.parent / 'support' / 'replica_agent.py'}:agent"
COUNT = 30


@asynccontextmanager
async def group(url: str, folder: Path, size: int) -> AsyncGenerator[list[AgentProcess]]:
    """Run *size* replicas of one holder."""
    environ = {
        "BUS_URL": url,
        "REPLICA_FOLDER": str(folder),
        "BUS_ACK_WAIT": "2",
        "THREADBUS_HOLDER": f"group-{folder.name}",
        "THREADBUS_REPLICAS": str(size),
    }
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(agent_process(AGENT, environ)) for _ in range(size)]


@pytest.mark.parametrize("size", [1, 3])
async def test_a_thread_is_handled_in_order_and_once(
    bus_url: str, tmp_path: Path, size: int
) -> None:
    """Each of 30 messages is answered once and in the order in which they were posted."""
    async with connect(bus_url) as bus, group(bus_url, tmp_path, size):
        task = await quiet_task(bus, "many")
        sent = [await post(bus, task, f"m{number}") for number in range(COUNT)]
        await find(bus, task, HandlingEnded, count=COUNT)
        log = await log_of(bus, task)

    check_order(sent, log)


async def test_a_killed_replica_costs_neither_order_nor_messages(
    bus_url: str, tmp_path: Path
) -> None:
    """The replica that works on the thread is killed: the others go on where it was."""
    async with connect(bus_url) as bus, group(bus_url, tmp_path, 3) as replicas:
        task = await quiet_task(bus, "many")
        sent = [await post(bus, task, f"m{number}") for number in range(COUNT // 2)]
        sent.append(await post(bus, task, "wait"))
        sent += [await post(bus, task, f"m{number}") for number in range(COUNT // 2, COUNT)]
        await eventually(lambda: bool(list(tmp_path.glob("waiting-*"))), "a replica that waits")
        pid = waiting_pid(tmp_path)
        (victim,) = [replica for replica in replicas if replica.process.pid == pid]
        await victim.kill()
        (tmp_path / "go").touch()
        await find(bus, task, HandlingEnded, count=COUNT + 1)
        log = await log_of(bus, task)

    check_order(sent, log)
    assert not any(text(event) == f"wait by {pid}" for event in log)


def waiting_pid(folder: Path) -> int:
    """Return which process waits."""
    (mark,) = folder.glob("waiting-*")
    return int(mark.name.removeprefix("waiting-"))


async def post(bus: Bus, task: TaskId, what: str) -> Event:
    """Mention the agent."""
    return (await bus.send(task, MAIN_THREAD, what, mentions=["many"])).event


def check_order(sent: list[Event], log: list[Event]) -> None:
    """Check that each message has one reply, in the order of the messages."""
    replies = [
        event for event in log if isinstance(event.data, MessagePosted) and event.sender == "many"
    ]
    assert [event.cause for event in replies] == [event.id for event in sent]
    assert [text(event).split(" by ")[0] for event in replies] == [text(event) for event in sent]
