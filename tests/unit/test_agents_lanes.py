"""Lanes: in order within one, side by side up to the limit, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from threadbus.agents.lanes import Ended, Lanes


@asynccontextmanager
async def lanes_of(
    limit: int, work: Callable[[str], Awaitable[None]]
) -> AsyncGenerator[Lanes[str]]:
    """Give lanes whose items are done at the end."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        yield Lanes[str](tasks, limit, work, "test")


async def test_a_lane_keeps_order_and_lanes_share_the_limit() -> None:
    """Each lane's items run in order, and never more than the limit at once."""
    order: dict[str, list[str]] = {}
    at_once = most = 0

    async def work(item: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        order.setdefault(item[0], []).append(item[1:])
        at_once -= 1

    async with lanes_of(3, work) as lanes:
        for number in range(20):
            for lane in "abcde":
                await lanes.put((lane, "main"), f"{lane}{number}")
        assert lanes.depth == 100

    assert order == {lane: [str(number) for number in range(20)] for lane in "abcde"}
    assert most == 3


async def test_lanes_of_many_threads_leave_nothing_behind() -> None:
    """After ten thousand threads with one item each no lane, task or count is kept."""
    done = 0

    async def work(_item: str) -> None:
        nonlocal done
        done += 1
        await asyncio.sleep(0)

    async with lanes_of(4, work) as lanes:
        for number in range(10_000):
            await lanes.put((str(number), "main"), str(number))
    kept = cast("dict[str, object]", vars(lanes))

    assert done == 10_000
    assert (lanes.depth, lanes.running) == (0, [])
    assert [kept[name] for name in ("_waiting", "_running", "_resting")] == [{}, {}, set()]


async def test_put_says_whether_an_item_starts_at_once() -> None:
    """Also for several that are put before any of them has begun."""
    release = asyncio.Event()

    async def work(_item: str) -> None:
        await release.wait()

    async with lanes_of(2, work) as lanes:
        starts = [await lanes.put((lane, "main"), lane) for lane in "abca"]
        assert starts == [True, True, False, False]
        release.set()


async def test_a_resting_item_lets_others_work_and_keeps_its_lane() -> None:
    """Another lane has its place meanwhile; the next item of its own lane waits behind it."""
    order: list[str] = []

    async def work(item: str) -> None:
        order.append(f"{item} begins")
        if item == "a1":
            while "b1 ends" not in order:
                assert await lanes.rest(0.001)
        order.append(f"{item} ends")

    async with lanes_of(1, work) as lanes:
        for item in ("a1", "a2", "b1"):
            await lanes.put((item[0], "main"), item)

    assert order == ["a1 begins", "b1 begins", "b1 ends", "a1 ends", "a2 begins", "a2 ends"]


async def test_a_stop_ends_rests_and_starts_nothing() -> None:
    """What rests is told to end; what waits is given back; what runs ends by itself."""
    resting, release = asyncio.Event(), asyncio.Event()
    told: list[bool] = []

    async def work(item: str) -> None:
        if item == "rests":
            resting.set()
            told.append(await lanes.rest(3600))
        else:
            await release.wait()
            told.append(True)

    async with lanes_of(1, work) as lanes:
        await lanes.put(("a", "main"), "rests")
        await lanes.put(("a", "main"), "behind it")
        await lanes.put(("b", "main"), "works")
        await lanes.put(("b", "main"), "behind that")
        await resting.wait()
        await asyncio.sleep(0)
        left = lanes.stop()
        release.set()

    assert sorted(left) == ["behind it", "behind that"]
    assert sorted(told) == [False, True]


async def test_a_cancelled_rest_gives_no_place_back_twice() -> None:
    """The limit still holds after an item was cancelled while it rested."""
    resting = asyncio.Event()
    at_once = most = 0

    async def work(item: str) -> None:
        nonlocal at_once, most
        if item == "rests":
            resting.set()
            await lanes.rest(3600)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    async with lanes_of(1, work) as lanes:
        await lanes.put(("a", "main"), "rests")
        await resting.wait()
        for task in lanes.tasks():
            task.cancel()
            await asyncio.wait({task})
        for number in range(5):
            await lanes.put((str(number), "main"), "works")

    assert most == 1


async def test_what_waits_can_be_withdrawn_in_order() -> None:
    """The lane goes on with what comes after."""
    release = asyncio.Event()
    done: list[str] = []

    async def work(item: str) -> None:
        await release.wait()
        done.append(item)

    async with lanes_of(1, work) as lanes:
        for item in ("a1", "a2", "a3"):
            await lanes.put(("a", "main"), item)
        await asyncio.sleep(0)
        assert lanes.withdraw(("a", "main")) == ["a2", "a3"]
        assert lanes.withdraw(("unknown", "main")) == []
        await lanes.put(("a", "main"), "a4")
        release.set()

    assert done == ["a1", "a4"]


@asynccontextmanager
async def beginning_lanes(
    work: Callable[[str], Awaitable[None]], begin: Callable[[str, Ended], bool], limit: int = 1
) -> AsyncGenerator[Lanes[str]]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        yield Lanes[str](tasks, limit, work, "test", begin=begin)


async def test_what_is_begun_and_ends_well_needs_no_driver() -> None:
    """Its place is free at its end, and what waits behind it in the lane is driven then."""
    driven: list[str] = []
    ends: dict[str, Ended] = {}

    async def work(item: str) -> None:
        await asyncio.sleep(0)
        driven.append(item)

    def begin(item: str, ended: Ended) -> bool:
        ends[item] = ended
        return True

    async with beginning_lanes(work, begin) as lanes:
        assert await lanes.put(("a", "main"), "a1")
        assert not await lanes.put(("a", "main"), "a2")
        assert not await lanes.put(("b", "main"), "b1")
        assert lanes.running == ["a1"]
        ends["a1"](True)

    assert sorted(driven) == ["a2", "b1"]
    assert (list(ends), lanes.running, lanes.depth) == (["a1"], [], 0)


async def test_what_is_begun_and_ends_at_once_leaves_nothing() -> None:
    """Also where it has ended before it is known to have begun."""

    async def work(item: str) -> None:
        raise AssertionError(item)

    def begin(_item: str, ended: Ended) -> bool:
        ended(True)
        return True

    async with beginning_lanes(work, begin) as lanes:
        for number in range(3):
            assert await lanes.put(("a", "main"), str(number))
    kept = cast("dict[str, object]", vars(lanes))

    assert [kept[name] for name in ("_waiting", "_running", "_begun")] == [{}, {}, {}]


@pytest.mark.parametrize("ends", [True, False], ids=["ends badly", "takes long"])
async def test_what_was_begun_is_handed_to_a_driver(*, ends: bool) -> None:
    """It keeps its place and its lane meanwhile: nothing else begins before the driver is done."""
    order: list[str] = []

    async def work(item: str) -> None:
        order.append(f"{item} driven")
        await asyncio.sleep(0)
        order.append(f"{item} done")

    def begin(item: str, ended: Ended) -> bool:
        if item != "a1":
            return False
        order.append(f"{item} begun")
        if ends:
            asyncio.get_running_loop().call_soon(ended, False)
        return True

    async with beginning_lanes(work, begin) as lanes:
        await lanes.put(("a", "main"), "a1")
        await lanes.put(("a", "main"), "a2")
        await lanes.put(("b", "main"), "b1")

    assert order[:3] == ["a1 begun", "a1 driven", "a1 done"]
    assert sorted(order[3:]) == ["a2 done", "a2 driven", "b1 done", "b1 driven"]


async def test_a_stop_gives_everything_that_was_begun_a_driver() -> None:
    """So that there is a task to wait for, and to cancel."""
    begun: list[str] = []
    release = asyncio.Event()

    async def work(_item: str) -> None:
        await release.wait()

    def begin(item: str, _ended: Ended) -> bool:
        begun.append(item)
        return True

    async with beginning_lanes(work, begin, limit=2) as lanes:
        await lanes.put(("a", "main"), "a1")
        await lanes.put(("b", "main"), "b1")
        assert lanes.tasks() == set()
        assert lanes.stop() == []
        assert (len(lanes.tasks()), sorted(lanes.running)) == (2, ["a1", "b1"])
        release.set()


async def test_what_was_begun_can_be_given_up() -> None:
    """Then no driver comes, and its owner has to see to it."""

    async def work(item: str) -> None:
        raise AssertionError(item)

    async with beginning_lanes(work, lambda _item, _ended: True) as lanes:
        await lanes.put(("a", "main"), "a1")
        assert lanes.give_up() == ["a1"]
        assert lanes.running == []


async def test_what_ends_while_the_group_is_cancelled_is_left_to_its_owner() -> None:
    """No driver can come any more, and nothing is raised in whatever ends."""
    ends: dict[str, Ended] = {}
    left: list[str] = []

    async def work(item: str) -> None:
        raise AssertionError(item)

    def begin(item: str, ended: Ended) -> bool:
        ends[item] = ended
        return True

    async def fails(lanes: Lanes[str]) -> None:
        for item in ("a1", "a2", "b1"):
            await lanes.put((item[0], "main"), item)
        raise LookupError

    async def stays(lanes: Lanes[str]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends["a1"](True)
            ends["b1"](False)
            left.extend(lanes.give_up())

    async def run() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            lanes = Lanes[str](tasks, 2, work, "test", begin=begin)
            tasks.create_task(stays(lanes))
            tasks.create_task(fails(lanes))

    with pytest.raises(ExceptionGroup):
        await run()

    assert left == ["b1"]
