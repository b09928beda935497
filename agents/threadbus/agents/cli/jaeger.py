"""A Jaeger beside the server: found on this machine, or run by Docker, and ended with us.

Jaeger keeps traces in memory here: what it shows is gone when it stops, and can be sent again at
any time, since the log is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from threadbus.agents.errors import AgentError
from threadbus.bus import SteadyLog

VARIABLE: Final = "BUS_JAEGER"
"""The Jaeger binary; where it is absent, one on the PATH or one that ops/jaeger.sh built."""

IMAGE_VARIABLE: Final = "BUS_JAEGER_IMAGE"
DEFAULT_IMAGE: Final = "jaegertracing/jaeger:2.13.0"
OTLP_PORT: Final = 4318
UI_PORT: Final = 16686

_MAX_TRACES: Final = 20_000
_START_S: Final = 60.0
_PULL_S: Final = 600.0
"""The first time Docker gets the image before it starts."""
_STOP_S: Final = 1.0
"""It waits longer for its own connections; what it holds is gone anyway."""
_REMOVE_S: Final = 20.0
"""For Docker to end and remove a container."""
_LOOK_S: Final = 0.1
_TOLD_CHARS: Final = 600
_MAX_ANSWER_BYTES: Final = 64 * 1024

# A watchdog reads a pipe of which we hold the other end, and ends the group when we are gone,
# however we died (see threadbus.bus.server). A container is no process of the group: the first
# word is what removes it, and that is done again for one that was just being made.
_LEASHED: Final = """\
undo=$1
shift
exec 3<&0 </dev/null
(trap '' TERM; read -r _ <&3; eval "$undo"; kill -TERM 0; sleep 1; eval "$undo"; kill -KILL 0) &
exec 3<&-
exec "$@"
"""
_NOTHING: Final = ":"
# It needs nothing of this machine but memory.
_BOUNDED: Final = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--memory", "1g"),  # noqa: S108
    *("--security-opt", "no-new-privileges", "--pids-limit", "256"),
)
_log: Final = SteadyLog("threadbus.cli")


class JaegerMissingError(AgentError):
    """There is neither a Jaeger nor a Docker engine on this machine."""

    def __init__(self, looked: Sequence[str]) -> None:
        super().__init__(tuple(looked))
        self.looked = tuple(looked)

    def __str__(self) -> str:
        return (
            f"no Jaeger here (looked at {', '.join(self.looked)}) and no Docker to run one; build "
            "one with `sh ops/jaeger.sh` (Go is needed), or get a release of jaeger and say where "
            f"it is with {VARIABLE}"
        )


class JaegerFailedError(AgentError):
    """Jaeger was started and does not answer."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(program, reason)
        self.program = program
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.program} does not run: {self.reason}"


