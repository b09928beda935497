"""A secured bus as a person runs it: `bus auth`, `bus up --auth`, an agent, a question, replay."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from tests.support.busreplay import busreplay
from tests.support.cli import ended, environment, line_with, process

AGENT = """\
from threadbus.agents import Agent, Mention

agent = Agent("echo", description="Says it again.")


@agent.on_mention
async def handle(mention: Mention) -> str:
    return f"echo: {mention.text}"
"""


def commands_running() -> str:
    """Return what `ps` would show: the arguments of each process."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


async def test_a_secured_bus_from_nothing_to_replay(tmp_path: Path) -> None:
    """Keys, server, agent, question and replay by commands; no secret is but in its file."""
    folder, home = tmp_path / "auth", tmp_path / "home"
    env = environment(home, {"BUS_DRAIN_TIMEOUT": "2"})
    (tmp_path / "echoing.py").write_text(AGENT)
    said = ""

    async def bus(*arguments: str, key: str = "", code: int = 0) -> str:
        nonlocal said
        own = {**env, "BUS_NKEY": str(folder / f"keys/main/{key}.nk")} if key else env
        async with process(*arguments, env=own, cwd=tmp_path) as running:
            ran = await ended(running)
        said += ran.out + ran.err
        assert ran.code == code, ran
        return ran.out

    where = ("--folder", str(folder))
    await bus("auth", "init", *where)
    for name in ("echo", "user"):
        await bus("auth", "add-agent", name, *where)
    operator = str(folder / "keys/main/operator.nk")
    up = ("up", "--auth", str(folder), "--port", "0", "--json")
    agent_env = {**env, "BUS_NKEY": str(folder / "keys/main/echo.nk")}
    async with process(*up, env=env) as server:
        url = str(json.loads(await line_with(server, "url"))["url"])
        async with process("run", "echoing:agent", "--json", env=agent_env, cwd=tmp_path) as agent:
            await line_with(agent, "echo")
            shown = commands_running()
            refused = await bus("doctor", code=1)
            assert "bus auth add-agent" in refused
            assert "start a server" not in refused
            answer = await bus("ask", "Who are you?", "--to", "echo", "--json", key="user")
            task = json.loads(answer)["task"]
            assert json.loads(answer)["answer"] == "echo: Who are you?"
            await bus("send", task, "I am you.", "--as", "echo", key="user", code=5)
            assert "they are not those of echo: say with --as" in said
            await bus("auth", "mute", "user", "--reason", "For a test.", *where)
            await bus("ask", "Am I muted?", "--to", "echo", key="user", code=5)
            assert "`bus auth list` shows who is muted" in said
            options = ("--url", url, "--nkey", operator)
            story = await asyncio.to_thread(busreplay, task, *options)
            checked = await asyncio.to_thread(busreplay, "verify", task, *options)
            await bus("auth", "revoke", "user", *where)
            agent.terminate()
            rest = await ended(agent)
        server.terminate()
        last = await ended(server)

    assert story.returncode == 0, story.stderr
    assert b"echo: Who are you?" in story.stdout
    assert checked.returncode == 0, checked.stdout
    said += rest.out + rest.err + last.out + last.err + (story.stdout + checked.stdout).decode()
    seeds = [path.read_text().strip() for path in folder.rglob("*.nk")]
    assert len(seeds) == 2
    assert "nats-server" in shown
    assert not [seed for seed in seeds if seed[:20] in shown]
    assert not [seed for seed in seeds if seed[:20] in said]
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.name == "server.log" for path in kept)
    for seed in seeds:
        assert not [path for path in kept if seed[:20].encode() in path.read_bytes()]
    assert os.stat(folder).st_mode & 0o077 == 0  # noqa: PTH116 - the mode as the system has it
