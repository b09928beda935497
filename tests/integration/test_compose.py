"""ops/compose.yaml by a real Docker engine: up, asked in three ways, replayed, killed, down."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.a2a_gateway import Client
from tests.support.access import Attacker
from tests.support.busreplay import busreplay
from tests.support.cli import Cli
from tests.support.compose import ROOT, Deployment, deployed, run
from tests.support.docs import commands_of
from tests.support.eventually import eventually
from tests.support.invariants import violations
from tests.support.mcp_processes import host
from tests.support.running_agents import find
from threadbus.agents.cli.results import Asked, Tasks
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.bus import NotAdmittedError, connect
from threadbus.schemas import (
    AnswerSubmitted,
    ConsensusReached,
    HandlingEnded,
    PlanProposed,
    Recorded,
    parse_task_id,
)

pytestmark = pytest.mark.timeout(900)

EXAMPLE = ROOT / "ops" / "compose" / "example"
PAGE = ROOT / "docs" / "operations" / "compose.md"
QUESTION = (EXAMPLE / "question.txt").read_text(encoding="utf-8").strip()
TEAM = list(SCRIPT.agents)
FILES = ("passengers.csv", "minutes.md")
ONCE = {"keys", "streams"}
"""Services that do something and end."""
PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Everything, up and healthy."""
    with deployed(tmp_path_factory.mktemp("compose")) as made:
        yield made


@pytest.fixture
def bus(deployment: Deployment, tmp_path: Path) -> Cli:
    """The command `bus` of this machine."""
    return Cli(deployment.url, tmp_path, deployment.bus_env)


def words_of_the_question() -> list[str]:
    """Return the arguments of `bus ask`, as the documentation has them."""
    others = [word for name in TEAM[1:] for word in ("--with", name)]
    files = [word for name in FILES for word in ("--file", str(EXAMPLE / name))]
    return [QUESTION, "--to", TEAM[0], *others, *files]


def test_every_container_is_bounded_and_has_no_privileges(deployment: Deployment) -> None:
    """No root, no capability, nothing to write to, a limit on everything, and a health check."""
    found = deployment.containers()
    assert {*TEAM, "nats", "jaeger", "mcp", "a2a", "exporter", "metrics", "playbook"} <= set(found)
    for name, container in found.items():
        config = container["HostConfig"]
        assert config["ReadonlyRootfs"], name
        assert config["Memory"] > 0, name
        assert config["NanoCpus"] > 0, name
        assert config["PidsLimit"] > 0, name
        if name in ONCE:
            assert container["Config"]["User"] == "10001:10001", name
            assert (config["CapDrop"], container["State"]["ExitCode"]) == (["ALL"], 0), name
            continue
        assert config["RestartPolicy"]["Name"] == "unless-stopped", name
        assert container["State"]["Health"]["Status"] == "healthy", name
        # What was asked for is one thing; this is what its process has.
        process = Path(f"/proc/{container['State']['Pid']}")
        status = dict(
            line.split(":\t", 1)
            for line in (process / "status").read_text().splitlines()
            if ":\t" in line
        )
        assert set(status["Uid"].split()) == {"10001"}, name
        assert set(status["Gid"].split()) == {"10001"}, name
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, name
        assert status["NoNewPrivs"] == "1", name
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        (root,) = (mount[5] for mount in mounts if mount[4] == "/")
        assert "ro" in root.split(","), name


def key_in(container: dict[str, Any]) -> bytes:
    """Return the one key that the process of a container can read, and nobody else."""
    (key,) = Path(f"/proc/{container['State']['Pid']}/root/run/key").iterdir()
    status = key.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (10001, 0o600)
    return key.read_bytes()


async def test_each_service_has_its_own_key_and_may_do_nothing_else(
    deployment: Deployment, tmp_path: Path
) -> None:
    """No key of another is in a container, and with its own the server refuses what is not its."""
    seeds: dict[str, bytes] = {}
    for name, container in deployment.containers().items():
        volumes = {m["Destination"]: m for m in container["Mounts"] if m["Type"] == "volume"}
        assert ("/auth" in volumes) == (name == "keys"), name
        if name in ONCE or "/run/key" not in volumes:
            continue
        assert volumes["/run/key"]["Name"] == f"{deployment.project}_key-{name}"
        assert not volumes["/run/key"]["RW"], name
        seeds[name] = key_in(container)
    assert set(seeds) == {*TEAM, "mcp", "a2a", "exporter", "metrics"}
    assert len(set(seeds.values())) == len(seeds)

    with pytest.raises(NotAdmittedError):
        async with connect(deployment.url, name="planner"):
            pass
    for name, others in (("web", ("planner",)), ("mcp", ("planner", "web", "user"))):
        seed = tmp_path / f"{name}.nk"
        seed.write_bytes(seeds[name])
        seed.chmod(0o600)
        attacker = Attacker(name)
        await attacker.client.connect(
            deployment.url,
            nkeys_seed=str(seed),
            inbox_prefix=f"_INBOX_{name}".encode(),
            error_cb=attacker.on_error,
            allow_reconnect=False,
        )
        try:
            for other in others:
                await attacker.refused(f"bus.{'0' * 31}1.main.msg.{other}", b"{}")
                await attacker.refused(f"$KV.AGENTS.{other}", b"{}")
                await attacker.refused(f"$JS.API.CONSUMER.MSG.NEXT.MENTIONS.agent-{other}")
            for what in ("DELETE", "PURGE", "UPDATE", "MSG.DELETE"):
                await attacker.refused(f"$JS.API.STREAM.{what}.BUS", b"{}")
            await attacker.refused_subscription(">")
        finally:
            await attacker.client.close()


