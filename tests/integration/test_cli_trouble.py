"""What the command does where something is missing or wrong."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from tests.support.cli import NOWHERE, Cli, Ran, ended, environment, process
from tests.support.nats_server import running_nats_server

LOOKS = [
    ("tasks",),
    ("agents",),
    ("status",),
    ("threads", "0" * 31 + "1"),
    ("watch", "0" * 31 + "1"),
    ("attach", "0" * 31 + "1"),
    ("cancel", "0" * 31 + "1"),
    ("ask", "hello", "--to", "somebody"),
    ("send", "0" * 31 + "1", "hello"),
    ("reply", "0" * 31 + "1", "hello"),
]


async def run(*arguments: str, home: Path, **env: str) -> Ran:
    """Run the command without a server of its own."""
    async with process(*arguments, env=environment(home, env)) as running:
        return await ended(running)


@pytest.mark.parametrize("arguments", LOOKS, ids=lambda arguments: arguments[0])
async def test_without_a_server_it_says_how_to_start_one(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """One clear line and exit code 4, whatever the command."""
    ran = await run(*arguments, "--url", NOWHERE, home=tmp_path)

    assert (ran.code, ran.out) == (4, "")
    assert ran.err.count("\n") == 1
    assert NOWHERE in ran.err
    assert "bus up" in ran.err


async def test_doctor_says_that_there_is_no_server(tmp_path: Path) -> None:
    """That is a problem as any other: found, with what to do, and exit code 1."""
    ran = await run("doctor", "--url", NOWHERE, home=tmp_path)

    assert ran.code == 1
    assert "bus up" in ran.out


async def test_a_server_that_is_not_nats_is_no_server(tmp_path: Path) -> None:
    """Something else that listens on the port is told from a server in time."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as other:
        port = other.sockets[0].getsockname()[1]
        ran = await run("tasks", "--url", f"nats://127.0.0.1:{port}", home=tmp_path)

    assert ran.code == 4
    assert f"127.0.0.1:{port}" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("url", ["nonsense", "nats://", "nats://127.0.0.1:99999999"])
async def test_a_wrong_url_is_named(tmp_path: Path, url: str) -> None:
    """The error shows what was given."""
    ran = await run("tasks", "--url", url, home=tmp_path)

    assert ran.code in {2, 4}
    assert url in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("tasks", "--ack-wait", "soon"), {}, "--ack-wait='soon'"),
        (("--append-timeout", "1000", "tasks"), {}, "at most 100 seconds"),
        (("tasks",), {"BUS_CONNECT_TIMEOUT": "never"}, "BUS_CONNECT_TIMEOUT='never'"),
        (("tasks", "--as", "Ada L"), {}, "--as='Ada L' is not valid: an agent name is 1 to 63"),
        (("tasks", "--creds", "/nonexistent"), {}, "/nonexistent: "),
        # A setting of the sender's own client, which is no limit on record.
        (("limits", "set", "ada", "--events-per-second", "9"), {}, "--events, --at-once"),
        (("tasks", "--limit", "0"), {}, "--limit"),
        (("tasks", "--limit", "x"), {}, "--limit"),
        (("nonsense",), {}, "No such command"),
        (("tasks", "--nonsense"), {}, "No such option"),
        (("run", "json:dumps:x", "--replicas", "0"), {}, "--replicas"),
        (("run", "no_such_module:agent"), {}, "no_such_module"),
        (("run", "json:nothing"), {}, "has no 'nothing'"),
        (("up", "--port", "99999"), {}, "port"),
        (("completion", "tcsh"), {}, "tcsh"),
    ],
    ids=range(15),
)
async def test_wrong_use_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    """The flag or variable, its value and what it can be are in one message; exit code 2."""
    ran = await run(*arguments, home=tmp_path, **variables)

    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


async def test_a_server_without_jetstream_is_told(tmp_path: Path) -> None:
    """There is a server, and it cannot keep a log."""
    with running_nats_server(tmp_path, jetstream=False) as server:
        ran = await run("status", "--url", server.url, home=tmp_path)

    assert ran.code == 4
    assert "JetStream" in ran.err


def close_output(running: Process) -> None:
    """Stop reading, as `head` does once it has enough."""
    transport: asyncio.SubprocessTransport = getattr(running, "_transport")  # noqa: B009
    pipe: asyncio.BaseTransport | None = transport.get_pipe_transport(1)
    assert pipe is not None
    pipe.close()


async def test_whoever_reads_a_pipe_may_stop(cli: Cli) -> None:
    """`bus ... | head` is no error."""
    async with process("config", env=cli.env) as running:
        close_output(running)
        code = await running.wait()
        assert running.stderr is not None
        err = (await running.stderr.read()).decode()

    assert (code, err) == (0, "")


async def test_help_and_version_need_no_server(tmp_path: Path) -> None:
    """Every command explains itself, and the root has the exit codes."""
    root = await run("--help", home=tmp_path)
    ask = await run("ask", "-h", home=tmp_path)
    version = await run("--version", home=tmp_path)

    assert "Exit codes" in root.out
    assert "124" in root.out
    assert "--no-wait" in ask.out
    assert version.out.startswith("threadbus ")
