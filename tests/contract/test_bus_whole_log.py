"""Consumers of the whole log: everything in order, and on from where they were done."""

import asyncio

import pytest

from tests.support.bus_env import BusEnv, opened, soon, take, write_raw
from threadbus.bus import Bus, ReadError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    InvalidNameError,
    Recorded,
    Rejected,
    TaskId,
    event_subject,
    new_task_id,
)


async def post(bus: Bus, task: TaskId, count: int) -> None:
    """Post messages, several at a time."""
    await asyncio.gather(*(bus.send(task, MAIN_THREAD, str(n)) for n in range(count)))


def seqs_of(entries: list[Recorded | Rejected]) -> list[int]:
    """Return the sequences of entries."""
    return [entry.seq for entry in entries]


async def test_a_consumer_sees_every_task_in_the_order_of_the_log(env: BusEnv) -> None:
    """History of two tasks, then what two writers add to both at once: all of it, once."""
    async with env.buses("user", "web") as (user, web):
        tasks = [await opened(user, "web") for _ in range(2)]
        await post(web, tasks[0], 50)
        async with user.consuming("exporter") as consumer, asyncio.TaskGroup() as group:
            reading = group.create_task(take(consumer, 252))
            group.create_task(post(web, tasks[0], 100))
            group.create_task(post(user, tasks[1], 100))
        stored = [entry for task in tasks async for entry in user.read(task)]

    assert seqs_of(reading.result()) == sorted(seqs_of(stored)) == list(range(1, 253))


async def test_a_consumer_goes_on_where_it_was_done(env: BusEnv) -> None:
    """What was not committed comes again, what was does not; each name has a place of its own."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await post(web, task, 9)
        async with user.consuming("exporter") as consumer:
            assert seqs_of(await take(consumer, 10)) == list(range(1, 11))
            assert consumer.read_to == 10
            await consumer.commit(7)
            await consumer.commit(3)
            assert consumer.position == 7

        async with web.consuming("exporter") as consumer, web.consuming("index") as other:
            assert consumer.position == 7
            assert seqs_of(await take(consumer, 3)) == [8, 9, 10]
            assert seqs_of(await take(other, 2)) == [1, 2]


async def test_a_consumer_begins_where_it_is_told(env: BusEnv) -> None:
    """A sequence that is given counts more than the place that was kept."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await post(web, task, 4)
        async with user.consuming("exporter") as consumer:
            await consumer.commit(4)

        async with user.consuming("exporter", after=2) as consumer:
            assert seqs_of(await take(consumer, 2)) == [3, 4]


async def test_garbage_reaches_a_consumer_as_a_report(env: BusEnv) -> None:
    """Bytes that are no event do not end the reading."""
    async with env.buses("user", "web") as (user, _), env.backend() as backend:
        subject = event_subject(new_task_id(), MAIN_THREAD, EventClass.MSG, AgentName("web"))
        await write_raw(backend, subject, b"no event")
        task = await opened(user, "web")
        async with user.consuming("exporter") as consumer:
            first, second = await take(consumer, 2)

    assert isinstance(first, Rejected)
    assert isinstance(second, Recorded)
    assert second.event.task == task


async def test_a_consumer_knows_the_end_of_the_log_and_the_clock_of_the_server(env: BusEnv) -> None:
    """Both can be asked for, so that it is known when nothing can come any more."""
    async with env.buses("user", "web") as (user, _):
        await opened(user, "web")
        async with user.consuming("exporter") as consumer:
            (entry,) = await take(consumer, 1)

            assert await soon(consumer.end()) == entry.seq
            assert await soon(consumer.server_time()) >= entry.stored_at


async def test_a_name_outside_the_grammar_is_refused(env: BusEnv) -> None:
    """The name is a key on the server."""
    async with env.connect("user") as user:
        with pytest.raises(InvalidNameError, match="Exporter Nr 1"):
            async with user.consuming("Exporter Nr 1"):
                pass


@pytest.mark.parametrize(
    ("value", "says"), [(b"seven", "it is not one"), (b'{"seq":-1}', "-1 is no sequence")]
)
async def test_a_broken_position_is_told(env: BusEnv, value: bytes, says: str) -> None:
    """What somebody else wrote in place of a position is an error that says so."""
    async with env.backend() as backend, env.connect("user") as user:
        positions = await backend.positions()
        await positions.put("exporter", value)
        with pytest.raises(ReadError, match=f"the position of exporter.*{says}"):
            async with user.consuming("exporter"):
                pass
