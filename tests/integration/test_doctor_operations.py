"""`bus doctor`, `bus status` and `bus forget` as an operator uses them, and under lesser keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from tests.support.access import Secured, secured
from tests.support.bus_env import opened
from tests.support.certificates import Authority
from tests.support.cli import Cli, Ran, echo, living
from tests.support.eventually import eventually
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.agents.cli.results import Check, Diagnosis, Status
from threadbus.agents.cli.results_operating import Forgot
from threadbus.agents.cli.tree import app
from threadbus.bus import Bus, BusSettings, access, connect
from threadbus.bus.server import EmbeddedServer, ServerSettings
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    ErrorInfo,
    MentionDeadLettered,
    Recorded,
    encode_event,
    make_event,
)


def checks_of(ran: Ran) -> dict[str, Check]:
    """Return the checks of a run by name."""
    return {check.name: check for check in ran.json(Diagnosis).checks}


async def waits(bus: Bus, name: str, count: int = 1) -> None:
    """Return once so many mentions wait for *name*."""

    async def found() -> bool:
        return (await bus.pending_mentions()).get(name, 0) == count

    await eventually(found, f"{count} mentions of {name}")


async def bus_(*arguments: str) -> Ran:
    """Run the command in a thread of this process: its start would take most of the time."""
    runner = CliRunner(env={"XDG_STATE_HOME": "/nowhere"})
    ran = await asyncio.to_thread(runner.invoke, app, arguments)
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def as_identity(team: Secured, name: str) -> tuple[str, ...]:
    """Return the arguments that say who one is."""
    key = team.folder.key_path(name)
    return ("--url", team.server.url, "--nkey", str(key), "--as", name)


async def test_a_healthy_server_has_nothing_wrong(tmp_path: Path) -> None:
    """With the monitoring page everything is seen; the exit code is 0."""
    settings = ServerSettings(monitor_port=0, sync_interval="always")
    async with EmbeddedServer(tmp_path / "data", settings=settings) as server:
        cli = Cli(server.url, tmp_path / "state")
        async with living(cli.url, echo("parrot")):
            async with connect(cli.url) as bus:
                await bus.ask("hello", to=["parrot"])
            page = server.monitor_url or ""
            ran = await cli("doctor", "--json", "--monitor", page)
            nowhere = await bus_(
                "doctor", "--json", "--url", cli.url, "--monitor", "http://127.0.0.1:1"
            )
        checks = checks_of(ran)

    assert ran.code == 0, ran.out
    assert {name for name, one in checks.items() if one.verdict == "wrong"} == set()
    assert checks["safety"].verdict == "ok"
    assert str(tmp_path) in checks["disk"].found
    assert checks["slow connections"].verdict == "ok"
    assert "10,000 that are allowed" in checks["inboxes"].found
    assert checks["dead letters"].verdict == "ok"
    assert "2 senders" in checks["clocks of senders"].found
    assert nowhere.code == 0
    assert checks_of(nowhere)["monitoring page"].verdict == "note"


async def test_what_an_operator_must_know_is_wrong(tmp_path: Path) -> None:
    """A dead letter, a clock that is off, a full store, and an altered stream, in one look."""
    limits = ServerSettings(max_file_store_bytes=1_000_000_000)
    async with EmbeddedServer(tmp_path / "data", settings=limits) as server:
        url = ("--url", server.url)
        async with living(server.url, failing("crow")), connect(server.url) as bus:
            task = await opened(bus, "crow")
            async with bus.operations.following() as entries:
                async for entry in entries:
                    if isinstance(entry, Recorded) and isinstance(
                        entry.event.data, MentionDeadLettered
                    ):
                        break
            await say_late(bus, server.url, task)
            ran = await bus_("doctor", "--json", *url)
            text = await bus_("doctor", *url)
        checks = checks_of(ran)

    assert (ran.code, text.code) == (1, 1)
    assert checks["dead letters"].verdict == "wrong"
    assert "crow" in checks["dead letters"].found
    assert f"busreplay {task}" in checks["dead letters"].advice
    assert checks["clocks of senders"].verdict == "wrong"
    assert "owl" in checks["clocks of senders"].found
    assert "limit: 5.0 s" in text.out
    assert "problems found" in text.out


def failing(name: str) -> Agent:
    """Make an agent that gives up at its first failure."""
    made = Agent(name, description="Fails.", limits=AgentLimits(max_attempts=1))

    @made.on_mention
    async def handle(mention: Mention) -> str:
        raise RuntimeError("made to fail")

    return made


async def say_late(bus: Bus, url: str, task: str) -> None:
    """Write an event of the owl, whose clock is a day ahead."""
    from tests.support.raw_nats import raw_client
    from threadbus.schemas import AgentName, MessagePosted, TaskId, TextPart

    event = make_event(
        MessagePosted(parts=(TextPart("x"),)),
        task=TaskId(task),
        thread=MAIN_THREAD,
        sender=AgentName("owl"),
    )
    event = msgspec.structs.replace(event, at=event.at + 86_400 * 1_000_000_000)
    async with raw_client(url) as raw:
        await raw.store(event.subject.encode(), encode_event(event))


async def test_keys_that_may_see_less_are_told_what_they_do_not_see(tmp_path: Path) -> None:
    """An agent and an observer get every other check; an operator gets all; nobody fails."""
    async with secured(tmp_path, "web") as team:
        await team.task("web")
        await team.add("watch", role=access.Role.OBSERVER)
        await team.add("wide", role=access.Role.OBSERVER, can=[access.Extra.WAITING])
        ran = {
            name: await bus_("doctor", "--json", *as_identity(team, name))
            for name in ("web", "watch", "wide", "operator")
        }
        status = await bus_("status", "--json", *as_identity(team, "watch"))

    for name, one in ran.items():
        checks = one.json(Diagnosis).checks
        hidden = [check.found for check in checks if check.verdict == "unseen"]
        assert bool(hidden) == (name in {"web", "watch"}), (name, hidden)
        assert {c.name for c in checks if c.verdict == "wrong"} == {"agents"}, (name, checks)
        assert {"stream BUS", "delivery", "dead letters", "clock"} <= {c.name for c in checks}
        assert one.err == ""
    assert status.code == 0
    assert status.json(Status).unseen
    assert [row.agent for row in status.json(Status).unanswered] == ["web"]


async def test_certificates_that_end_soon_are_told(tmp_path: Path) -> None:
    """That of the server, of whoever vouches for it, and our own; each is judged by itself."""
    soon, later = Authority(tmp_path, "soon"), Authority(tmp_path, "later", days=90)
    cert, key = soon.issue("server")
    own_cert, own_key = later.issue("client")
    limits = ServerSettings(tls_cert=cert, tls_key=key, tls_ca=later.path)
    async with secured(tmp_path, settings=limits) as team:
        files = ("--tls-ca", soon.path, "--tls-cert", own_cert, "--tls-key", own_key)
        ran = await bus_("doctor", "--json", *as_identity(team, "operator"), *map(str, files))
    expiry = [check for check in ran.json(Diagnosis).checks if check.name == "expiry"]
    verdicts = {check.found.partition(" ends ")[0]: check.verdict for check in expiry}

    assert ran.code == 1
    assert verdicts == {
        "the certificate of the server": "wrong",
        "the certificates of --tls-ca": "wrong",
        "the certificate of --tls-cert": "ok",
    }


async def test_what_is_left_of_an_agent_is_found_and_forgotten(tmp_path: Path) -> None:
    """Never one that lives; what waits is kept unless it is to be dropped; the log stays."""
    async with EmbeddedServer(tmp_path / "data") as server:
        url = ("--url", server.url)
        async with living(server.url, echo("raven")):
            refused = await bus_("forget", "raven", "--drop-mentions", *url)
        async with connect(server.url) as bus:
            await bus.registry.register(AgentCard(name="owl"), holder="test")
            await opened(bus, "raven")
            await waits(bus, "raven")
            await bus.registry.deregister("raven")
            found = checks_of(await bus_("doctor", "--json", *url))
            kept = await bus_("forget", "raven", "owl", "--json", *url)
            still = (await bus.pending_mentions()).get("raven")
            dropped = await bus_("forget", "raven", "--drop-mentions", *url)
            gone = checks_of(await bus_("doctor", "--json", *url))
            events = await bus.operations.recent()

    assert refused.code == 5
    assert "stop it first" in refused.err
    assert "raven" in found["left inboxes"].found
    assert "bus forget raven" in found["left inboxes"].advice
    assert [(r.agent, r.registered, r.waiting) for r in kept.json(Forgot).agents] == [
        ("raven", False, 1),
        ("owl", True, 0),
    ]
    assert still == 1
    assert "1 mention dropped" in dropped.out
    assert "left inboxes" not in gone
    assert len(events) == 1


async def test_a_log_of_several_streams_is_looked_at_whole(tmp_path: Path) -> None:
    """Each stream by its own name, dead letters in any of them, and inboxes wherever they are."""
    async with EmbeddedServer(tmp_path / "data") as server:
        settings = BusSettings(url=server.url, partitions=3, inboxes=2)
        url = ("--url", server.url)
        async with connect(settings) as bus:
            await bus.registry.register(AgentCard(name="owl"), holder="test")
            await bus.registry.register(AgentCard(name="raven"), holder="test")
            tasks = [await opened(bus, "owl", "raven") for _ in range(12)]
            for task in tasks:
                dead = MentionDeadLettered(error=ErrorInfo("Boom", "x"))
                await bus.observe(dead, task=task)
            names = {one.name for one in (await bus.storage()).streams}

            async def all_wait() -> bool:
                found = checks_of(await bus_("doctor", "--json", "--minutes", "0.0000001", *url))
                return "owl (not living): 12" in found["mentions"].found

            await eventually(all_wait, "the mentions of the owl")
            checks = checks_of(await bus_("doctor", "--json", *url))
            gone = await bus_("forget", "owl", "raven", "--drop-mentions", "--json", *url)
            after = checks_of(await bus_("doctor", "--json", *url))

    assert {f"stream {name}" for name in names} <= set(checks)
    assert len([name for name in checks if name.startswith("stream BUS")]) == 3
    assert "12 mentions given up" in checks["dead letters"].found
    assert all(check.verdict == "ok" for name, check in checks.items() if "delivery" in name)
    assert len([name for name in checks if name.startswith("delivery")]) >= 2
    assert [row.dropped for row in gone.json(Forgot).agents] == [12, 12]
    assert "left inboxes" not in after
    assert after["mentions"].verdict == "ok"
