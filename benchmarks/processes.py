"""Agents to be measured, each in an OS process of its own.

    python -m benchmarks.processes plain URL      answers from a durable push consumer of nats-py
    python -m benchmarks.processes pulling URL    waits at a durable pull consumer of nats-py
    python -m benchmarks.processes bus URL        answers from its inbox on the bus

Each says ``ready`` when it can be asked and ends when its standard input does, so that it cannot
outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import nats
from nats.aio.msg import Msg

from threadbus.bus import connect, new_instance
from threadbus.schemas import AgentCard, TaskOpened, text_of

AGENT: Final = "web"
PLAIN_ASK: Final = "plain.ask"
PLAIN_ANSWER: Final = "plain.answer"
_PATIENCE_S: Final = 30.0

Program: TypeAlias = Callable[[str, Callable[[], None]], Coroutine[Any, Any, None]]


async def plain(url: str, ready: Callable[[], None]) -> None:
    """Publish an event for each that is delivered, and acknowledge it last."""
    client = await nats.connect(url)
    js = client.jetstream()

    async def on_ask(message: Msg) -> None:
        await js.publish(PLAIN_ANSWER, b"answer to " + message.data)
        await message.ack()

    await js.subscribe(PLAIN_ASK, durable="answering", cb=on_ask, manual_ack=True)  # pyright: ignore[reportUnknownMemberType]
    ready()
    await asyncio.Event().wait()


async def pulling(url: str, ready: Callable[[], None]) -> None:
    """Ask for the next message again and again, as its documentation shows it."""
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(name="PULLED", subjects=["pulled.>"])  # pyright: ignore[reportUnknownMemberType]
    subscription = await js.pull_subscribe("pulled.>", durable="pulling")
    ready()
    while True:
        with contextlib.suppress(TimeoutError):
            for message in await subscription.fetch(1, timeout=5):
                await message.ack()


async def bus(url: str, ready: Callable[[], None]) -> None:
    """Answer each mention in its thread, and each super-task by its answer; acknowledge last."""
    async with connect(url, name=AGENT) as agent, agent.inbox() as inbox:
        await agent.registry.register(AgentCard(name=AGENT), holder=new_instance())
        ready()
        async for delivery in inbox:
            event = delivery.event
            if isinstance(event.data, TaskOpened):
                text = f"answer to {text_of(event.data.parts)}"
                await agent.tasks.submit_answer(event.task, text, cause=event.id)
            else:
                await agent.send(event.task, event.thread, "answer", cause=event.id)
            await delivery.ack()


PROGRAMS: Final[dict[str, Program]] = {"plain": plain, "pulling": pulling, "bus": bus}


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
