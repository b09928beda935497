"""The twin in memory: its clock, its faults, and who shares it."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from tests.support.bus_env import opened, receive, soon, types_of
from threadbus.bus import (
    AppendTimeoutError,
    BusSettings,
    ConflictError,
    PayloadTooLargeError,
    StorageFullError,
)
from threadbus.bus.ports import Position
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.bus.testing.clock import Clock
from threadbus.bus.testing.log import matches
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    InvalidNameError,
    Presence,
    ToolCalled,
    new_event_id,
)

SECOND = timedelta(seconds=1)


async def test_names_that_share_a_backend_talk_to_each_other() -> None:
    """Two names on one backend are two processes on one server; another backend is another."""
    backend = InMemoryBackend()
    async with (
        connect_in_memory("user", backend=backend) as user,
        connect_in_memory("web", backend=backend) as web,
        connect_in_memory("web") as elsewhere,
    ):
        await web.registry.register(AgentCard(name="web"), holder="a")
        task = await opened(user, "web")
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

        assert delivery.event.task == task
        assert await elsewhere.tasks.list() == []
        with pytest.raises(InvalidNameError):
            await connect_in_memory("Not A Name").__aenter__()


async def test_what_was_there_stays_for_later_connections() -> None:
    """A backend outlives its connections, as a server does."""
    backend = InMemoryBackend()
    async with connect_in_memory("user", backend=backend) as user:
        task = await opened(user)
    async with connect_in_memory("user", backend=backend) as user:
        await user.send(task, MAIN_THREAD, "again")

        assert await types_of(user, task) == ["task.opened", "message.posted"]


async def test_settings_are_given_and_not_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Variables of the person who runs a test do not change what it tests."""
    monkeypatch.setenv("BUS_AS", "somebody")
    monkeypatch.setenv("BUS_PART_MAX_BYTES", "7")
    async with connect_in_memory() as bus:
        assert bus.name == "user"
        assert bus.settings == BusSettings()
    async with connect_in_memory(settings=BusSettings(part_max_bytes=9)) as bus:
        assert bus.settings.part_max_bytes == 9


async def test_nothing_runs_out_by_itself() -> None:
    """A lease lasts until the clock is advanced by all of it, however long the test takes."""
    backend = InMemoryBackend()
    lease = timedelta(microseconds=1)
    async with connect_in_memory(backend=backend, settings=BusSettings(ack_wait=lease)) as user:
        await opened(user, "user")
        async with user.inbox() as inbox:
            await receive(inbox, 1, ack=False)
            again = asyncio.create_task(inbox.next())
            for _ in range(50):
                await asyncio.wait({again}, timeout=0)
            assert not again.done()
            backend.advance(lease)
            assert (await soon(again)).redelivered


async def test_a_heartbeat_ends_at_its_time_exactly() -> None:
    """A key with a time to live is there until just before it, and gone at it."""
    backend = InMemoryBackend()
    settings = BusSettings(presence_ttl=timedelta(seconds=15))
    async with connect_in_memory(backend=backend, settings=settings) as user:
        await user.registry.beat(Presence(agent="web", instance="one", holder="a"))
        backend.advance(timedelta(seconds=15) - timedelta(microseconds=1))
        assert len(await user.registry.presence()) == 1
        backend.advance(timedelta(microseconds=1))
        assert await user.registry.presence() == []


def test_what_is_due_happens_in_the_order_of_its_time() -> None:
    """Advancing runs every timer that is due, those that timers start included; none twice."""
    clock = Clock()
    happened: list[str] = []
    clock.after(3 * SECOND, lambda: happened.append("third"))
    clock.after(SECOND, lambda: happened.append("first"))

    def start_another() -> None:
        clock.after(SECOND, lambda: happened.append("second"))

    clock.after(SECOND, start_another)
    clock.after(SECOND, lambda: happened.append("cancelled")).cancel()
    clock.after(5 * SECOND, lambda: happened.append("later"))
    clock.advance(4 * SECOND)
    assert happened == ["first", "second", "third"]
    clock.advance(timedelta(0))
    clock.advance(SECOND)
    assert happened == ["first", "second", "third", "later"]


def test_time_does_not_go_back() -> None:
    """Advancing by a negative time is refused; stamps never go back."""
    backend = InMemoryBackend()
    clock = Clock()
    before = clock.now()
    clock.advance(timedelta(days=1))

    assert clock.now() - before >= 86_400 * 10**9
    with pytest.raises(ValueError, match="0:00:01"):
        backend.advance(-SECOND)


async def test_a_full_storage_refuses_and_stores_nothing() -> None:
    """A failure that a test asks for reaches the caller; what comes after works."""
    backend = InMemoryBackend()
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        backend.fail_next()
        with pytest.raises(StorageFullError, match="made to fail"):
            await user.send(task, MAIN_THREAD, "lost")
        await user.send(task, MAIN_THREAD, "kept")

        assert await types_of(user, task) == ["task.opened", "message.posted"]


