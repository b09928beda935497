"""The deployment of ops/compose.yaml, brought up by a real Docker engine for a test.

Nothing is pulled: `sh ops/compose/offline.sh` made what it builds on.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_nats import docker_engine
from tests.support.jaeger import Jaeger, free_ports
from tests.support.require import require
from threadbus.bus import BusSettings

VARIABLE = "THREADBUS_COMPOSE"
ELSEWHERE = "elsewhere"
"""Value of the variable where another run of the same tests, in CI, has the machine for itself."""

ROOT = Path(__file__).parents[2]
FILE = ROOT / "ops" / "compose.yaml"
BASES = ("python", "nats", "jaeger")
DEADLINE_S = 600.0
_PORTS = ("NATS", "JAEGER", "OTLP", "MCP", "A2A", "METRICS")


@dataclass(frozen=True)
class Deployment:
    """A project that compose knows by name."""

    compose: Sequence[str]
    env: Mapping[str, str]
    project: str
    key: Path
    """Where the key of the person at this machine is."""

    @property
    def settings(self) -> BusSettings:
        """Return how that person connects."""
        return BusSettings(url=self.url, nkey=str(self.key))

    @property
    def bus_env(self) -> dict[str, str]:
        """Return the same as variables of a command."""
        return {"BUS_URL": self.url, "BUS_NKEY": str(self.key)}

    def run(self, *words: str) -> str:
        """Run a compose command; return what it printed."""
        return run([*self.compose, "-f", str(FILE), *words], self.env)

    def port(self, of: str) -> str:
        """Return a published port."""
        return self.env[f"THREADBUS_{of}_PORT"]

    @property
    def url(self) -> str:
        """Where its NATS is."""
        return f"nats://127.0.0.1:{self.port('NATS')}"

    @property
    def jaeger(self) -> Jaeger:
        """Its Jaeger."""
        host = "http://127.0.0.1"
        return Jaeger(f"{host}:{self.port('OTLP')}", f"{host}:{self.port('JAEGER')}")

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return what Docker knows of each container, by the name of its service."""
        ids = self.ids("container", "--all")
        found: list[dict[str, Any]] = json.loads(run(["docker", "inspect", *ids])) if ids else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def ids(self, kind: str, *more: str) -> list[str]:
        """Return the containers, volumes or networks of the project that there are."""
        wanted = f"label=com.docker.compose.project={self.project}"
        return run(["docker", kind, "ls", *more, "--quiet", "--filter", wanted]).split()

    def token(self, agent: str) -> str:
        """Make a token for the gateways, as the documentation says."""
        env = {**self.env, "COMPOSE": " ".join(self.compose)}
        printed: dict[str, str] = json.loads(
            run(["sh", "ops/compose/token.sh", agent, "--json"], env)
        )
        return printed["token"]


def run(words: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; return what it printed, fail with what it complained of."""
    ended = subprocess.run(
        words,
        env=None if env is None else dict(env),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{' '.join(words)}: {ended.stdout}\n{ended.stderr}"
    return ended.stdout


def compose_command() -> list[str] | None:
    """Return the words that start Docker Compose; None where it is missing."""
    plugin = ["docker", "compose"]
    if shutil.which("docker") is None:
        return None
    if subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    built = Path.home() / ".cache" / "threadbus" / "bin" / "docker-compose"
    found = shutil.which("docker-compose") or shutil.which(str(built))
    return None if found is None else [found]


def require_images(*names: str) -> None:
    """Skip, or fail where all is required, without Docker or what offline.sh makes."""
    if os.environ.get(VARIABLE) == ELSEWHERE:
        pytest.skip("the stage for compose has these")
    engine = docker_engine()
    require("a Docker engine that answers (apt-get install docker.io)", engine)
    assert engine is not None
    engine.client.close()  # pyright: ignore[reportUnknownMemberType] - stubs
    tags = [f"threadbus-offline/{name}:local" for name in names]
    there = subprocess.run(["docker", "image", "inspect", *tags], capture_output=True, check=False)
    require(f"{', '.join(tags)} (sh ops/compose/offline.sh)", there.returncode == 0)


@contextmanager
def deployed(folder: Path) -> Generator[Deployment]:
    """Build and start everything; take away whatever is left at the end.

    Args:
        folder: where the key of the person at this machine is put.
    """
    require_images(*BASES)
    compose = compose_command()
    require("Docker Compose (sh ops/compose/plugin.sh)", compose)
    assert compose is not None
    mark = secrets.token_hex(4)
    images = {
        "THREADBUS_IMAGE": f"threadbus:test-{mark}",
        "THREADBUS_NATS_IMAGE": f"threadbus-nats:test-{mark}",
        "THREADBUS_KEYS_IMAGE": f"threadbus-keys:test-{mark}",
    }
    ports = zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BUS_", "OPENAI_", "THREADBUS_", "COMPOSE_"))
    }
    env = {
        **clean,
        **images,
        **{f"THREADBUS_{name}_PORT": port for name, port in ports},
        **{f"{name.upper()}_IMAGE": f"threadbus-offline/{name}:local" for name in BASES},
        "THREADBUS_NO_INDEX": "1",
        "THREADBUS_CHECK_EVERY": "5s",
        "BUS_ACK_WAIT": "5",
        "COMPOSE_PROJECT_NAME": f"threadbus-test-{mark}",
    }
    made = Deployment(compose, env, env["COMPOSE_PROJECT_NAME"], folder / "user.nk")
    run(["sh", "ops/compose/offline.sh", "wheels"], clean)
    try:
        made.run("build", "--quiet")
        try:
            made.run("up", "--detach", "--wait", "--wait-timeout", "240", "--no-build")
        except AssertionError:
            print(made.run("ps", "--all"))
            print(made.run("logs", "--tail", "30"))
            raise
        made.run("cp", "keys:/auth/keys/main/user.nk", str(made.key))
        yield made
    finally:
        subprocess.run(
            [*compose, "-f", str(FILE), "down", "--volumes", "--timeout", "5"],
            env=env,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        subprocess.run(
            ["docker", "image", "rm", "--force", *images.values()],
            capture_output=True,
            check=False,
        )
