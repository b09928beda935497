"""Two events that belong together, on a log with one copy and on one with several."""

from __future__ import annotations

import pytest

from tests.support.bus_env import opened, types_of
from threadbus.bus.ports import Guard, Position
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.bus.testing.log import LogStore
from threadbus.schemas import MAIN_THREAD


@pytest.mark.parametrize("copies", [1, 3])
async def test_an_answer_and_its_close_are_chained_with_one_copy_only(
    copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that keep copies give the log up where such a condition fails: they are sent none."""
    guards: list[Guard] = []
    send = LogStore.send

    def recorded(
        store: LogStore, subject: str, body: bytes, msg_id: str, guard: Guard | None
    ) -> Position:
        if guard is not None:
            guards.append(guard)
        return send(store, subject, body, msg_id, guard)

    monkeypatch.setattr(LogStore, "send", recorded)
    backend = InMemoryBackend()
    backend.log.can_chain = copies == 1
    async with connect_in_memory("user", backend=backend) as user:
        task = await opened(user)
        await user.send(task, MAIN_THREAD, "Let me see.")
        await user.tasks.submit_answer(task, "42")

        assert [guard.behind != "" for guard in guards].count(True) == (copies == 1)
        assert (await types_of(user, task))[-2:] == ["answer.submitted", "task.closed"]
        assert (await user.tasks.state(task)).answer is not None
