"""What two do in the same moment: under one id, to one end, or around a close or a leaving."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.bus_env import DEADLINE_S, BusEnv, opened, receive, soon, text, types_of
from threadbus.bus import Bus, BusError, ThreadClosedError
from threadbus.schemas import MAIN_THREAD, AgentName, Recorded, TaskId, TaskStatus, new_event_id

ENDS = {
    "answer": TaskStatus.COMPLETED,
    "fail": TaskStatus.FAILED,
    "complete": TaskStatus.COMPLETED,
    "cancel": TaskStatus.CANCELLED,
}


@pytest.mark.parametrize("is_shared", [True, False], ids=["one-task", "two-tasks-one-id"])
async def test_two_that_ask_at_once_each_get_their_own_answer(
    env: BusEnv, *, is_shared: bool
) -> None:
    """Also where two senders chose one id, in tasks of their own: neither takes the other's."""
    chosen = None if is_shared else new_event_id()
    async with env.buses("ada", "bob", "web") as (ada, bob, web):
        first = await opened(ada, participants=["bob", "web"])
        second = first if is_shared else await opened(bob, participants=["web"])

        async def answer() -> None:
            async with web.inbox() as inbox:
                for delivery in await receive(inbox, 2, ack=False):
                    asked = delivery.event
                    await web.send(
                        asked.task,
                        MAIN_THREAD,
                        f"{asked.sender} asked {text(asked)}",
                        cause=asked.id,
                    )
                    await delivery.ack()

        answering = asyncio.create_task(answer())
        replies = await soon(
            asyncio.gather(
                ada.request(first, MAIN_THREAD, "one?", to="web", event_id=chosen),
                bob.request(second, MAIN_THREAD, "two?", to="web", event_id=chosen),
            )
        )
        await soon(answering)

    assert [text(reply) for reply in replies] == ["ada asked one?", "bob asked two?"]


@pytest.mark.parametrize("first", ENDS)
async def test_of_ends_of_every_kind_at_once_exactly_one_stands(env: BusEnv, first: str) -> None:
    """An answer, a failure, a close and a cancellation race: the others are told how it ended."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, participants=["web", "coder"])
        ends: dict[str, Coroutine[Any, Any, object]] = {
            "answer": web.tasks.submit_answer(task, "42"),
            "fail": coder.tasks.close(task, TaskStatus.FAILED, summary="broken"),
            "complete": web.tasks.close(task, TaskStatus.COMPLETED, summary="done"),
            "cancel": user.tasks.cancel(task, "never mind"),
        }
        order = [first, *(name for name in ENDS if name != first)]
        outcomes = await soon(
            asyncio.gather(*(ends[name] for name in order), return_exceptions=True)
        )
        state = await user.tasks.state(task)
        types = await types_of(coder, task)

    lost = [one for one in outcomes if isinstance(one, BaseException)]
    (won,) = [name for name, one in zip(order, outcomes, strict=True) if one not in lost]
    assert state.status is ENDS[won]
    assert [type(one) for one in lost] == [ThreadClosedError] * 3
    assert {one.outcome for one in lost if isinstance(one, ThreadClosedError)} == {state.status}
    assert types.count("task.closed") == 1
    assert types.count("answer.submitted") == (won == "answer")


@pytest.mark.parametrize("closes", ["thread", "task"])
async def test_a_mention_from_just_before_a_close_is_delivered(env: BusEnv, closes: str) -> None:
    """What was said before the end reaches whom it was said to, also when it comes later."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, participants=["web"])
        side = (await user.threads.open(task, "Side", participants=["web"])).event.thread
        sent = await user.send(task, side, "The last word.", mentions=["web"])
        if closes == "thread":
            await user.threads.close(task, side, summary="done")
        else:
            await user.tasks.close(task, TaskStatus.COMPLETED)
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

    assert delivery.event == sent.event


async def test_leaving_a_bus_ends_whatever_waits_on_it(env: BusEnv) -> None:
    """Waits, follows and an inbox that are in the middle end by an error; nothing hangs."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, participants=["web"])
        async with env.connect("web") as leaving:
            waits = [
                asyncio.create_task(wait, name=name) for name, wait in _waits(leaving, task).items()
            ]
            # Each of them has begun once what the last one says is in the log.
            async for entry in user.follow(task):
                if isinstance(entry, Recorded) and entry.event.sender == "web":
                    break
        done, pending = await asyncio.wait(waits, timeout=DEADLINE_S)
        for hanging in pending:
            hanging.cancel()

    assert [wait.get_name() for wait in pending] == []
    ends = {wait.get_name(): wait.exception() for wait in done}
    assert {name for name, error in ends.items() if not isinstance(error, BusError)} == set()


def _waits(bus: Bus, task: TaskId) -> dict[str, Coroutine[Any, Any, object]]:
    async def inbox() -> object:
        async with bus.inbox() as attached:
            return await attached.next()

    async def follow() -> object:
        return [entry async for entry in bus.follow(task)]

    async def whole_log() -> object:
        async with bus.consuming("tests") as consumer:
            return [entry async for entry in consumer]

    return {
        "inbox": inbox(),
        "follow": follow(),
        "whole log": whole_log(),
        "answer": bus.waits.for_answer(task),
        "close": bus.waits.for_close(task),
        "reply": bus.waits.for_reply(task, MAIN_THREAD, new_event_id(), AgentName("user")),
        "input": bus.waits.for_input(task, new_event_id()),
        "request": bus.request(task, MAIN_THREAD, "And?", to="user"),
    }
