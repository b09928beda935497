"""Processes whose standard error is closed, or a pipe that nobody reads any more: they go on."""

from __future__ import annotations

import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from tests.support.cli import Cli, ended, environment, line_with, process
from tests.support.mcp_processes import host, token
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.results import Running, Up
from threadbus.bus import ConnectError, access, connect
from threadbus.gateways.mcp.commands import Serving

AGENT = """\
from threadbus.agents import Agent, Mention

agent = Agent("stumbler", description="Fails once for each question, then answers.")
seen = set()


@agent.on_mention
async def handle(mention: Mention) -> str:
    if mention.text not in seen:
        seen.add(mention.text)
        raise RuntimeError("the first attempt fails, and this is written to the log")
    return f"heard {mention.text}"
"""

CLOSED = """\
import os, sys
os.close(2)
os.execv(sys.executable, [sys.executable, "-m", "threadbus.agents.cli", *sys.argv[1:]])
"""


class Pipe:
    """A pipe for standard error."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()

    def lose_reader(self) -> None:
        """Let nobody read it any more: who writes is told so, and not stopped."""
        os.close(self._reader)
        self._reader = -1

    def close(self) -> None:
        """Close what is still open here."""
        for number in (self._reader, self.writer):
            if number >= 0:
                os.close(number)


@contextmanager
def piped() -> Generator[Pipe]:
    """Make a pipe for as long as the context lasts."""
    pipe = Pipe()
    try:
        yield pipe
    finally:
        pipe.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an agent in it, whose failures are logged."""
    (tmp_path / "team.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


async def test_an_agent_goes_on_when_nobody_reads_its_log(cli: Cli, project: Path) -> None:
    """A failed attempt is told in the log; the next one answers, and the end is in order."""
    with piped() as pipe:
        async with process(
            "run", "team:agent", "--json", env=cli.env, stderr=pipe.writer, cwd=project
        ) as running:
            await line_with(running, '"pid"')
            pipe.lose_reader()
            answer = await cli("ask", "hello", "--to", "stumbler")
            running.send_signal(signal.SIGTERM)
            stopped = await ended(running)

    assert answer.out == "heard hello\n"
    assert stopped.code == 0


def _target_of(pid: int, number: int) -> str:
    """Return what a process has open under *number*, where the system says so."""
    link = Path(f"/proc/{pid}/fd/{number}")
    return str(link.readlink()) if sys.platform == "linux" else os.devnull


async def test_the_log_is_not_written_elsewhere_when_there_is_no_standard_error(
    cli: Cli, project: Path
) -> None:
    """Closed from the start it is nowhere: no socket has its number, and no line is a result."""
    words = ["run", "team:agent", "--name", "quiet", "--json"]
    running = await create_subprocess_exec(
        sys.executable, "-c", CLOSED, *words,
        stdin=DEVNULL, stdout=PIPE, env=cli.env, cwd=project,
    )  # fmt: skip
    try:
        said = msgspec.json.decode(await line_with(running, '"pid"'), type=Running)
        target = _target_of(said.pid, 2)
        ran = await cli("ask", "hello", "--to", "quiet")
        running.send_signal(signal.SIGTERM)
        stopped = await ended(running)
    finally:
        with suppress(ProcessLookupError):
            running.kill()
        await running.communicate()

    assert ran.out == "heard hello\n"
    assert (stopped.code, stopped.out) == (0, "")
    assert target == os.devnull


async def test_a_command_ends_as_it_went_when_nobody_hears_why(cli: Cli) -> None:
    """The exit code says it all the same: of `bus`, and of `busreplay`."""
    unknown = "0" * 31 + "1"
    codes: list[int] = []
    with piped() as pipe:
        pipe.lose_reader()
        async with process("threads", unknown, env=cli.env, stderr=pipe.writer) as running:
            codes.append((await ended(running)).code)
        replaying = await create_subprocess_exec(
            sys.executable, "-c", "from threadbus.replay.cli import main; main()", unknown,
            stdin=DEVNULL, stdout=PIPE, stderr=pipe.writer, env=cli.env,
        )  # fmt: skip
        codes.append((await ended(replaying)).code)

    assert codes == [ExitCode.NOT_FOUND, 3]


async def test_an_mcp_gateway_goes_on_when_nobody_reads_its_log(cli: Cli, tmp_path: Path) -> None:
    """A tokens file that has become unusable is told in the log, and hosts are still let in."""
    secret = await token(cli, tmp_path, "ada-unheard")
    tokens = tmp_path / "tokens.json"
    words = ["gateway", "mcp", "--http", "127.0.0.1:0", "--tokens", str(tokens), "--json"]
    with piped() as pipe:
        async with process(*words, env=cli.env, stderr=pipe.writer) as running:
            served = msgspec.json.decode(await line_with(running, '"url"'), type=Serving)
            pipe.lose_reader()
            tokens.write_text("no JSON")
            async with host(served.url, secret) as ada:
                agents = await ada.call("list_agents")
            running.send_signal(signal.SIGTERM)
            stopped = await ended(running)

    assert agents["you"] == "ada-unheard"
    assert stopped.code == 0


async def test_a_server_goes_on_when_nobody_reads_what_is_said_beside_it(tmp_path: Path) -> None:
    """What `bus up` notes while it starts and when it ends may be lost; the server is not."""
    env = environment(tmp_path / "state")
    folder = access.AccessFolder(tmp_path / "access")
    await folder.init()
    # So that there is something to note: nobody is here who could make the streams.
    folder.key_path("operator", "main").unlink()
    data = str(tmp_path / "data")
    words = ["up", "--port", "0", "--data", data, "--auth", str(folder.path), "--json"]
    with piped() as pipe:
        pipe.lose_reader()
        async with process(*words, env=env, stderr=pipe.writer) as running:
            up = msgspec.json.decode(await line_with(running, '"pid"'), type=Up)
            with pytest.raises(ConnectError, match="without credentials"):
                async with connect(up.url):
                    pass
            running.send_signal(signal.SIGINT)
            stopped = await ended(running)

    assert stopped.code == 0