def find_jaeger(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the Jaeger binary of this machine, or None where there is none."""
    for place in _places(environ):
        found = shutil.which(place, path=environ.get("PATH"))
        if found is not None:
            return Path(found)
    return None


def _places(environ: Mapping[str, str]) -> list[str]:
    given = environ.get(VARIABLE)
    if given:
        return [given]
    home = Path(environ.get("HOME") or Path.home())
    return ["jaeger", str(home / ".cache" / "threadbus" / "bin" / "jaeger")]


def jaeger_config(*, otlp_port: int, ui_port: int, query_port: int, assets: Path | None) -> str:
    """Return a configuration: OTLP over HTTP in, traces in memory, the page out; on this host."""
    document: dict[str, Any] = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {
                "traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}
            },
            "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
        },
        "extensions": {
            "jaeger_query": {
                "storage": {"traces": "memory"},
                "http": {"endpoint": f"127.0.0.1:{ui_port}"},
                "grpc": {"endpoint": f"127.0.0.1:{query_port}"},
                **({} if assets is None else {"ui": {"assets_path": str(assets)}}),
            },
            "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": _MAX_TRACES}}}},
        },
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{otlp_port}"}}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
    }
    # JSON is YAML.
    return json.dumps(document, indent=2)


@asynccontextmanager
async def running_jaeger(
    *,
    otlp_port: int = OTLP_PORT,
    ui_port: int = UI_PORT,
    environ: Mapping[str, str] = os.environ,
) -> AsyncGenerator[str]:
    """Run a Jaeger for as long as the context lasts.

    Args:
        otlp_port: where it takes spans.
        ui_port: where its page and its API are.
        environ: says where it is (``BUS_JAEGER``), or which image Docker runs.

    Yields:
        What runs, for a person.

    Raises:
        JaegerMissingError: there is none, and no Docker.
        JaegerFailedError: it ended, or does not answer.

    Cancellation: ends it.
    """
    binary = find_jaeger(environ)
    docker = shutil.which("docker", path=environ.get("PATH")) if binary is None else None
    if binary is None and (docker is None or environ.get(VARIABLE)):
        looked = _places(environ)
        raise JaegerMissingError(looked)
    with tempfile.TemporaryDirectory(prefix="threadbus-jaeger-") as folder:
        output = Path(folder) / "output"
        if binary is not None:
            assets = binary.parent / "jaeger-ui"
            config = Path(folder) / "config.yaml"
            config.write_text(
                jaeger_config(
                    otlp_port=otlp_port,
                    ui_port=ui_port,
                    query_port=_free_port(),
                    assets=assets if (assets / "index.html").is_file() else None,
                )
            )
            what, words = str(binary), [str(binary), "--config", f"file:{config}"]
            undo, start_s, stop_s = _NOTHING, _START_S, _STOP_S
        else:
            image = environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE
            ports = [f"127.0.0.1:{otlp_port}:{OTLP_PORT}", f"127.0.0.1:{ui_port}:{UI_PORT}"]
            program, name = docker or "docker", f"threadbus-jaeger-{secrets.token_hex(6)}"
            words = [program, "run", "--rm", "--init", "--name", name, *_BOUNDED]
            for port in ports:
                words += ["--publish", port]
            what, words = f"{image} in Docker", [*words, image]
            undo = f"{shlex.join([program, 'rm', '--force', name])} >/dev/null 2>&1"
            start_s, stop_s = _PULL_S, _REMOVE_S
            _log.info("starting Jaeger in Docker; the first time its image is pulled", image=image)
        async with _leashed(words, output, environ, undo, stop_s) as process:
            await _ready(process, ui_port, what, output, start_s)
            yield what


@asynccontextmanager
async def _leashed(
    words: Sequence[str], output: Path, environ: Mapping[str, str], undo: str, stop_s: float
) -> AsyncGenerator[Process]:
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            _LEASHED,
            "threadbus-watchdog",
            undo,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env=dict(environ),
        )
    try:
        yield process
    finally:
        if process.stdin is not None:
            # The watchdog ends the group now; asyncio waits for the end of this pipe as well.
            process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(stop_s):
                    await process.wait()
        # The watchdog, which waits to kill, and whatever is left of the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _ready(process: Process, port: int, what: str, output: Path, start_s: float) -> None:
    """Wait until it answers."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + start_s
    while not await _answers(port):
        if process.returncode is not None:
            raise JaegerFailedError(what, f"it ended: {_told(output)}")
        if loop.time() >= deadline:
            raise JaegerFailedError(what, f"no answer at port {port}: {_told(output)}")
        await asyncio.sleep(_LOOK_S)
    # It may be another one's answer: ours ends soon when its ports are taken.
    await asyncio.sleep(_LOOK_S)
    if process.returncode is not None:
        raise JaegerFailedError(what, f"it ended: {_told(output)}")


def _free_port() -> int:
    """Return a port for what nobody asks: Jaeger insists on one for gRPC."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"GET /api/v3/services HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        await writer.drain()
        # To its end: Jaeger's own end waits for answers that nobody takes.
        return b" 200 " in (await reader.read(_MAX_ANSWER_BYTES)).split(b"\n", 1)[0]
    except OSError:
        return False
    finally:
        writer.close()


def _told(output: Path) -> str:
    text = output.read_text("utf-8", "replace").strip()
    lines = [line for line in text.splitlines() if "rror" in line] or text.splitlines()
    return " ".join(" ".join(lines[-3:]).split())[-_TOLD_CHARS:] or "it said nothing"