async def test_failures_are_counted_and_chosen() -> None:
    """A failure happens as often as asked for, and only where it was asked for."""
    backend = InMemoryBackend()
    error = AppendTimeoutError("e1", 30)
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        backend.fail_next(error, times=2, where="bus.*.*.obs.>")
        await user.send(task, MAIN_THREAD, "not an observation")
        for _ in range(2):
            with pytest.raises(AppendTimeoutError) as failure:
                await user.append(ToolCalled(call_id="c", tool="t"), task=task)
            assert failure.value is error
        await user.append(ToolCalled(call_id="c", tool="t"), task=task)

        assert await types_of(user, task) == ["task.opened", "message.posted", "tool.called"]


async def test_an_observation_that_fails_is_nobodys_error() -> None:
    """Who observes without waiting goes on when the observation cannot be stored."""
    backend = InMemoryBackend()
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        backend.fail_next()
        await user.observe(ToolCalled(call_id="c", tool="t"), task=task)
        await user.send(task, MAIN_THREAD, "going on")

        assert await types_of(user, task) == ["task.opened", "message.posted"]


async def test_a_lost_acknowledgement_is_sent_again_and_counts_once() -> None:
    """An append whose answer is lost is in the log once, and the caller is told so."""
    backend = InMemoryBackend()
    async with connect_in_memory(backend=backend) as user:
        backend.lose_next_acknowledgement(times=2)
        opening = await user.tasks.open("What?", to=["user"])
        task = opening.event.task
        message = await user.send(task, MAIN_THREAD, "once", mentions=["user"])
        control = await user.threads.open(task, "Side")

        assert [one.duplicate for one in (opening, message, control)] == [True, True, False]
        assert await types_of(user, task) == ["task.opened", "message.posted", "thread.opened"]
        assert await user.pending_mentions() == {"user": 2}
        await user.send(task, MAIN_THREAD, "the thread is known as it is")


async def test_an_id_is_remembered_for_two_minutes() -> None:
    """Beyond the window of the server a message of the same id is stored again."""
    backend = InMemoryBackend()
    event_id = new_event_id()
    async with connect_in_memory(backend=backend) as user:
        task = await opened(user)
        for wait, duplicate in (
            (timedelta(0), False),
            (timedelta(seconds=119), True),
            (timedelta(seconds=1), False),
        ):
            backend.advance(wait)
            appended = await user.send(task, MAIN_THREAD, "again", event_id=event_id)
            assert appended.duplicate is duplicate
        state = await user.tasks.state(task)

    assert state.events == 2


async def test_the_limit_of_a_message_is_as_given() -> None:
    """A backend with a small limit refuses what is larger, headers counted."""
    async with connect_in_memory(backend=InMemoryBackend(max_payload=2000)) as user:
        task = await opened(user)
        with pytest.raises(PayloadTooLargeError) as refusal:
            await user.threads.open(task, "Side", goal="x" * 1700)
        await user.threads.open(task, "Side", goal="x" * 1000)
        facts = await user.facts()

    assert refusal.value.limit == facts.max_payload == 2000
    assert 2000 < refusal.value.size < 2600


async def test_a_thread_that_never_rests_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that others outrun each time ends with an error, after a bounded number."""
    backend = InMemoryBackend()
    send = backend.log.append
    async with connect_in_memory(backend=backend) as user:
        other = user.acting_as("other")
        await user.registry.register(AgentCard(name="other"), holder="a")
        task = await opened(user, "other")

        async def outrun(subject: str, body: bytes, **rest: Any) -> asyncio.Future[Position]:
            if subject.endswith(".user"):
                await other.tasks.request_input(task, "I am faster.")
            return await send(subject, body, **rest)

        monkeypatch.setattr(backend.log, "append", outrun)
        with pytest.raises(ConflictError) as conflict:
            await user.tasks.request_input(task, "Mine?")
        monkeypatch.undo()
        await user.tasks.request_input(task, "Mine.")
        state = await user.tasks.state(task)

    assert conflict.value.attempts == 16
    assert len(state.requests) == 17


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("bus.>", "bus.a", True),
        ("bus.>", "bus.a.b.c", True),
        ("bus.>", "bus", False),
        ("bus.>", "busy.a", False),
        ("bus.*.c", "bus.b.c", True),
        ("bus.*.c", "bus.b.c.d", False),
        ("bus.*.c", "bus.c", False),
        ("bus.*", "bus.a.b", False),
        ("*.*", "a.b", True),
        (">", "a", True),
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*.>", "a.b", False),
        ("a.*.>", "a.b.c", True),
    ],
)
def test_wildcards_are_those_of_nats(pattern: str, subject: str, expected: bool) -> None:
    """A star stands for one token, a greater-than sign for one or more at the end."""
    assert matches(pattern, subject) is expected


def test_importing_the_twin_starts_nothing() -> None:
    """The twin is imported and used where no server can be started or reached."""
    script = (
        "import asyncio, socket\n"
        "from threadbus.bus.testing import connect_in_memory\n"
        "def refused(*_a, **_k): raise AssertionError('no network')\n"
        "socket.socket.connect = refused\n"
        "async def main():\n"
        "    async with connect_in_memory() as bus:\n"
        "        opened = await bus.tasks.open('What?', to=['user'])\n"
        "        print(opened.seq)\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")
