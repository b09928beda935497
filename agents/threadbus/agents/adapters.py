"""Third-party agents in one line: a command-line program, or an HTTP endpoint.

AgentError
├── GiveUpError
│   └── ProgramError                it ran, and trying again is no use
│       ├── ProgramFailedError      it ended with another exit code than 0
│       ├── ProgramTimeoutError     it took longer than it may
│       └── ProgramOutputError      it wrote more than is taken
└── EndpointError                   the endpoint did not give an answer; tried again

What goes wrong is an event like with every agent: the attempt is on record, and whoever asked is
told when it is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from threadbus.agents.agent import Agent, AgentLimits
from threadbus.agents.errors import AgentError, GiveUpError, InvalidSettingError
from threadbus.agents.mention import Mention
from threadbus.agents.posting import PostError, post_json
from threadbus.schemas import clean_text, shorten

DEFAULT_TIMEOUT: Final = timedelta(minutes=10)
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Bytes that are taken of what a program writes or an endpoint answers."""

_MAX_ERROR_BYTES: Final = 16 * 1024
_MAX_SAID_CHARS: Final = 2000
_CHUNK: Final = 64 * 1024
_BURY_S: Final = 5.0


class ProgramError(GiveUpError):
    """A program did not give an answer; it would not the next time either."""

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(f"{shorten(command)} {problem}")
        self.args = (command, problem)
        self.command = command
        self.problem = problem


class ProgramFailedError(ProgramError):
    """It ended with another exit code than 0, or could not be started."""


class ProgramTimeoutError(ProgramError):
    """It took longer than it may, and was ended."""


class ProgramOutputError(ProgramError):
    """It wrote more than is taken, and was ended."""


class EndpointError(AgentError):
    """An endpoint did not give an answer."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return f"{shorten(self.url, 200)}: {self.problem}"


def from_command(
    command: str | Sequence[str],
    name: str,
    *,
    description: str = "",
    timeout: timedelta = DEFAULT_TIMEOUT,
    max_output: int = MAX_OUTPUT_BYTES,
    limits: AgentLimits | None = None,
) -> Agent:
    """Make an agent of a program: the task is its standard input, its standard output the reply.

    It is started for each task in a process group of its own, with the environment of this process,
    and without a shell.

    Args:
        command: the program and its arguments; a string is split as a shell splits it.
        name: the agent's name.
        description: what it can do.
        timeout: how long it may take.
        max_output: bytes that it may write.
        limits: how much the agent takes on.

    Raises:
        InvalidSettingError: the command is empty, or a limit is none.
        InvalidNameError: *name* is outside the grammar.
    """
    words = _words(command)
    _check_bounds(timeout, max_output)
    agent = Agent(
        name, description=description or f"Runs {shorten(shlex.join(words))}.", limits=limits
    )

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return await _run(words, mention.text, timeout.total_seconds(), max_output)

    return agent


def from_http(
    url: str,
    name: str,
    *,
    description: str = "",
    timeout: timedelta = DEFAULT_TIMEOUT,
    max_output: int = MAX_OUTPUT_BYTES,
    limits: AgentLimits | None = None,
) -> Agent:
    """Make an agent of an endpoint that is posted ``{"task_desc": …}`` as JSON.

    It answers text, or JSON: a string, or an object with a string ``result``. Redirects are not
    followed.

    Args:
        url: the endpoint, http or https.
        name: the agent's name.
        description: what it can do.
        timeout: how long one answer may take.
        max_output: bytes that it may have.
        limits: how much the agent takes on and how often it tries.

    Raises:
        InvalidSettingError: *url* is none, or a limit is none.
        InvalidNameError: *name* is outside the grammar.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidSettingError("url", url, "it begins with http:// or https:// and has a host")
    _check_bounds(timeout, max_output)
    agent = Agent(name, description=description or f"Asks {parts.hostname}.", limits=limits)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await _post(url, mention.text, max_output)
        except TimeoutError as error:
            raise EndpointError(url, f"no answer in {timeout.total_seconds():g} s") from error

    return agent


