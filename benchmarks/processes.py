"""Agents to be measured, each in an OS process of its own.

    python -m benchmarks.processes plain URL      answers from a durable push consumer of nats-py
    python -m benchmarks.processes pulling URL    waits at a durable pull consumer of nats-py
    python -m benchmarks.processes inbox URL      answers from its inbox on the bus
    python -m benchmarks.processes agent URL      answers from a handler, as an agent of threadbus
    python -m benchmarks.processes bare URL       answers its mentions over a bare socket

Each says ``ready`` when it can be asked and ends when its standard input does, so that it cannot
outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import nats
from nats.aio.msg import Msg

from benchmarks.bare import AppendFrames, bare_connection, publish
from threadbus.agents import Agent, Mention, serve
from threadbus.bus import BusSettings, connect, new_instance
from threadbus.schemas import (
    AgentCard,
    AgentName,
    EventClass,
    MessagePosted,
    Recorded,
    TaskOpened,
    as_parts,
    derive_event_id,
    make_event,
    new_event_id,
    parse_mention_subject,
)

INBOX_AGENT: Final = "inbox-agent"
RUNNER_AGENT: Final = "runner-agent"
BARE_AGENT: Final = "bare-agent"
PLAIN_ASK: Final = "plain.ask"
PLAIN_ANSWER: Final = "plain.answer"
_PATIENCE_S: Final = 30.0
_PULLED: Final = 1_000
_PULLED_FOR_S: Final = 3_600.0
_ANSWER: Final = "The report is right: row 17 of the ledger is counted twice."

Program: TypeAlias = Callable[[str, Callable[[], None]], Coroutine[Any, Any, None]]


def plain_message(text: str, cause: str = "") -> tuple[str, bytes]:
    """Make a message as somebody does who has nats-py and the standard library.

    Returns:
        Its id, and the message as JSON.
    """
    key = uuid.uuid4().hex
    return key, json.dumps({"id": key, "cause": cause, "text": text}).encode()


async def plain(url: str, ready: Callable[[], None]) -> None:
    """Publish an answer to each question that is delivered, and acknowledge that last."""
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
    js = client.jetstream()  # pyright: ignore[reportUnknownMemberType]

    async def on_ask(message: Msg) -> None:
        _, answer = plain_message(_ANSWER, json.loads(message.data)["id"])
        await js.publish(PLAIN_ANSWER, answer)
        await message.ack()

    await js.subscribe(PLAIN_ASK, durable="answering", cb=on_ask, manual_ack=True)  # pyright: ignore[reportUnknownMemberType]
    ready()
    await asyncio.Event().wait()


async def pulling(url: str, ready: Callable[[], None]) -> None:
    """Ask for the next message again and again, as its documentation shows it."""
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]
    js = client.jetstream()  # pyright: ignore[reportUnknownMemberType]
    await js.add_stream(name="PULLED", subjects=["pulled.>"])  # pyright: ignore[reportUnknownMemberType]
    subscription = await js.pull_subscribe("pulled.>", durable="pulling")
    ready()
    while True:
        with contextlib.suppress(TimeoutError):
            for message in await subscription.fetch(1, timeout=5):
                await message.ack()


async def inbox(url: str, ready: Callable[[], None]) -> None:
    """Answer each mention in its thread, and each super-task by its answer; acknowledge last."""
    async with connect(url, name=INBOX_AGENT) as bus, bus.inbox() as mentions:
        await bus.registry.register(AgentCard(name=INBOX_AGENT), holder=new_instance())
        ready()
        async for delivery in mentions:
            event = delivery.event
            # The id of a reply is derived, so that a redelivery cannot make a second one.
            reply_id = derive_event_id(event.id, bus.name, "reply")
            if isinstance(event.data, TaskOpened):
                await bus.tasks.submit_answer(
                    event.task, _ANSWER, cause=event.id, event_id=reply_id
                )
            else:
                await bus.send(event.task, event.thread, _ANSWER, cause=event.id, event_id=reply_id)
            await delivery.ack()


async def agent(url: str, ready: Callable[[], None]) -> None:
    """Be an agent as a user writes one: a handler, run with everything that is around it."""
    answering = Agent(RUNNER_AGENT)

    @answering.on_mention
    async def handle(_mention: Mention) -> str:  # pyright: ignore[reportUnusedFunction]
        return _ANSWER

    await serve(answering, BusSettings.from_env(url=url), on_ready=lambda _runner: ready())


async def bare(url: str, ready: Callable[[], None]) -> None:
    """Answer each mention with the bytes of an append, and acknowledge it when that is stored."""
    name, acked_at, pulled_at = AgentName(BARE_AGENT), "_INBOX.bare.answered", "_INBOX.bare.pull"
    async with connect(url, name=name) as bus, bus.inbox():
        # It has made the inbox; from here on everything goes over the bare socket.
        await bus.registry.register(AgentCard(name=name), holder=new_instance())
    frames: AppendFrames | None = None
    preparing: asyncio.Task[None] | None = None
    mentions: deque[bytes] = deque()
    pulled = 0
    async with bare_connection(url) as connection:

        def pull() -> None:
            nonlocal pulled
            request = json.dumps({"batch": _PULLED, "expires": int(_PULLED_FOR_S * 1e9)})
            to = f"$JS.API.CONSUMER.MSG.NEXT.MENTIONS.agent-{name}"
            connection.write(publish(to.encode(), request.encode(), pulled_at))
            pulled = _PULLED

        async def prepare(subject: str) -> None:
            """Learn from the first mention where it is; the others come in the same thread."""
            nonlocal frames
            where = parse_mention_subject(subject)
            async with connect(url, name=name) as bus:
                last_ctl_seq = max(
                    [
                        entry.seq
                        async for entry in bus.read(where.task, where.thread)
                        if isinstance(entry, Recorded) and entry.event.event_class is EventClass.CTL
                    ]
                )
            event = make_event(
                MessagePosted(parts=as_parts(_ANSWER)),
                task=where.task,
                thread=where.thread,
                sender=name,
                cause=new_event_id(),
            )
            frames = AppendFrames(event, last_ctl_seq, acked_at)
            connection.write(frames.next())

        def on_mention(subject: bytes, reply: bytes) -> None:
            nonlocal pulled, preparing
            if not reply.startswith(b"$JS.ACK."):
                return
            mentions.append(reply)
            if frames is not None:
                connection.write(frames.next())
            else:
                preparing = asyncio.create_task(prepare(subject.decode()))
            pulled -= 1
            if not pulled:
                pull()

        def on_stored(_subject: bytes, _reply: bytes) -> None:
            connection.write(publish(mentions.popleft(), b"+ACK"))

        connection.subscribe(pulled_at, on_mention)
        connection.subscribe(acked_at, on_stored)
        pull()
        ready()
        try:
            await asyncio.Event().wait()
        finally:
            if preparing is not None:
                await preparing


PROGRAMS: Final[dict[str, Program]] = {
    "plain": plain,
    "pulling": pulling,
    "inbox": inbox,
    "agent": agent,
    "bare": bare,
}


@asynccontextmanager
async def running(program: str, url: str) -> AsyncGenerator[int]:
    """Run one of :data:`PROGRAMS` in a process of its own; yields its process id.

    Raises:
        RuntimeError: it did not get ready.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.processes",
        program,
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    assert process.stdout is not None  # noqa: S101
    try:
        async with asyncio.timeout(_PATIENCE_S):
            line = await process.stdout.readline()
        if line.strip() != b"ready":
            raise RuntimeError(f"the program {program!r} did not get ready")
        yield process.pid
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _until_left(work: Program, url: str) -> None:
    """Run *work* until standard input ends."""
    task = asyncio.create_task(work(url, lambda: print("ready", flush=True)))
    left = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
    await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    await asyncio.wait({task})


if __name__ == "__main__":
    asyncio.run(_until_left(PROGRAMS[sys.argv[1]], sys.argv[2]))
