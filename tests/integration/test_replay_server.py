"""Runs on a real server: read, found, followed and exported as they are."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
from nats.aio.client import Client

from tests.support.busreplay import DEADLINE_S, busreplay, start_busreplay
from tests.support.nats_server import NatsServer
from threadbus.bus import Bus, connect
from threadbus.replay import BusSource, find_task, fold, parse_line
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    Recorded,
    Rejected,
    TaskId,
    TaskStatus,
    TextPart,
)


@asynccontextmanager
async def two_agents(server: NatsServer) -> AsyncGenerator[Bus]:
    """Connect as a user who knows a planner and a coder."""
    async with connect(server.url, name="user") as bus:
        for name in ("planner", "coder"):
            if await bus.registry.get(name) is None:
                await bus.registry.register(AgentCard(name=name), holder="test")
        yield bus


async def open_task(bus: Bus, title: str = "What is it?") -> TaskId:
    """Open a task that asks the planner."""
    opened = await bus.tasks.open("What is it?", to=["planner"], title=title)
    return opened.event.task


async def publish(server: NatsServer, subject: str, body: bytes) -> None:
    """Publish as any program could that knows nothing of threadbus."""
    client = Client()
    await client.connect(server.url)
    await client.jetstream().publish(subject, body)  # pyright: ignore[reportUnknownMemberType]
    await client.close()


async def test_a_run_is_read_as_it_was_stored(nats_server: NatsServer) -> None:
    """Events come with their bytes; what is no event comes as a report, with its bytes too."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus)
        answer = await bus.acting_as("planner").tasks.submit_answer(task, "It is this.")
        await publish(nats_server, f"bus.{task}.main.msg.planner", b"\xff not an event")
        source = BusSource(bus)
        items = [item async for item in source.read(task)]
        later = [item async for item in source.read(task, after=answer.seq)]

    assert [type(item) for item in items] == [Recorded, Recorded, Recorded, Rejected]
    assert items[-1].body == b"\xff not an event"
    assert later == items[2:]
    timeline = fold(items)
    assert timeline.status == "completed"
    assert timeline.answer is not None
    assert timeline.answer.text == "It is this."


async def test_tasks_are_found_and_listed(nats_server: NatsServer) -> None:
    """By the start of the id, the newest first, with their titles."""
    async with two_agents(nats_server) as bus:
        first, second = await open_task(bus, "One"), await open_task(bus, "Two")
        source = BusSource(bus)

        assert await find_task(source, first[:30]) == first
        newest = await source.newest(2)
        assert [(line.task, line.title) for line in newest] == [(second, "Two"), (first, "One")]
        assert source.name == nats_server.url


async def test_an_export_is_verbatim(nats_server: NatsServer) -> None:
    """Events that another program wrote in its own way leave as they came, fields unknown to us
    included, and the export can be shown without the server."""
    body = (
        b'{ "type":"message.posted", "at":7, "sender":"planner", "thread":"main", "v":1,'
        b'  "data":{"parts":[{"text":"caf\\u00e9","kind":"text"}],"later":1.50},'
        b'  "id":"0190000000007000800000000000%s", "task":"%s" }'
    )
    async with two_agents(nats_server) as bus:
        task = await open_task(bus)
        body %= (task[-4:].encode(), task.encode())
        await publish(nats_server, f"bus.{task}.main.msg.planner", body)

    exported = busreplay(task, "--url", nats_server.url, "--format", "jsonl")

    assert exported.returncode == 0
    opening, said = exported.stdout.splitlines()
    assert body in said
    assert isinstance(parse_line(opening), Recorded)
    assert isinstance(parse_line(said), Recorded)


async def test_a_prefix_is_enough_for_a_person(nats_server: NatsServer) -> None:
    """BUS_URL says where; an unknown id is answered with the newest ones and exit code 3."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus, "A question with a title")
    url = {"BUS_URL": nats_server.url}

    shown = busreplay(task[:30], **url)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout.startswith(b"A question with a title\n")

    unknown = busreplay("ffff", **url)
    assert unknown.returncode == 3
    assert task.encode() in unknown.stderr
    assert b"A question with a title" in unknown.stderr
    for extra in ((), ("--follow",), ("--format", "jsonl")):
        result = busreplay("f" * 32, *extra, **url)
        assert (result.returncode, result.stdout) == (3, b"")


async def test_garbage_is_shown_once(nats_server: NatsServer) -> None:
    """The tree reports what is not readable, and the client's own log does not repeat it."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus)
        await publish(nats_server, f"bus.{task}.main.msg.planner", b"garbage")
    shown = busreplay(task, "--url", nats_server.url)

    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout.count(b"not readable, at ") == 1


@pytest.mark.parametrize("form", ["tree", "jsonl", "json"])
async def test_following_ends_when_the_task_does(nats_server: NatsServer, form: str) -> None:
    """What is there is shown at once, what comes is shown live, and the close ends it."""
    async with two_agents(nats_server) as bus:
        planner = bus.acting_as("planner")
        task = await open_task(bus, "Followed")
        arguments = (task, "--follow", "--url", nats_server.url, "--format", form)
        with start_busreplay(*arguments) as process:
            assert process.stdout is not None
            if form == "tree":
                assert process.stdout.readline() == b"Followed\n"
            if form == "jsonl":
                assert b'"task.opened"' in process.stdout.readline()
            await planner.send(task, MAIN_THREAD, "On my way.")
            if form == "jsonl":
                assert b"On my way." in process.stdout.readline()
            await planner.tasks.submit_answer(task, "It is this.")
            written = process.stdout.read().decode()
            assert process.wait(DEADLINE_S) == 0

    assert "It is this." in written
    if form == "tree":
        assert "planner says: On my way." in written
        assert "Answer by planner, accepted" in written
    if form == "json":
        assert msgspec.json.decode(written)["status"] == "completed"


async def test_following_a_task_that_is_over_ends_at_once(nats_server: NatsServer) -> None:
    """There is nothing to wait for."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus)
        await bus.tasks.close(task, TaskStatus.FAILED, summary="no use")
    followed = busreplay(task, "--follow", "--url", nats_server.url)

    assert followed.returncode == 0
    assert b"Ended as failed without an answer" in followed.stdout


async def test_ctrl_c_ends_following_quietly(nats_server: NatsServer) -> None:
    """Exit code 130, no message, and what was shown stays."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus, "Open")
        with start_busreplay(task, "--follow", "--url", nats_server.url) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"Open\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 130
            assert process.stderr.read() == b""


async def test_following_survives_a_limit(nats_server: NatsServer) -> None:
    """A limit ends it, too, also when it is reached live."""
    async with two_agents(nats_server) as bus:
        task = await open_task(bus)
        await bus.acting_as("planner").send(task, MAIN_THREAD, [TextPart("one")])
        followed = busreplay(
            task, "--follow", "--limit", "2", "--format", "jsonl", "--url", nats_server.url
        )

    assert followed.returncode == 0
    assert followed.stdout.count(b"\n") == 2
