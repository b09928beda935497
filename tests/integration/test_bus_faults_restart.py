"""The server is killed, or frozen, in the middle of everything, and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.bus_env import events_of, soon
from tests.support.eventually import eventually
from threadbus.bus import AppendError, Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AssignmentFinished,
    AssignmentMade,
    MessagePosted,
    ProposalMade,
    TaskId,
    TaskStatus,
    TextPart,
    VoteCast,
    VoteVerdict,
    new_event_id,
)

_WAIT = timedelta(seconds=40)


@asynccontextmanager
async def talk() -> AsyncGenerator[tuple[EmbeddedServer, Bus, Bus, TaskId]]:
    """A server, two agents on connections of their own, and a super-task of both."""
    async with (
        EmbeddedServer() as server,
        connect(server.url, name="user") as user,
        connect(server.url, name="web") as web,
    ):
        for name in ("user", "web"):
            await user.registry.register(AgentCard(name=name), holder="tests")
        opened = await user.tasks.open("What is it?", to=["web"])
        yield server, user, web, opened.event.task


async def restart(server: EmbeddedServer) -> None:
    """Kill the server with SIGKILL and start it again."""
    await server.kill()
    await server.start()


async def until_done(tasks: Sequence[asyncio.Task[Any]], some: int) -> None:
    """Wait until *some* of *tasks* are done."""
    await eventually(lambda: sum(task.done() for task in tasks) >= some, "some are done")


async def test_pipelined_appends_over_three_kills() -> None:
    """Each of 2,000 guarded appends ends in a place or an error; each place is there once."""
    async with talk() as (server, user, _, task):
        ids = [new_event_id() for _ in range(2000)]

        async def post(number: int) -> int:
            data = MessagePosted(parts=(TextPart(str(number)),))
            return (await user.append(data, task=task, event_id=ids[number])).seq

        posting = [asyncio.create_task(post(number)) for number in range(2000)]
        for some in (1, 700, 1400):
            await until_done(posting, some)
            await restart(server)
        results = await soon(asyncio.gather(*posting, return_exceptions=True))
        counted = Counter(event.id for event in await events_of(user, task))
        placed = [result for result in results if isinstance(result, int)]
        failed = [result for result in results if not isinstance(result, int)]
        print(f"{len(placed)} in the log, {len(failed)} refused")

        assert all(isinstance(failure, AppendError) for failure in failed)
        assert len(set(placed)) == len(placed) > 0
        assert max(counted.values()) == 1
        assert [counted[ids[n]] for n, r in enumerate(results) if isinstance(r, int)] == [1] * len(
            placed
        )


async def test_control_events_over_kills_are_there_once() -> None:
    """Threads that are opened and closed while the server is killed are opened and closed once."""
    async with talk() as (server, user, _, task):

        async def round_trip(number: int) -> None:
            thread = (
                await user.threads.open(task, f"Side {number}", participants=["web"])
            ).event.thread
            await user.send(task, thread, "Hello.", mentions=["web"])
            await user.threads.close(task, thread, summary="Done.")

        rounds = [asyncio.create_task(round_trip(number)) for number in range(200)]
        for some in (1, 60, 120):
            await until_done(rounds, some)
            await restart(server)
        await soon(asyncio.gather(*rounds))
        counted = Counter((event.type, event.thread) for event in await events_of(user, task))

        assert set(counted.values()) == {1}
        assert len(counted) == 1 + 200 * 3


async def test_a_follower_has_no_gap_and_no_duplicate_over_kills() -> None:
    """Whoever follows while the server is killed three times gets the log as it is."""
    async with talk() as (server, user, web, task):
        seen: list[int] = []

        async def look() -> None:
            async for entry in web.follow(task):
                seen.extend([entry.seq])

        looking = asyncio.create_task(look())
        await eventually(lambda: bool(seen), "the follower is there")
        for _ in range(3):
            posting = [
                asyncio.create_task(user.send(task, MAIN_THREAD, str(n))) for n in range(300)
            ]
            await until_done(posting, 100)
            await restart(server)
            await soon(asyncio.gather(*posting))
        stored = [entry.seq async for entry in user.read(task)]
        await eventually(lambda: len(seen) >= len(stored), "everything was seen")
        looking.cancel()

        assert seen == stored


async def _answer(user: Bus, web: Bus, task: TaskId, between: Callable[[], Any]) -> object:
    waiting = asyncio.create_task(user.waits.for_answer(task, timeout=_WAIT))
    await between()
    await web.tasks.submit_answer(task, "42")
    return (await waiting).text


async def _results(user: Bus, web: Bus, task: TaskId, between: Callable[[], Any]) -> object:
    made = await user.append(
        AssignmentMade(assignee="web", parts=(TextPart("Look it up."),)),
        task=task,
        mentions=["web"],
    )
    waiting = asyncio.create_task(user.waits.for_results(task, [made.event.id], timeout=_WAIT))
    await between()
    await web.append(AssignmentFinished(assignment=made.event.id), task=task)
    return list(await waiting) == [made.event.id]


async def _votes(user: Bus, web: Bus, task: TaskId, between: Callable[[], Any]) -> object:
    made = await user.append(
        ProposalMade(parts=(TextPart("Shall we?"),), voters=("web",)), task=task, mentions=["web"]
    )
    waiting = asyncio.create_task(user.waits.for_votes(task, made.event.id, timeout=_WAIT))
    await between()
    await web.append(VoteCast(proposal=made.event.id, verdict=VoteVerdict.APPROVE), task=task)
    await waiting
    return True


async def _close(user: Bus, web: Bus, task: TaskId, between: Callable[[], Any]) -> object:
    thread = (await user.threads.open(task, "Side", participants=["web"])).event.thread
    waiting = asyncio.create_task(user.waits.for_close(task, thread, timeout=_WAIT))
    await between()
    await web.threads.close(task, thread, summary="Done.")
    await waiting
    return True


async def _reply(user: Bus, web: Bus, task: TaskId, between: Callable[[], Any]) -> object:
    async with web.inbox() as inbox:
        await (await inbox.next()).ack()
        waiting = asyncio.create_task(
            user.request(task, MAIN_THREAD, "How far?", to="web", timeout=_WAIT)
        )
        delivery = await inbox.next()
        await between()
        await web.send(task, MAIN_THREAD, "Half.", cause=delivery.event.id)
        await delivery.ack()
        return (await waiting).sender


@pytest.mark.parametrize("wait", [_answer, _results, _votes, _close, _reply])
async def test_every_wait_outlives_a_kill(
    wait: Callable[[Bus, Bus, TaskId, Callable[[], Any]], Coroutine[Any, Any, object]],
) -> None:
    """A wait goes on over a restart, and is woken by what comes after it."""
    async with talk() as (server, user, web, task):
        before = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

        async def between() -> None:
            await restart(server)

        async with asyncio.timeout(60):
            assert await wait(user, web, task, between)
        left = [task for task in asyncio.all_tasks() - before if "threadbus" in task.get_name()]
        assert not left


async def test_an_inbox_resumes_after_kills() -> None:
    """Mentions written before, during and after a restart all arrive; the idle inbox goes on."""
    async with talk() as (server, user, web, task), web.inbox() as inbox:
        first = await soon(inbox.next())
        await first.ack()
        taken: list[int] = []

        async def take() -> None:
            async for delivery in inbox:
                taken.append(delivery.seq)
                await delivery.ack()

        taking = asyncio.create_task(take())
        sent: list[int] = []

        def all_taken() -> bool:
            return set(sent) <= set(taken)

        for _ in range(3):
            posting = [
                asyncio.create_task(user.send(task, MAIN_THREAD, str(n), mentions=["web"]))
                for n in range(100)
            ]
            await until_done(posting, 30)
            await restart(server)
            sent += [appended.seq for appended in await soon(asyncio.gather(*posting))]
            await eventually(all_taken, "every mention arrived", 40)
        taking.cancel()

        # An acknowledgement that the server had not written down comes to nothing.
        assert set(sent) <= set(taken) <= {first.seq, *sent}
        print(f"{len(sent)} mentions, {len(taken) - len(set(taken))} delivered again")


async def test_a_kill_while_idle_is_told_in_two_lines() -> None:
    """The log says that the connection is lost and that it is back; what comes next works."""
    async with talk() as (server, user, web, task):
        with capture_logs() as lines:
            await server.kill()
            await eventually(lambda: len(lines) >= 2, "both have noticed")
            await server.start()
            await eventually(
                lambda: sum("is back" in str(line["event"]) for line in lines) == 2,
                "both are back",
            )
            await soon(web.send(task, MAIN_THREAD, "I am back."))
            await soon(user.registry.list())
            await soon(user.tasks.list())

        told = Counter(str(line["event"]) for line in lines)
        assert told == {"connection lost, reconnecting": 2, "connection is back": 2}
        # Where one of them is shown, so is the other.
        assert {line["log_level"] for line in lines} == {"warning"}


async def test_artifacts_and_registrations_wait_for_the_server() -> None:
    """What is put or looked up while the server is away is done when it is back."""
    async with talk() as (server, user, _, _task):
        await server.kill()
        async with asyncio.TaskGroup() as group:
            putting = group.create_task(user.artifacts.put(b"content" * 100_000))
            registering = group.create_task(
                user.registry.register(AgentCard(name="late"), holder="tests")
            )
            listing = group.create_task(user.tasks.list())
            await server.start()
        reference = putting.result()

        assert await user.artifacts.get(reference) == b"content" * 100_000
        assert registering.result().card.name == "late"
        assert len(listing.result()) == 1


async def test_leaving_while_the_server_is_away_ends() -> None:
    """A bus can be left in order without a server, and leaves no task behind."""
    before = asyncio.all_tasks()
    async with EmbeddedServer() as server:
        async with connect(server.url) as bus:
            await bus.registry.register(AgentCard(name="user"), holder="tests")
            await server.kill()
        left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not {name for name in left if "threadbus.log" in name}


async def test_connecting_to_a_server_that_starts_waits_for_it() -> None:
    """Ten that connect while the server is killed and started get a bus that works."""
    async with EmbeddedServer() as server:
        async with connect(server.url) as bus:
            await bus.registry.register(AgentCard(name="user"), holder="tests")

        async def visit() -> int:
            async with connect(server.url) as bus:
                return len(await bus.registry.list())

        await server.kill()
        visits = [asyncio.create_task(visit()) for _ in range(10)]
        await server.start()
        assert await soon(asyncio.gather(*visits)) == [1] * 10


async def test_a_server_that_stands_still_loses_nothing() -> None:
    """A server that is stopped for seconds and goes on has every message once."""
    async with talk() as (server, user, web, task):
        seen: list[int] = []

        async def look() -> None:
            async for entry in web.follow(task):
                seen.extend([entry.seq])

        looking = asyncio.create_task(look())
        await eventually(lambda: bool(seen), "the follower is there")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            posting = [
                asyncio.create_task(user.send(task, MAIN_THREAD, str(n))) for n in range(200)
            ]
            # Long enough that each is sent a second time.
            _, waiting = await asyncio.wait(posting, timeout=5)
            assert len(waiting) > 150
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await soon(asyncio.gather(*posting))
        stored = [entry.seq async for entry in user.read(task)]
        await eventually(lambda: len(seen) >= len(stored), "everything was seen")
        looking.cancel()

        assert len(stored) == 201
        assert seen == stored
        assert (await user.tasks.state(task)).status == TaskStatus.WORKING
