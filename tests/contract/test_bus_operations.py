"""The bus as its operator sees it: the end of the log, the whole log, and agents that are gone."""

import asyncio

import pytest

from tests.support.bus_env import BusEnv, opened, take, write_raw
from tests.support.eventually import eventually
from threadbus.bus import Bus, Unseen
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    InvalidNameError,
    Recorded,
    Rejected,
    event_subject,
)


async def waits(bus: Bus, name: str) -> None:
    """Return once a mention waits for *name*."""

    async def found() -> bool:
        return (await bus.pending_mentions()).get(name) == 1

    await eventually(found, f"the mention of {name}")


async def test_the_end_of_the_log_is_read_with_what_is_no_event(env: BusEnv) -> None:
    """The last entries come oldest first, however many there are before them."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        for number in range(5):
            await web.send(task, MAIN_THREAD, str(number))
        where = event_subject(task, MAIN_THREAD, EventClass.MSG, AgentName("web"))
        await write_raw(backend, where, b"none")
        last = await user.operations.recent(3)
        everything = await user.operations.recent()

    assert [entry.seq for entry in last] == [5, 6, 7]
    assert isinstance(last[-1], Rejected)
    assert [entry.seq for entry in everything] == list(range(1, 8))


@pytest.mark.parametrize("limit", [0, -1, 100_001])
async def test_only_so_much_of_the_end_can_be_asked_for(env: BusEnv, limit: int) -> None:
    """The error names what was given and what may be."""
    async with env.buses("user") as (user,):
        with pytest.raises(ValueError, match=f"{limit:,}"):
            await user.operations.recent(limit)


async def test_the_whole_log_is_followed_without_keeping_a_position(env: BusEnv) -> None:
    """History behind a sequence, then what comes."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.send(task, MAIN_THREAD, "one")
        async with user.operations.following(1) as entries, asyncio.TaskGroup() as group:
            reading = group.create_task(take(entries, 2))
            group.create_task(web.send(task, MAIN_THREAD, "two"))
        last = await user.operations.last_seq()

    assert [entry.seq for entry in reading.result()] == [2, 3]
    assert last == 3


async def test_an_agent_that_is_forgotten_leaves_what_was_said(env: BusEnv) -> None:
    """Its record goes; its events and the mentions that wait for it stay."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        await waits(user, "web")
        gone = await user.operations.forget("web")
        record = await user.registry.get("web")
        waiting = await user.pending_mentions()
        events = [entry async for entry in user.read(task) if isinstance(entry, Recorded)]

    assert (gone.registered, gone.waiting, gone.dropped) == (True, 1, 0)
    assert (record, waiting) == (None, {"web": 1})
    assert len(events) == 1


async def test_mentions_of_a_forgotten_agent_are_dropped_on_demand(env: BusEnv) -> None:
    """Only its own; a second time there is nothing."""
    async with env.buses("user", "web", "coder") as (user, *_):
        await opened(user, "web", "coder")
        await waits(user, "web")
        await waits(user, "coder")
        gone = await user.operations.forget("web", drop_mentions=True)
        again = await user.operations.forget("web", drop_mentions=True)
        waiting = await user.pending_mentions()

    assert (gone.waiting, gone.dropped) == (1, 1)
    assert (again.registered, again.dropped) == (False, 0)
    assert waiting == {"coder": 1}


async def test_a_name_outside_the_grammar_is_not_forgotten(env: BusEnv) -> None:
    """A wildcard would name everybody."""
    async with env.buses("user") as (user,):
        with pytest.raises(InvalidNameError):
            await user.operations.forget("*", drop_mentions=True)


async def test_health_tells_of_every_stream(env: BusEnv) -> None:
    """Each stream has a leader, nothing is hidden from whoever may do everything."""
    async with env.buses("user") as (user,):
        health = await user.operations.health()
        names = [one.name for one in (await user.storage()).streams]

    hidden: tuple[Unseen, ...] = ()
    assert [stream.name for stream in health.streams] == names
    assert all(stream.leader for stream in health.streams)
    assert health.unseen == hidden
