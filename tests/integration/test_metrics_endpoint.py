"""`bus metrics` in a process of its own: scrapes over restarts, kills and a server away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tests.support.access import secured
from tests.support.cli import Cli, echo, environment, line_with, living, process
from tests.support.eventually import eventually
from threadbus.agents.cli.results_operating import MetricsServed
from threadbus.bus import access, connect
from threadbus.bus.server import EmbeddedServer

EVENTS = "threadbus_events_total"


class Endpoint:
    """A running endpoint."""

    def __init__(self, url: str, running: Process) -> None:
        self.url = url
        self.running = running

    async def text(self) -> str:
        """Scrape it."""
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            response = await client.get(self.url)
        assert response.status_code == 200
        return response.text

    async def samples(self) -> dict[str, float]:
        """Scrape it, and return each value by name and labels."""
        return {
            sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): (
                sample.value
            )
            for family in text_string_to_metric_families(await self.text())
            for sample in family.samples
        }

    async def has(self, name: str, value: float) -> None:
        """Wait until a sample has a value."""

        async def holds() -> bool:
            return (await self.samples()).get(name) == value

        await eventually(holds, f"{name} {value}")

    async def total(self) -> float:
        """Return how many events were counted, of all types."""
        return sum(v for name, v in (await self.samples()).items() if name.startswith(EVENTS))


@asynccontextmanager
async def endpoint(cli: Cli, *more: str) -> AsyncGenerator[Endpoint]:
    """Run `bus metrics` until the context ends; then it is told to stop."""
    arguments = ("metrics", "--json", "--http", "127.0.0.1:0", "--every", "0.2", *more)
    async with process(*arguments, env=cli.env) as running:
        line = await line_with(running, "url")
        yield Endpoint(msgspec.json.decode(line, type=MetricsServed).url, running)
        if running.returncode is None:
            running.terminate()
            async with asyncio.timeout(60):
                await running.wait()


async def ask(cli: Cli, count: int = 1) -> None:
    """Have questions answered by the parrot."""
    async with connect(cli.url) as bus:
        for _ in range(count):
            await bus.ask("hello", to=["parrot"])


async def test_what_agents_do_is_scraped(cli: Cli) -> None:
    """The work of a living agent is counted, and seen while it goes on; then it is gone."""
    async with endpoint(cli) as metrics:
        async with living(cli.url, echo("parrot")):
            await ask(cli, 2)
            await metrics.has("threadbus_tasks_ended_total completed", 2)
            await metrics.has("threadbus_agent_living parrot", 1)
            seen = await metrics.samples()
        await metrics.has("threadbus_agents gone", 1)
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            health = await client.get(metrics.url.replace("/metrics", "/healthz"))
            nowhere = await client.get(f"{metrics.url}/x")

    assert seen["threadbus_turns_total parrot ended"] == 2
    assert seen["threadbus_turn_seconds_count parrot"] == 2
    assert seen["threadbus_mentions_total parrot"] == 2
    assert seen["threadbus_dead_letters_total parrot"] == 0
    assert seen["threadbus_tasks_open"] == 0
    assert seen["threadbus_up"] == 1
    assert seen["threadbus_stream_leader BUS"] == 1
    assert seen["threadbus_source_lag BUS MENTIONS"] >= 0
    assert (health.status_code, nowhere.status_code) == (200, 404)


async def test_a_restart_counts_nothing_twice_and_leaves_nothing_out(
    cli: Cli, tmp_path: Path
) -> None:
    """With a file, after a kill, and without one: the log is the log."""
    state = ("--state", str(tmp_path / "counts.json"))
    async with living(cli.url, echo("parrot")):
        await ask(cli)
        async with endpoint(cli, *state) as first:
            await first.has("threadbus_catching_up", 0)
            await ask(cli)
            first.running.kill()
            await first.running.wait()
        await ask(cli)
    async with connect(cli.url) as bus:
        stored = await bus.operations.last_seq()
    totals: list[float] = []
    for more in (state, ()):
        async with endpoint(cli, *more) as again:
            await again.has("threadbus_counted_sequence", stored)
            totals.append(await again.total())
    async with endpoint(cli, "--from-now") as fresh:
        await fresh.has("threadbus_catching_up", 0)
        totals.append(await fresh.total())

    assert totals == [stored, stored, 0]


async def test_a_scrape_is_answered_while_the_server_is_away(tmp_path: Path) -> None:
    """It says so; once the server is back, what was said meanwhile is counted."""
    data = tmp_path / "data"
    async with EmbeddedServer(data) as server:
        port = int(server.url.rpartition(":")[2])
        cli = Cli(server.url, tmp_path / "state")
        async with living(cli.url, echo("parrot")):
            await ask(cli)
        running = contextlib.AsyncExitStack()
        metrics = await running.enter_async_context(endpoint(cli))
        async with running:
            await metrics.has("threadbus_up", 1)
            before = await metrics.total()
            await server.aclose()
            await metrics.has("threadbus_up", 0)
            away = await metrics.total()
            async with EmbeddedServer(data, port=port):
                async with connect(cli.url) as bus:
                    await bus.tasks.open("x", to=[])
                await metrics.has("threadbus_up", 1)
                await metrics.has("threadbus_tasks_opened_total", 2)

    assert before == away > 0


async def test_a_server_that_is_frozen_holds_up_no_scrape(tmp_path: Path) -> None:
    """What was last seen is given; nothing waits for an answer that does not come."""
    async with EmbeddedServer(tmp_path / "data") as server:
        async with connect(server.url):
            pass
        cli = Cli(server.url, tmp_path / "state")
        async with endpoint(cli) as metrics:
            await metrics.has("threadbus_up", 1)
            assert server.pid is not None
            os.kill(server.pid, signal.SIGSTOP)
            try:
                async with asyncio.timeout(30):
                    for _ in range(20):
                        await metrics.text()
            finally:
                os.kill(server.pid, signal.SIGCONT)
            metrics.running.terminate()
            assert await metrics.running.wait() == 0


async def test_an_observer_s_key_is_enough(tmp_path: Path) -> None:
    """What it may not see is named; with `--can waiting` there is nothing left."""
    async with secured(tmp_path, "web") as team:
        await team.task("web")
        observer = access.Role.OBSERVER
        await team.add("watch", role=observer)
        await team.add("wide", role=observer, can=[access.Extra.WAITING])
        seen: dict[str, dict[str, float]] = {}
        for name in ("watch", "wide"):
            cli = Cli(team.server.url, tmp_path / name)
            key = str(team.folder.key_path(name))
            cli.env = environment(
                tmp_path / name, {"BUS_URL": team.server.url, "BUS_NKEY": key, "BUS_AS": name}
            )
            async with endpoint(cli) as metrics:
                await metrics.has("threadbus_mentions_waiting web", 1)
                seen[name] = await metrics.samples()

    hidden = {n for n in seen["watch"] if n.startswith("threadbus_unseen")}
    assert len(hidden) == 2
    assert "threadbus_mention_oldest_seconds web" not in seen["watch"]
    assert not {n for n in seen["wide"] if n.startswith("threadbus_unseen")}
    assert seen["wide"]["threadbus_mention_oldest_seconds web"] >= 0
    assert seen["watch"]["threadbus_events_total ctl task.opened"] == 1


async def test_a_log_that_is_not_there_yet_is_waited_for(cli: Cli, tmp_path: Path) -> None:
    """The endpoint may start before the first agent; `--once` says what is missing instead."""
    async with EmbeddedServer(tmp_path / "data") as server:
        early = Cli(server.url, tmp_path / "early")
        once = await early("metrics", "--once")
        async with endpoint(early) as metrics:
            await metrics.has("threadbus_catching_up", 1)
            async with connect(server.url) as bus:
                await bus.tasks.open("x", to=[])
            await metrics.has("threadbus_tasks_open", 1)

    assert once.code == 1
    assert "BUS" in once.err


async def test_bad_arguments_are_refused(cli: Cli, tmp_path: Path) -> None:
    """Each with the value, and what would do."""
    torn = tmp_path / "torn"
    torn.write_text("{")
    for arguments, words in (
        (("--http", "nonsense"), ("nonsense", "HOST:PORT")),
        (("--state", str(torn)), (str(torn), "--state")),
    ):
        ran = await cli("metrics", *arguments)
        assert ran.code == 2, ran
        assert "Traceback" not in ran.err
        for word in words:
            assert word in ran.err
