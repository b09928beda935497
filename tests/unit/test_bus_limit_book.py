"""The limits that are known while the registry does not answer."""

from __future__ import annotations

import pytest

from threadbus.bus import ReadTimeoutError
from threadbus.bus.limits import EVERYBODY
from threadbus.bus.testing import InMemoryBackend, connect_in_memory


async def test_what_was_learnt_counts_while_nothing_can_be_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also for names that nobody has asked about: those have the limits of everybody."""
    backend = InMemoryBackend()
    async with (
        connect_in_memory("operator", backend=backend) as operator,
        connect_in_memory("guard", backend=backend) as guard,
    ):
        await operator.limits.set("mallory", events_per_second=20)
        await operator.limits.set(EVERYBODY, events_per_second=30, burst=40)
        await guard.limits.learn()

        async def no_answer(key: str) -> None:
            raise ReadTimeoutError(key, "no answer in time")

        monkeypatch.setattr(backend.agents, "get", no_answer)
        rules = [await guard.limits.of(name) for name in ("mallory", "web")]

    assert [rule.events_per_second.value for rule in rules] == [20, 30]
    assert [rule.burst.value for rule in rules] == [40, 40]
    assert {rule.burst.set_by for rule in rules} == {"operator"}
