"""Waiting in tests: as short as possible, and never without an end."""

import asyncio

import pytest

from tests.support.eventually import eventually


async def test_waiting_ends_when_the_condition_holds() -> None:
    """The condition is asked again until it holds."""
    answers = iter([False, False, True])

    await eventually(lambda: next(answers), "the third answer")

    assert next(answers, None) is None


async def test_a_condition_may_await() -> None:
    """A condition that asks a server is a coroutine function, here that of a queue."""
    answers: asyncio.Queue[bool] = asyncio.Queue()
    for answer in (False, True):
        answers.put_nowait(answer)

    await eventually(answers.get, "the second answer")

    assert answers.empty()


async def test_waiting_fails_at_its_deadline_and_says_for_what() -> None:
    """What never happens fails the test, also when the condition itself hangs."""
    hangs = asyncio.Event()

    with pytest.raises(AssertionError, match=r"still not after 0\.05 s: the moon is blue"):
        await eventually(lambda: False, "the moon is blue", patience_s=0.05)
    with pytest.raises(AssertionError, match="an answer"):
        await eventually(hangs.wait, "an answer", patience_s=0.05)
