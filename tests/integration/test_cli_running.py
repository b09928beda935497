"""`bus run`, `bus up` and `bus init`: processes that stay until they are ended."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import msgspec
import pytest

from tests.support.busreplay import busreplay
from tests.support.cli import Cli, ended, environment, line_with, process
from tests.support.embedded_servers import is_gone
from tests.support.eventually import eventually
from threadbus.agents.cli.results import Project, Running, Up
from threadbus.bus import connect

AGENT = """\
import os

from threadbus.agents import Agent, Mention

agent = Agent("worker", description="Says which process it is.")


@agent.on_mention
async def handle(mention: Mention) -> str:
    return f"{os.getpid()} heard {mention.text}"


def shout(task_desc: str) -> str:
    return task_desc.upper()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an agent in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "team.py").write_text(AGENT, encoding="utf-8")
    return folder


async def running_line(running: Process) -> Running:
    """Return what `bus run --json` prints once mentions are taken."""
    return msgspec.json.decode(await line_with(running, '"pid"'), type=Running)


async def test_an_agent_runs_answers_and_ends_in_order_at_sigterm(cli: Cli, project: Path) -> None:
    """Its log goes to standard error, and afterwards nobody lives under its name."""
    async with process("run", "team:agent", env=cli.env, cwd=project) as running:
        taking = await line_with(running, "taking mentions", of="stderr")
        ran = await cli("ask", "hello", "--to", "worker")
        running.send_signal(signal.SIGTERM)
        stopped = await ended(running)
    async with connect(cli.url) as bus:
        alive = [agent.name for agent in await bus.registry.living()]

    assert "agent=worker" in taking
    assert "model=none" in taking
    assert ran.out == f"{running.pid} heard hello\n"
    assert (stopped.code, stopped.out) == (0, "")
    assert "stopped in order" in stopped.err
    assert "worker" not in alive


async def test_a_plain_function_runs_under_a_given_name(cli: Cli, project: Path) -> None:
    """`run(task_desc) -> str` is an agent as it stands."""
    async with process(
        "run", "team.py:shout", "--name", "herald", "--json", env=cli.env, cwd=project
    ) as running:
        said = await running_line(running)
        ran = await cli("ask", "hear ye", "--to", "herald")

    assert (said.agent, said.model, said.playbook) == ("herald", "", False)
    assert ran.out == "HEAR YE\n"


async def test_replicas_share_a_name_and_all_end_at_sigterm(cli: Cli, project: Path) -> None:
    """Three processes live under one name; none is left behind."""
    async with process(
        "run", "team:agent", "--name", "many", "--replicas", "3", "--json",
        env=cli.env, cwd=project,
    ) as running:  # fmt: skip
        pids = [(await running_line(running)).pid for _ in range(3)]
        async with connect(cli.url) as bus:
            (agent,) = [a for a in await bus.registry.living() if a.name == "many"]
        answered = await cli("ask", "hello", "--to", "many")
        running.send_signal(signal.SIGTERM)
        stopped = await ended(running)

    assert len(set(pids)) == 3
    assert {beat.pid for beat in agent.instances} == set(pids)
    assert answered.out.split()[0] in map(str, pids)
    assert stopped.code == 0
    for pid in pids:
        assert is_gone(pid)


async def test_a_killed_replica_is_started_again(cli: Cli, project: Path) -> None:
    """The group keeps its size."""
    async with process(
        "run", "team:agent", "--name", "phoenix", "--replicas", "2", "--json",
        env=cli.env, cwd=project,
    ) as running:  # fmt: skip
        first, second = [(await running_line(running)).pid for _ in range(2)]
        os.kill(first, signal.SIGKILL)
        third = (await running_line(running)).pid
        running.send_signal(signal.SIGTERM)
        stopped = await ended(running)

    assert third not in {first, second}
    assert stopped.code == 0


async def test_replicas_end_when_whoever_started_them_is_killed(cli: Cli, project: Path) -> None:
    """A supervisor that is killed with SIGKILL leaves nothing running."""
    async with process(
        "run", "team:agent", "--name", "orphan", "--replicas", "2", "--json",
        env=cli.env, cwd=project,
    ) as running:  # fmt: skip
        pids = [(await running_line(running)).pid for _ in range(2)]
        running.kill()
        await running.wait()
        await eventually(lambda: all(map(is_gone, pids)), "the replicas to be gone")


async def test_a_name_that_is_taken_is_refused_unless_taken_over(cli: Cli, project: Path) -> None:
    """The newcomer is told who holds it; with --takeover the old one is told and stops."""
    async with process("run", "team:agent", "--name", "held", env=cli.env, cwd=project) as first:
        await line_with(first, "taking mentions", of="stderr")
        refused = await cli("run", "team:agent", "--name", "held", cwd=project)
        async with process(
            "run", "team:agent", "--name", "held", "--takeover", env=cli.env, cwd=project
        ) as second:
            await line_with(second, "taking mentions", of="stderr")
            replaced = await ended(first)

    assert refused.code == 5
    assert "held" in refused.err
    assert "--takeover" in refused.err
    assert replaced.code == 5


