"""How async tests run: on asyncio, in the very task that sets up and tears down their fixtures."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def owner() -> AsyncIterator[asyncio.Task[object] | None]:
    """A fixture that holds a task group open, as a connection to the bus does."""
    released = asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(released.wait())
        yield asyncio.current_task()
        released.set()


async def test_a_fixture_and_its_test_share_a_task(owner: asyncio.Task[object] | None) -> None:
    """Otherwise a task group or a timeout that a fixture entered could not be left again."""
    assert owner is not None
    assert owner is asyncio.current_task()
