"""Live messages: seen by whoever watches, never stored."""

import asyncio
from typing import Any

import pytest

from tests.support.bus_env import BusEnv, opened, soon, types_of
from threadbus.bus import PayloadTooLargeError
from threadbus.schemas import MAIN_THREAD, SchemaError, ThreadId, new_task_id


class Seen:
    """What a watcher saw."""

    def __init__(self, enough: int) -> None:
        self.items: list[tuple[str, Any]] = []
        self._enough = enough
        self._done = asyncio.Event()

    def __call__(self, sender: str, value: Any) -> None:
        """Take one live message."""
        self.items.append((sender, value))
        if len(self.items) >= self._enough:
            self._done.set()

    async def wait(self) -> list[tuple[str, Any]]:
        """Wait until enough was seen."""
        await soon(self._done.wait())
        return self.items


async def test_watchers_see_what_is_published(env: BusEnv) -> None:
    """Every watcher of a task gets each live message with its sender, in order."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task, other = await opened(user, "web"), await opened(user, "web")
        first, second = Seen(4), Seen(4)
        async with user.watching_live(task, first), coder.watching_live(task, second):
            await web.publish_live(other, MAIN_THREAD, "not for this task")
            for value in ("a", {"delta": "ö"}, [1, None, 2.5]):
                await web.publish_live(task, MAIN_THREAD, value)
            await web.publish_live(task, ThreadId("side"), 4)
            seen = [await first.wait(), await second.wait()]

    expected = [("web", "a"), ("web", {"delta": "ö"}), ("web", [1, None, 2.5]), ("web", 4)]
    assert seen == [expected, expected]


async def test_nothing_live_is_stored(env: BusEnv) -> None:
    """Live messages leave no trace in the log, and need neither task nor participant."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        await web.publish_live(task, MAIN_THREAD, "tick")
        await web.publish_live(new_task_id(), MAIN_THREAD, "tick")

        assert await types_of(user, task) == ["task.opened"]


async def test_a_watcher_that_has_left_sees_nothing(env: BusEnv) -> None:
    """After its context a watcher is not called any more."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        gone, staying = Seen(1), Seen(2)
        async with user.watching_live(task, staying):
            async with user.watching_live(task, gone):
                await web.publish_live(task, MAIN_THREAD, 1)
                await gone.wait()
            await web.publish_live(task, MAIN_THREAD, 2)
            await staying.wait()

    assert gone.items == [("web", 1)]


async def test_a_watcher_that_raises_disturbs_nobody(env: BusEnv) -> None:
    """An error in one watcher keeps neither the others nor the sender from going on."""

    def broken(_sender: str, _value: Any) -> None:
        raise RuntimeError("a watcher's own mistake")

    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        seen = Seen(2)
        async with user.watching_live(task, broken), user.watching_live(task, seen):
            for value in (1, 2):
                await web.publish_live(task, MAIN_THREAD, value)
            items = await seen.wait()

    assert items == [("web", 1), ("web", 2)]


async def test_foreign_bytes_on_live_subjects_are_passed_over(
    env: BusEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no JSON, or on no subject of ours, reaches no watcher and is no error."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user)
        seen = Seen(1)
        async with user.watching_live(task, seen):
            await backend.live.publish(f"live.{task}.main.web", b"\xff")
            await backend.live.publish(f"live.{task}.main.Not-A-Name", b"1")
            await backend.live.publish(f"live.{task}.web", b"1")
            # Over the same connection, so that it comes after the others.
            await backend.live.publish(f"live.{task}.main.web", b'"end"')
            items = await seen.wait()
        await web.publish_live(task, MAIN_THREAD, "nobody watches")

    assert items == [("web", "end")]
    assert "failed" not in capsys.readouterr().out


async def test_live_messages_have_the_limit_of_the_server(env: BusEnv) -> None:
    """A live message over the server's limit is refused; one below it arrives."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        seen = Seen(1)
        limit = (await user.facts()).max_payload
        async with user.watching_live(task, seen):
            with pytest.raises(PayloadTooLargeError) as refusal:
                await web.publish_live(task, MAIN_THREAD, "x" * limit)
            with pytest.raises(SchemaError):
                await web.publish_live(task, MAIN_THREAD, object())
            with pytest.raises(SchemaError):
                await web.publish_live(task, MAIN_THREAD, "\ud800")
            await web.publish_live(task, MAIN_THREAD, "x" * (limit - 100))
            await seen.wait()

    assert (refusal.value.size, refusal.value.limit) == (limit + 2, limit)
