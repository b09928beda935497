"""``busreplay verify`` against attacks on a real server: raw publishes past every bus."""

from __future__ import annotations

from hashlib import sha256

import msgspec
from nats.aio.client import Client

from tests.support.bus_env import NatsEnv, write_raw
from tests.support.busreplay import busreplay
from tests.support.nats_server import NatsServer
from threadbus.bus import Bus, connect
from threadbus.replay.verifying import Report
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentName,
    AnyData,
    MessagePosted,
    ParticipantAdded,
    ReferencePart,
    TaskClosed,
    TaskId,
    TaskStatus,
    TextPart,
    encode_event,
    make_event,
)

HELLO = MessagePosted(parts=(TextPart("hello"),))


async def open_task(bus: Bus) -> TaskId:
    """Open a task in which the planner takes part."""
    await bus.registry.register(AgentCard(name="planner"), holder="test", takeover=True)
    return (await bus.tasks.open("What?", to=["planner"])).event.task


async def forge(url: str, task: TaskId, sender: str, data: AnyData, *mentions: str) -> None:
    """Publish an event with nats-py, under any name and without a guard."""
    event = make_event(
        data,
        task=task,
        thread=MAIN_THREAD,
        sender=AgentName(sender),
        mentions=tuple(map(AgentName, mentions)),
    )
    await publish(url, event.subject, encode_event(event))


async def publish(url: str, subject: str, body: bytes) -> None:
    """Publish bytes as any program could that knows nothing of threadbus."""
    client = Client()
    await client.connect(url)
    await client.jetstream().publish(subject, body)  # pyright: ignore[reportUnknownMemberType]
    await client.close()


def verify(url: str, task: TaskId, *arguments: str, code: int) -> Report:
    """Run the command."""
    ran = busreplay("verify", task, "--url", url, "--json", *arguments)
    assert (ran.returncode, ran.stderr) == (code, b"")
    return msgspec.json.decode(ran.stdout, type=Report)


async def test_an_honest_run_is_sound(nats_server: NatsServer) -> None:
    """With an artifact, whose hash is checked, and an answer."""
    async with connect(nats_server.url, name="user") as bus:
        task = await open_task(bus)
        planner = bus.acting_as("planner")
        await planner.send(task, MAIN_THREAD, "x" * 100_000)
        await planner.tasks.submit_answer(task, "It is this.")

    report = verify(nats_server.url, task, code=0)
    assert (report.violations, report.notes, report.artifacts) == (0, 0, 1)


async def test_every_forgery_is_reported_with_its_entry(nats_server: NatsServer) -> None:
    """Exit code 11, and one line for each thing that was forged."""
    url = nats_server.url
    async with connect(url, name="user") as bus:
        task = await open_task(bus)
        await forge(url, task, "mallory", HELLO)
        await forge(url, task, "mallory", ParticipantAdded(participant="mallory"))
        await forge(url, task, "planner", HELLO, "mallory")
        event = make_event(HELLO, task=task, thread=MAIN_THREAD, sender=AgentName("planner"))
        await publish(url, f"bus.{task}.main.msg.mallory", encode_event(event))
        await publish(url, f"bus.{task}.main.ctl.planner", encode_event(event))
        await publish(url, f"bus.{task}.main.msg.planner", b"\xff garbage")
        await bus.tasks.close(task, TaskStatus.FAILED)
        await forge(url, task, "planner", HELLO)
        await forge(url, task, "planner", TaskClosed(outcome=TaskStatus.COMPLETED))

    report = verify(url, task, code=11)
    assert [problem.check for problem in report.problems] == [
        *("sender", "sender", "guard", "event", "event", "event", "guard", "guard")
    ]
    assert all(problem.seq for problem in report.problems)
    shown = busreplay("verify", task, "--url", url)
    assert shown.returncode == 11
    assert shown.stdout.count(b"violation ") == 8
    assert b"message.posted by mallory in main: mallory does not take part" in shown.stdout


async def test_contents_that_are_gone_or_changed_are_reported(nats_server: NatsServer) -> None:
    """Each with its entry; without --artifacts they are said to be unchecked."""
    url = nats_server.url
    env = NatsEnv(url)
    async with connect(url, name="user") as bus:
        task = await open_task(bus)
        async with env.backend() as backend:
            # The first content of a name stays; this one is not what its name says.
            await backend.objects.put(sha256(b"a" * 100_000).hexdigest(), b"something else")
        changed = await bus.artifacts.put(b"a" * 100_000, name="a.txt")
        short = await bus.artifacts.put(b"b" * 100_000, name="b.txt")
        gone = ReferencePart("cd" * 32, 5, "c.txt")
        wrong = msgspec.structs.replace(short, size=7)
        await bus.append(MessagePosted(parts=(changed, gone, wrong)), task=task)

    report = verify(url, task, code=11)
    assert [problem.check for problem in report.problems] == ["artifact"] * 3
    for problem, word in zip(report.problems, ("a.txt", "c.txt", "b.txt"), strict=True):
        assert word in problem.text
    report = verify(url, task, "--no-artifacts", code=0)
    assert report.artifacts_unchecked == 3


async def test_an_export_is_checked_without_a_server(nats_server: NatsServer) -> None:
    """The same findings from the file, but for contents, which it does not have."""
    url = nats_server.url
    async with connect(url, name="user") as bus:
        task = await open_task(bus)
        await forge(url, task, "mallory", HELLO)
        await bus.acting_as("planner").send(task, MAIN_THREAD, "x" * 100_000)
        async with NatsEnv(url).backend() as backend:
            await write_raw(backend, f"bus.{task}.main.msg.planner", b"{}")
    exported = busreplay(task, "--url", url, "--format", "jsonl")
    file = nats_server.folder / "exported.jsonl"
    file.write_bytes(exported.stdout)
    ran = busreplay("verify", "--file", file)

    assert ran.returncode == 11
    text = ran.stdout.decode()
    assert "2 violations, 0 notes" in text
    assert "not checked: 1 artifact (a file has no contents)" in text
    lines = exported.stdout.splitlines(keepends=True)
    file.write_bytes(b"".join([lines[2], lines[0]]))
    assert b"not the order of a log" in busreplay("verify", "--file", file).stdout