def question_of_the_page() -> str:
    """Return the commands with which the documentation asks."""
    _, found, after = PAGE.read_text(encoding="utf-8").partition("test_compose.py runs this -->")
    assert found
    return "\n".join(commands_of(after.split("```")[1]))


async def test_a_question_is_answered_replayed_and_traced(deployment: Deployment, bus: Cli) -> None:
    """The page's `bus ask`; its log is a run for busreplay and a trace in Jaeger."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    asking = ["sh", "-euc", question_of_the_page()]
    answer = await asyncio.to_thread(run, asking, {**bus.env, "PATH": path})
    assert "41,942" in answer
    assert "42,000" in answer
    ((task,),) = [[one.task for one in (await bus("tasks", "--json")).json(Tasks).tasks]]

    replayed = await asyncio.to_thread(busreplay, task, **deployment.bus_env)
    assert replayed.returncode == 0, replayed.stderr
    told = replayed.stdout.decode()
    assert "submits the answer" in told
    assert "The code ended with exit status 0." in told

    await deployment.jaeger.has(task, 100)
    spans = await deployment.jaeger.spans(task)
    assert {span["service"] for span in spans} >= set(TEAM)

    async def is_counted() -> bool:
        async with httpx.AsyncClient() as http:
            url = f"http://127.0.0.1:{deployment.port('METRICS')}/metrics"
            return 'agent="planner"' in (await http.get(url)).text

    await eventually(is_counted, "the planner's work in the metrics")


async def test_an_mcp_host_asks_an_agent(deployment: Deployment) -> None:
    """With a token made as the documentation says, and not without."""
    url = f"http://127.0.0.1:{deployment.port('MCP')}/mcp"
    async with httpx.AsyncClient() as http:
        refused = await http.post(url, json={}, headers={"Authorization": "Bearer " + "x" * 40})
    assert refused.status_code == 401
    async with host(url, deployment.token("my-editor")) as editor:
        answered = await editor.call(
            "ask", agent="web", question="Read http://ostwick:8080/rules.html", timeout_s=25
        )

    # The playbook's words for whoever just talks to this agent.
    assert (answered["by"], answered["text"]) == ("web", "I read the page.")


async def test_an_a2a_client_asks_the_team(deployment: Deployment) -> None:
    """A message with files to the whole bus comes back as a completed task."""
    files = [
        {
            "raw": base64.b64encode((EXAMPLE / name).read_bytes()).decode(),
            "filename": name,
            "mediaType": "text/csv" if name.endswith("csv") else "text/markdown",
        }
        for name in FILES
    ]
    url = f"http://127.0.0.1:{deployment.port('A2A')}"
    headers = {"Authorization": f"Bearer {deployment.token('my-client')}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        card: dict[str, Any] = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        task = await Client(url, http).send("q1", parts=[{"text": QUESTION}, *files])

    assert card["name"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "41,942" in str(task["artifacts"])


async def test_a_killed_agent_is_started_again_and_finishes(
    deployment: Deployment, bus: Cli
) -> None:
    """SIGKILL for the planner in the middle; Docker starts it, and it goes on from the log."""
    before = deployment.containers()["planner"]
    ran = await bus("ask", *words_of_the_question(), "--no-wait", "--json")
    assert ran.code == 0, ran.err
    task = parse_task_id(ran.json(Asked).task)
    async with connect(deployment.settings) as looking:
        await find(looking, task, PlanProposed)
        # Not by `docker kill`: what a person ends is not started again.
        os.kill(before["State"]["Pid"], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            answer = await looking.waits.for_answer(task)
        # The last turns of the team are over: what is on record of them may come a moment later.
        await find(looking, task, HandlingEnded, sender="answer-finding", count=4)
        items: list[Recorded] = []

        async def is_sound() -> bool:
            entries = [entry async for entry in looking.read(task)]
            items[:] = [entry for entry in entries if isinstance(entry, Recorded)]
            return violations(task, items, TEAM) == []

        await eventually(is_sound, "every mention is handled")

    def is_back() -> bool:
        now = deployment.containers()["planner"]
        return bool(
            now["RestartCount"] > before["RestartCount"]
            and now["State"]["Health"]["Status"] == "healthy"
        )

    await eventually(is_back, "the planner is healthy again")
    assert "41,942" in answer.text
    for kind in (PlanProposed, ConsensusReached, AnswerSubmitted):
        assert sum(isinstance(item.event.data, kind) for item in items) == 1, kind


def test_it_goes_down_and_nothing_is_left(deployment: Deployment) -> None:
    """`down --volumes` takes containers, networks and volumes away."""
    assert len(deployment.ids("container", "--all")) == len(deployment.containers()) > len(ONCE)

    deployment.run("down", "--volumes", "--timeout", "30")

    left = [
        *deployment.ids("container", "--all"),
        *deployment.ids("volume"),
        *deployment.ids("network"),
    ]
    assert left == []
