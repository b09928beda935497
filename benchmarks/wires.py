"""One collaboration over three wires: how much a caller has to write, to know and to say.

York's team runs as processes, once; then a program of each wire asks it for the same model and
answers its question. Lines are counted in the program, without blanks, comments and docstrings;
what the caller says to the other side is taken from the wire while it runs: each operation of the
bus, each HTTP request of the gateways. Different operations are its primitives, all of them the
stages of the interaction. The figures of the paper, which counted its own systems with the agents
in them, stand beside ours for orientation; they are no measure of the same thing.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import sys
import tempfile
import tokenize
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import httpx
import httpx2

from benchmarks.callers import a2a, mcp, native
from benchmarks.figures import say
from threadbus.agents.demo import demo_team
from threadbus.agents.teams.york.script import SCRIPT
from threadbus.bus import connect
from threadbus.schemas import text_of

PAPER: Final = {"mcp": (1255, 4, 2), "a2a": (1898, 10, 6)}
"""Lines of code, coordination primitives and stages per interaction, as its Table 1 has them."""

_LIMIT_S: Final = 120.0
Caller: TypeAlias = Callable[[str, str, Callable[[str], str]], Awaitable[str]]


@dataclass(frozen=True)
class Wire:
    """What one wire takes."""

    name: str
    lines: int
    said: tuple[str, ...]
    """Every operation of the caller, in order."""
    answer: str
    asked: tuple[str, ...]
    """What the team asked the caller."""

    @property
    def primitives(self) -> int:
        """Different operations."""
        return len(set(self.said))

    @property
    def stages(self) -> int:
        """Operations of the interaction."""
        return len(self.said)


def lines_of(path: Path) -> int:
    """Count the lines of a program that hold code: no blanks, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}:
            continue
        if token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}:
            begins = True
            continue
        if not (begins and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
        begins = False
    return len(lines)


def team_lines() -> int:
    """Count the lines of the four agents, without the notation that they check."""
    return sum(lines_of(path) for path in Path(SCRIPT.playbook).parent.glob("*.py"))


async def measure() -> list[Wire]:
    """Run the team, and ask it over each wire."""
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, XDG_STATE_HOME=home):
        say("York over three wires, starting the team")
        async with (
            demo_team(SCRIPT) as team,
            _gateway(team.url, "mcp", "--agent", "caller-mcp") as mcp_url,
            _gateway(team.url, "a2a", "--team", "collaboration") as a2a_url,
        ):
            return [
                await _ask("native", native.model, team.url, native.__file__, _operations),
                await _ask("mcp", mcp.model, f"{mcp_url}/mcp", mcp.__file__, _requests2),
                await _ask("a2a", a2a.model, a2a_url, a2a.__file__, _requests),
            ]


async def _ask(
    name: str,
    caller: Caller,
    url: str,
    file: str,
    recording: Callable[[list[str]], AbstractContextManager[None]],
) -> Wire:
    said: list[str] = []
    asked: list[str] = []

    def reply(question: str) -> str:
        asked.append(question)
        return SCRIPT.replies[0]

    with recording(said):
        async with asyncio.timeout(_LIMIT_S):
            answer = await caller(url, text_of(SCRIPT.question()), reply)
    return Wire(name, lines_of(Path(file)), tuple(said), answer, tuple(asked))


@asynccontextmanager
async def _gateway(url: str, kind: str, *words: str) -> AsyncGenerator[str]:
    """Run a gateway as a process; give its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "threadbus.agents.cli", "gateway", kind, "--json"),
        *("--http", "127.0.0.1:0", "--url", url, *words),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("a pipe is missing")
        async with asyncio.timeout(_LIMIT_S):
            line = await process.stdout.readline()
        yield str(json.loads(line)["url"]).removesuffix("/mcp")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class _Recorder:
    """Passes everything on to a bus, and notes what is called."""

    def __init__(self, target: Any, said: list[str], path: str = "") -> None:
        self._target = target
        self._said = said
        self._path = path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        path = f"{self._path}{name}"
        if not callable(found):
            return _Recorder(found, self._said, f"{path}.")

        def call(*arguments: Any, **named: Any) -> Any:
            self._said.append(path)
            return found(*arguments, **named)

        return call


@contextmanager
def _operations(said: list[str]) -> Generator[None]:
    """Note the operations of the bus that the native program uses."""

    @asynccontextmanager
    async def recorded(*arguments: Any, **named: Any) -> AsyncGenerator[Any]:
        said.append("connect")
        async with connect(*arguments, **named) as bus:
            yield _Recorder(bus, said)

    with patch.object(native, "connect", recorded):
        yield


@contextmanager
def _requests(said: list[str]) -> Generator[None]:
    with _noting(httpx.AsyncHTTPTransport, said):
        yield


@contextmanager
def _requests2(said: list[str]) -> Generator[None]:
    with _noting(httpx2.AsyncHTTPTransport, said):
        yield


@contextmanager
def _noting(transport: Any, said: list[str]) -> Generator[None]:
    """Note the requests of an HTTP client: the method of JSON-RPC, or of HTTP."""
    handle = transport.handle_async_request

    async def noted(self: Any, request: Any) -> Any:
        said.append(_kind(request))
        return await handle(self, request)

    with patch.object(transport, "handle_async_request", noted):
        yield


def _kind(request: Any) -> str:
    try:
        body = json.loads(request.content)
        return str(body.get("method", "a response"))
    except ValueError:
        return f"{request.method} {request.url.path}"


def table(wires: Sequence[Wire]) -> str:
    """Return the figures as Markdown, beside the paper's."""
    rows = [
        "| Wire | Lines | Primitives | Stages | Paper: lines, primitives, stages |",
        "|---|---:|---:|---:|---|",
    ]
    for wire in wires:
        paper = ", ".join(map(str, PAPER.get(wire.name, ()))) or "-"
        rows.append(f"| {wire.name} | {wire.lines} | {wire.primitives} | {wire.stages} | {paper} |")
    rows += [
        "",
        f"The team, the same for every wire: {team_lines()} lines, without its parser.",
        "",
    ]
    rows += [*(f"- {wire.name}: {', '.join(wire.said)}" for wire in wires)]
    return "\n".join(rows)


def main() -> None:
    """Run it, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    wires = asyncio.run(measure())
    print(table(wires))
    if given.json is not None:
        text = json.dumps([asdict(wire) for wire in wires], indent=2)
        given.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
