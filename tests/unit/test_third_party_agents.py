"""Programs and endpoints as agents: one line each, bounded, their errors events like all others."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.support.embedded_servers import is_gone
from tests.support.eventually import eventually
from tests.support.running_agents import find, running, text, user_in_memory
from threadbus.agents import (
    Agent,
    AgentLimits,
    InvalidSettingError,
    from_command,
    from_http,
)
from threadbus.schemas import AnswerSubmitted, MentionDeadLettered

ONCE = AgentLimits(max_attempts=1)
TWICE = AgentLimits(max_attempts=2, first_retry=timedelta(0))


def python(program: str) -> list[str]:
    """Return the command that runs *program*."""
    return [sys.executable, "-c", program]


async def answer_of(agent: Agent, question: str = "one two three") -> str:
    """Ask an agent; return its answer, or why it gave up."""
    async with user_in_memory() as user, running(agent, user):
        task = (await user.tasks.open(question, to=[agent.name])).event.task
        await user.waits.for_close(task)
        answers = await find(user, task, AnswerSubmitted, count=0)
        if answers:
            return text(answers[0])
        (dead,) = await find(user, task, MentionDeadLettered)
    assert isinstance(dead.data, MentionDeadLettered)
    return f"{dead.data.error.kind}: {dead.data.error.message}"


async def test_a_program_answers_what_it_reads() -> None:
    """The task is its standard input, whatever is in it; a string is split as a shell does."""
    program = "import sys; print(len(sys.stdin.read().split()), 'words é')"
    said = await answer_of(from_command(shlex.join(python(program)), "counter"), "a 'b' $HOME é")

    assert said == "4 words é"


async def test_a_program_need_not_read_its_task() -> None:
    """One that ends at once is an answer all the same, also to a long task."""
    assert await answer_of(from_command(["true"], "quiet"), "x" * 30_000) == ""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (python("import sys; sys.exit('no such thing')"), "exit code 1: no such thing"),
        (python("import os; os.kill(os.getpid(), 9)"), "exit code -9"),
        (python("while True: print('x' * 1000)"), "wrote more than 5,000 bytes"),
        (["/nonexistent/program"], "cannot be started"),
    ],
)
async def test_a_program_that_goes_wrong_is_given_up(program: list[str], expected: str) -> None:
    """The reason is in the log, with the end of what it said of it; it is not run again."""
    said = await answer_of(from_command(program, "broken", max_output=5000))

    assert said.startswith("Program")
    assert expected in said


async def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """The whole process group goes."""
    pids = tmp_path / "pids"
    program = (
        "import os, pathlib, signal, subprocess\n"
        "child = subprocess.Popen(['tail', '-f', '/dev/null'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "signal.pause()"
    )
    agent = from_command(python(program), "slow", timeout=timedelta(seconds=5))
    said = await answer_of(agent)

    assert "took longer than 5 s" in said
    started = list(map(int, pids.read_text().split()))
    await eventually(lambda: all(map(is_gone, started)), "the processes to be gone")


@asynccontextmanager
async def endpoint(*answers: tuple[int, str, bytes]) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Serve answers in turn, the last one again and again; collect the bodies."""
    bodies: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        bodies.append(await reader.readexactly(length))
        status, kind, body = answers[min(len(bodies), len(answers)) - 1]
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n"
            f"location: /elsewhere\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/run", bodies


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("text/plain", b"seven", "seven"),
        ("application/json", b'"seven"', "seven"),
        ("application/json", b'{"result": "seven"}', "seven"),
        ("application/json", b'{"other": 7}', '{"other": 7}'),
        ("application/json", b"{broken", "{broken"),
    ],
)
async def test_an_endpoint_is_posted_the_task(kind: str, body: bytes, expected: str) -> None:
    """It gets the description of the task, and may answer text or JSON."""
    async with endpoint((200, kind, body)) as (url, bodies):
        said = await answer_of(from_http(url, "remote"))

    assert said == expected
    assert [msgspec.json.decode(one) for one in bodies] == [{"task_desc": "one two three"}]


@pytest.mark.parametrize(
    ("answers", "calls", "expected"),
    [
        ([(503, "text/plain", b"busy"), (200, "text/plain", b"seven")], 2, "seven"),
        ([(503, "text/plain", b"busy")], 2, "answered 503: busy"),
        ([(404, "text/plain", b"gone")], 1, "answered 404: gone"),
        ([(302, "text/plain", b"")], 2, "answered 302"),
        ([(200, "text/plain", b"x" * 5001)], 2, "answered more than 5,000 bytes"),
    ],
)
async def test_an_endpoint_that_fails_is_tried_again_where_that_may_help(
    answers: list[tuple[int, str, bytes]], calls: int, expected: str
) -> None:
    """Twice here; a refusal is final, and in the end the reason is in the log."""
    async with endpoint(*answers) as (url, bodies):
        said = await answer_of(from_http(url, "remote", limits=TWICE, max_output=5000))

    assert expected in said
    assert len(bodies) == calls


async def test_an_endpoint_that_is_not_there_is_an_error_that_names_it() -> None:
    """And one that never answers is left after its time."""
    async with endpoint((200, "text/plain", b"x")) as (url, _):
        pass
    said = await answer_of(from_http(url, "remote", limits=ONCE))

    assert "EndpointError" in said
    assert url in said


async def test_an_endpoint_that_never_answers_is_left() -> None:
    """After the time that it may take."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/run"
        agent = from_http(url, "remote", limits=ONCE, timeout=timedelta(seconds=0.3))
        said = await answer_of(agent)
        for writer in held:
            writer.close()

    assert "no answer in 0.3 s" in said


def test_what_cannot_be_run_is_refused_at_once() -> None:
    """The setting is named, before any task comes."""
    for command in ("", "'unclosed", ["a\0b"]):
        with pytest.raises(InvalidSettingError, match="command"):
            from_command(command, "x")
    for url in ("ftp://host/run", "http:///run", "run"):
        with pytest.raises(InvalidSettingError, match="http://"):
            from_http(url, "x")
    with pytest.raises(InvalidSettingError, match="at most a day"):
        from_command("cat", "x", timeout=timedelta(0))
    with pytest.raises(InvalidSettingError, match="67,108,864"):
        from_http("http://host/run", "x", max_output=0)