def _words(command: str | Sequence[str]) -> list[str]:
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise InvalidSettingError("command", str(command), f"{error}") from error
    if not words or any("\0" in word for word in words):
        raise InvalidSettingError("command", str(command), "it names a program and its arguments")
    return words


def _check_bounds(timeout: timedelta, max_output: int) -> None:
    if not timedelta(0) < timeout <= timedelta(days=1):
        raise InvalidSettingError("timeout", str(timeout), "it is over 0 s, at most a day")
    if not 1 <= max_output <= 64 * MAX_OUTPUT_BYTES:
        raise InvalidSettingError("max_output", str(max_output), "1 to 67,108,864 bytes")


async def _run(words: list[str], task: str, timeout_s: float, max_output: int) -> str:
    shown = shlex.join(words)
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise ProgramFailedError(shown, f"cannot be started: {error.strerror}") from error
    done = False
    try:
        async with asyncio.timeout(timeout_s):
            code, output, said = await _communicate(process, task, max_output, shown)
        done = True
    except TimeoutError as error:
        raise ProgramTimeoutError(shown, f"took longer than {timeout_s:g} s") from error
    finally:
        if not done:
            # The group: it may have started others, which would go on.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await _bury(process)
    if code != 0:
        why = f": {said}" if said else ""
        raise ProgramFailedError(shown, f"ended with exit code {code}{why}")
    return output


async def _bury(process: Process) -> None:
    """Wait for the end of a process that was killed; asyncio sees it once its pipes are empty."""
    with contextlib.suppress(TimeoutError):
        # Whoever left its group may hold the pipes for ever.
        async with asyncio.timeout(_BURY_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(_CHUNK):
                    pass
            await process.wait()


async def _communicate(
    process: Process, task: str, max_output: int, shown: str
) -> tuple[int, str, str]:
    """Return exit code, output and the end of standard error."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_feed(process, task), name="threadbus.command.stdin")
            said = tasks.create_task(_tail(process), name="threadbus.command.stderr")
            output = tasks.create_task(
                _bounded(process, max_output, shown), name="threadbus.command.stdout"
            )
            code = await process.wait()
    except* ProgramOutputError as group:
        raise group.exceptions[0] from None
    return code, output.result(), said.result()


async def _feed(process: Process, task: str) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    # A program may end without having read its task.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(task.encode())
        await stdin.drain()
    stdin.close()


async def _bounded(process: Process, most: int, shown: str) -> str:
    found = bytearray()
    while process.stdout is not None and (chunk := await process.stdout.read(_CHUNK)):
        found += chunk
        if len(found) > most:
            raise ProgramOutputError(shown, f"wrote more than {most:,} bytes")
    return found.decode("utf-8", "replace").strip()


async def _tail(process: Process) -> str:
    found = bytearray()
    while process.stderr is not None and (chunk := await process.stderr.read(_CHUNK)):
        found = (found + chunk)[-_MAX_ERROR_BYTES:]
    return clean_text(found.decode("utf-8", "replace").strip()[-_MAX_SAID_CHARS:], _MAX_SAID_CHARS)


async def _post(url: str, task: str, most: int) -> str:
    try:
        answer = await post_json(url, {"task_desc": task}, most)
    except PostError as error:
        raise EndpointError(url, str(error)) from error
    text = answer.body.decode("utf-8", "replace").strip()
    if not 200 <= answer.status < 300:
        problem = f"answered {answer.status}: {clean_text(text, _MAX_SAID_CHARS)}"
        if 400 <= answer.status < 500 and answer.status not in {408, 429}:
            raise GiveUpError(f"{shorten(url, 200)}: {problem}")
        raise EndpointError(url, problem)
    return _text_of(text) if "json" in answer.kind else text


def _text_of(body: str) -> str:
    """Return the text in an answer of JSON; an answer of another form as it is."""
    try:
        value: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("result", value)
    return value if isinstance(value, str) else body
