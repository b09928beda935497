"""`bus doctor` and the metrics on three servers: a copy that is away, and no majority."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tests.support.eventually import eventually
from tests.support.nats_cluster import cluster
from threadbus.agents.cli.results import Check, Diagnosis
from threadbus.agents.cli.tree import app
from threadbus.agents.monitoring import take_sample
from threadbus.bus import BusSettings, connect


async def doctor(url: str) -> tuple[int, list[Check]]:
    """Run `bus doctor` in this process."""
    arguments = ("doctor", "--json", "--url", url, "--connect-timeout", "10")
    runner = CliRunner(env={"XDG_STATE_HOME": "/nowhere"})
    ran = await asyncio.to_thread(runner.invoke, app, arguments)
    return ran.exit_code, msgspec.json.decode(ran.stdout, type=Diagnosis).checks


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_a_server_that_is_away_is_named_and_no_majority_is_wrong(tmp_path: Path) -> None:
    """All copies current; then one of three away; then two, and nothing is led any more."""
    async with cluster(tmp_path) as servers:
        url = ",".join(server.url for server in servers)
        settings = BusSettings(url=url, replicas=3)
        async with connect(settings) as bus:
            await bus.tasks.open("x", to=[])

            async def current() -> bool:
                gauges = (await take_sample(bus, str)).gauges["stream_copies_current"]
                return set(gauges.values()) == {3.0}

            await eventually(current, "every copy is current")
        well = await doctor(url)
        await servers[2].kill()

        async def is_noticed() -> bool:
            _, checks = await doctor(url)
            return any(servers[2].name in check.found for check in checks if _is_copy(check))

        await eventually(is_noticed, "the one that is away is named", 120)
        one_away = await doctor(url)
        await servers[1].kill()
        none_left = await doctor(url)

    assert "copies" in {check.name for check in well[1] if check.verdict == "ok"}
    assert well[0] == 0, well
    assert one_away[0] == 1
    away = [check for check in one_away[1] if _is_copy(check)]
    assert all("start" in check.advice or "disk" in check.advice for check in away)
    assert none_left[0] == 1
    (unled,) = [check for check in none_left[1] if check.verdict == "wrong"]
    assert "JetStream" in unled.found
    assert "more than half" in unled.advice


def _is_copy(check: Check) -> bool:
    return check.name.startswith("copies of") and check.verdict == "wrong"
