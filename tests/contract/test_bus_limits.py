"""How much one sender may say: on record, kept by its client, seen in the log."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.support.bus_env import DEADLINE_S, BusEnv, events_of, opened, soon, text
from threadbus.bus import EVERYBODY, Bus, BusSettings, InvalidTransitionError, RateLimitedError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AgentThrottled,
    MessagePosted,
    SchemaError,
    TaskId,
    ThrottleAction,
)

TIGHT = BusSettings(events_per_second=200, burst=5)
STRICT = BusSettings(events_per_second=2, burst=3, append_timeout=timedelta(seconds=1))


async def throttled(bus: Bus, task: TaskId) -> list[AgentThrottled]:
    """Return what the log says of who was held back."""
    found = [event.data for event in await events_of(bus, task)]
    return [data for data in found if isinstance(data, AgentThrottled)]


async def texts_of(bus: Bus, task: TaskId) -> list[str]:
    """Return what was said, in log order."""
    events = await events_of(bus, task)
    return [text(event) for event in events if isinstance(event.data, MessagePosted)]


async def test_who_says_too_much_is_held_back(env: BusEnv) -> None:
    """Everything is stored in the order in which it was said, and the log says once why it took."""
    async with env.buses("web", "user", settings=TIGHT) as (web, user):
        task = await opened(user, "web")
        said = [f"number {number}" for number in range(40)]
        async with asyncio.TaskGroup() as posting:
            for words in said:
                posting.create_task(web.send(task, MAIN_THREAD, words))

        assert await texts_of(web, task) == said
        (note,) = await throttled(user, task)
    assert (note.agent, note.action) == ("web", ThrottleAction.HELD_BACK)
    assert (note.limit, note.allowed, note.set_by) == ("events_per_second", 200, "")
    assert note.seen > note.allowed


async def test_what_would_wait_too_long_is_refused(env: BusEnv) -> None:
    """The error names the sender, the limit, how long it would take and the way out."""
    async with env.buses("web", "user", settings=STRICT) as (web, user):
        task = await opened(user, "web")
        results = await asyncio.gather(
            *(web.send(task, MAIN_THREAD, str(number)) for number in range(12)),
            return_exceptions=True,
        )
        refused = [result for result in results if isinstance(result, RateLimitedError)]

        assert 1 <= len(refused) <= 9
        assert len(await texts_of(web, task)) == 12 - len(refused)
        assert len(await throttled(user, task)) == 1
    reason = str(refused[0])
    assert refused[0].sender == "web"
    assert "2 events per second" in reason
    assert "3 at once" in reason
    assert "bus limits set web" in reason


async def test_others_are_not_held_back_with_it(env: BusEnv) -> None:
    """Each name has a bucket of its own, also over one connection."""
    async with env.buses("web", "user", settings=STRICT) as (web, user):
        coder = web.acting_as("coder")
        await coder.registry.register(AgentCard(name="coder"), holder="test")
        task = await opened(user, "web", participants=("coder",))
        results = await asyncio.gather(
            *(web.send(task, MAIN_THREAD, "I again") for _ in range(20)), return_exceptions=True
        )
        assert any(isinstance(result, RateLimitedError) for result in results)
        await soon(coder.send(task, MAIN_THREAD, "I am well"))

        assert (await texts_of(web, task))[-1] == "I am well"


async def test_limits_are_on_record_and_reach_who_is_connected(env: BusEnv) -> None:
    """Who set them, when and why, and what was before; the sender's client keeps to the last."""
    async with env.buses("web", "user") as (web, user):
        task = await opened(user, "web")
        await web.send(task, MAIN_THREAD, "Before.")
        await user.limits.set(EVERYBODY, exchange=7)
        await user.limits.set("web", events_per_second=500, burst=500)
        await user.limits.set("web", events_per_second=100, burst=4, reason="It ran away.")
        async with asyncio.timeout(DEADLINE_S):
            while not (notes := await throttled(user, task)):
                for number in range(50):
                    await web.send(task, MAIN_THREAD, str(number))

        (note,) = notes
        assert (note.allowed, note.set_by, note.reason) == (100, "user", "It ran away.")
        records = await web.limits.on_record()
        applied = await user.limits.of("web")
        assert sorted(records) == [EVERYBODY, "web"]
        assert note.set_at == records["web"].limits.set_at
        assert [one.events_per_second for one in records["web"].replaced] == [500]
        assert (applied.burst.value, applied.exchange.value) == (4, 7)
        assert applied.exchange.set_by == "user"
        assert applied.mentions_per_minute.set_by == ""
        assert [record.card.name for record in await web.registry.list()] == ["user", "web"]

        await user.limits.clear("web", reason="It is well again.")
        record = (await user.limits.on_record())["web"]
        assert (await user.limits.of("web")).events_per_second.value == 200
        assert [one.burst for one in record.replaced] == [4, 500]
        assert record.limits.reason == "It is well again."


@pytest.mark.parametrize("value", [0, -1, 2**63])
async def test_a_limit_that_is_none_is_refused(env: BusEnv, value: int) -> None:
    """A limit on record is 1 or more; one without any number is no limit."""
    async with env.buses("user") as (user,):
        with pytest.raises(SchemaError, match="exchange"):
            await user.limits.set("web", exchange=value)
        with pytest.raises(InvalidTransitionError, match="burst"):
            await user.limits.set("web")
        with pytest.raises(SchemaError, match="web"):
            await user.limits.set("web.", burst=1)

        assert await user.limits.on_record() == {}