async def test_a_model_that_is_a_playbook_is_labelled(cli: Cli, project: Path) -> None:
    """Nobody takes a playbook for a model."""
    model = {"BUS_MODEL": "playbook", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    env = {**cli.env, **model}
    async with process("run", "team:agent", "--name", "actor", env=env, cwd=project) as running:
        line = await line_with(running, "taking mentions", of="stderr")

    assert "playbook, no model is asked" in line


async def test_a_model_without_key_or_server_is_refused_at_once(cli: Cli, project: Path) -> None:
    """The variable to set is named."""
    ran = await cli("run", "team:agent", cwd=project, env={"BUS_MODEL": "some-model"})

    assert ran.code == 2
    assert "OPENAI_API_KEY" in ran.err


async def test_an_agent_may_end_with_its_standard_input(cli: Cli, project: Path) -> None:
    """Whoever holds the other end is gone, so is the agent: in order."""
    async with process(
        "run", "team:agent", "--name", "bound", "--while-stdin",
        env=cli.env, cwd=project, stdin=PIPE,
    ) as running:  # fmt: skip
        await line_with(running, "taking mentions", of="stderr")
        assert running.stdin is not None
        running.stdin.close()
        stopped = await ended(running)

    assert stopped.code == 0
    assert "stopped in order" in stopped.err


async def test_a_server_that_is_up_is_found_and_keeps_its_data(tmp_path: Path) -> None:
    """Other commands and `busreplay` need no URL; after a new start everything is there again."""
    env = environment(tmp_path / "state")
    tasks: list[str] = []
    status, state = "", Up(url="", pid=0, data="", version="")
    for _ in range(2):
        async with process("up", "--port", "0", "--json", env=env) as up:
            state = msgspec.json.decode(await line_with(up, '"url"'), type=Up)
            async with connect(state.url) as bus:
                await bus.tasks.open("kept?", to=[])
            async with process("tasks", env=env) as listing:
                tasks.append((await ended(listing)).out)
            task = tasks[-1].splitlines()[1].split()[0]
            shown = await asyncio.to_thread(busreplay, task, XDG_STATE_HOME=env["XDG_STATE_HOME"])
            assert (shown.returncode, shown.stdout[:5]) == (0, b"kept?")
            async with process("status", env=env) as looking:
                status = (await ended(looking)).out
            up.send_signal(signal.SIGINT)
            stopped = await ended(up)
        assert stopped.code == 0

    assert [text.count("kept?") for text in tasks] == [1, 2]
    assert "(from bus up)" in status
    assert Path(state.data).is_relative_to(tmp_path)


async def test_up_says_what_to_do_next(tmp_path: Path) -> None:
    """The URL, the data folder and the next commands are printed."""
    data = tmp_path / "data"
    env = environment(tmp_path / "state")
    async with process("up", "--port", "0", "--data", str(data), env=env) as up:
        first = await line_with(up, "is up at nats://")
        folder = await line_with(up, "data")
        await line_with(up, "bus init")
        export = await line_with(up, "export BUS_URL=")
        async with process("up", "--port", "0", "--data", str(data), env=env) as other:
            refused = await ended(other)

    assert first.split()[-1] in export
    assert str(data) in folder
    assert refused.code == 1
    assert "in use" in refused.err


async def test_a_new_project_works_with_the_commands_it_prints(cli: Cli, tmp_path: Path) -> None:
    """Run what `init` says to run, as a shell reads it, and the agent answers."""
    made = await cli("init", "Word counter", "--name", "word-counter", cwd=tmp_path)
    lines = [line.strip() for line in made.out.splitlines()]
    (folder,) = [shlex.split(line)[1] for line in lines if line.startswith("cd ")]
    (run,) = [line.split()[1:] for line in lines if line.startswith("bus run")]
    (ask,) = [line for line in lines if line.startswith("bus ask")]
    async with process(*run, env=cli.env, cwd=tmp_path / folder) as running:
        await line_with(running, "taking mentions", of="stderr")
        _, question, rest = ask.split('"')
        answered = await cli("ask", question, *rest.split())

    readme = (tmp_path / folder / "README.md").read_text(encoding="utf-8")
    assert (answered.code, answered.out) == (0, "8 words, the longest is 'question?'\n")
    assert ask in readme
    assert " ".join(["bus", *run]) in readme


async def test_init_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    """A file that is there stays as it is, and nothing is half written."""
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    refused = await cli("init", str(tmp_path))
    made = await cli("init", str(tmp_path / "new"), "--name", "ada", "--json")

    assert refused.code == 2
    assert "README.md" in refused.err
    assert not (tmp_path / "agent.py").exists()
    assert made.json(Project).agent == "ada"


async def test_a_program_and_an_endpoint_run_as_agents(cli: Cli, project: Path) -> None:
    """One line each; what they are is told when too little or too much is said."""
    async with process("run", "--command", "tr a-z A-Z", "--name", "loud", env=cli.env) as running:
        await line_with(running, "taking mentions", of="stderr")
        ran = await cli("ask", "hello", "--to", "loud")
    unnamed = await cli("run", "--http", "http://127.0.0.1:1/run")
    both = await cli("run", "team:agent", "--command", "cat", "--name", "x", cwd=project)
    no_url = await cli("run", "--http", "nowhere", "--name", "x")

    assert "HELLO" in ran.out
    assert [unnamed.code, both.code, no_url.code] == [2, 2, 2]
    assert "--name" in unnamed.err
    assert "one of MODULE:AGENT, --command and --http" in both.err
    assert "http://" in no_url.err
