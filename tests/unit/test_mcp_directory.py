"""Who there is, as a gateway remembers it: known names are not looked up at each call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.mcp_desks import hosts_in_memory
from threadbus.bus import Bus, TaskSummary, UnknownAgentError
from threadbus.bus.tasks import Tasks
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.gateways.mcp.directory import MAX_SCANS, Directory
from threadbus.gateways.mcp.results import ThreadList, ThreadOpened
from threadbus.schemas import AgentCard


class _Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


async def _register(bus: Bus, name: str) -> None:
    await bus.registry.register(AgentCard(name=name, display_name=name.upper()), holder="here")


async def test_a_name_that_was_seen_is_known_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up again after that; what is typed otherwise is looked for each second."""
    clock = _Clock()
    monkeypatch.setattr("threadbus.gateways.mcp.directory.time", clock)
    async with connect_in_memory("gateway", backend=InMemoryBackend()) as bus:
        await _register(bus, "web-agent")
        directory = Directory(bus)
        reads = 0
        agents = bus.registry.agents

        async def counted() -> object:
            nonlocal reads
            reads += 1
            return await agents()

        monkeypatch.setattr(bus.registry, "agents", counted)
        assert await directory.resolve("web-agent") == "web-agent"
        assert reads == 1
        clock.now += 3.9
        assert await directory.resolve("web-agent") == "web-agent"
        assert reads == 1
        assert await directory.resolve(" @Web Agent ") == "web-agent"
        assert reads == 2
        clock.now += 4.1
        assert await directory.resolve("web-agent") == "web-agent"
        assert reads == 3


async def test_who_comes_and_who_goes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name is found at once; one that went is not found once its time is up."""
    clock = _Clock()
    monkeypatch.setattr("threadbus.gateways.mcp.directory.time", clock)
    async with connect_in_memory("gateway", backend=InMemoryBackend()) as bus:
        await _register(bus, "first")
        directory = Directory(bus)
        await directory.resolve("first")
        await _register(bus, "second")
        assert await directory.resolve("second") == "second"
        await bus.registry.deregister("first")
        clock.now += 4.1
        with pytest.raises(UnknownAgentError):
            await directory.resolve("first")


async def test_many_hosts_that_list_their_threads_read_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each reads the whole log: all at once, a server would take the gateway for too slow."""
    at_once = most = 0
    listed = Tasks.list

    async def counted(self: Tasks, *, limit: int = 50, prefix: str = "") -> Sequence[TaskSummary]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        try:
            return await listed(self, limit=limit, prefix=prefix)
        finally:
            at_once -= 1

    monkeypatch.setattr(Tasks, "list", counted)
    async with hosts_in_memory() as hosts:
        there = [await hosts.host(f"host-{number}") for number in range(4 * MAX_SCANS)]
        opened = await there[0].use(ThreadOpened, "create_thread", name="Mine")
        found = await asyncio.gather(*[host.use(ThreadList, "list_threads") for host in there])

    assert most == MAX_SCANS
    assert [one.task_id for one in found[0].threads] == [opened.thread.task_id]
    assert not any(one.threads for one in found[1:])
