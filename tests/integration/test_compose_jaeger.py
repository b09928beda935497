"""`bus up --jaeger` where Docker runs it: up, taking spans, and gone with the command."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest

from tests.support.busreplay import busreplay
from tests.support.cli import Cli, echo, ended, environment, line_with, living, process
from tests.support.compose import require_images, run
from tests.support.eventually import eventually
from tests.support.jaeger import Jaeger, free_ports
from threadbus.agents.cli.results import Asked, Up

IMAGE = "threadbus-offline/jaeger:local"


def containers(port: int) -> list[str]:
    """Return the containers, of any state, that publish a port."""
    listed = run(["docker", "ps", "--all", "--format", "{{.ID}} {{.Ports}} {{.Names}}"])
    return [line for line in listed.splitlines() if f":{port}->" in line]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_docker_runs_jaeger_and_ends_it(tmp_path: Path, how: signal.Signals) -> None:
    """No binary on this machine: the image is run, gets a trace, and leaves no container."""
    require_images("jaeger")
    docker = shutil.which("docker")
    assert docker is not None
    # A PATH with Docker and without a Jaeger, and a home without one.
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "docker").symlink_to(docker)
    for tool in ("sh", "sleep"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    page, otlp = free_ports(2)
    bare = {"HOME": str(tmp_path), "PATH": str(tools), "BUS_JAEGER_IMAGE": IMAGE}
    env = environment(tmp_path, {**bare, "DOCKER_HOST": os.environ.get("DOCKER_HOST", "")})
    env = {name: value for name, value in env.items() if value}
    words = ("up", "--port=0", f"--data={tmp_path / 'data'}", "--jaeger", "--json")
    ports = (f"--jaeger-port={page}", f"--otlp-port={otlp}")
    async with process(*words, *ports, env=env) as running:
        up = msgspec.json.decode(await line_with(running, '"url"'), type=Up)
        there = Jaeger(f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{page}")
        cli = Cli(up.url, tmp_path)
        async with living(up.url, echo("parrot")):
            asked = (await cli("ask", "hello", "--to", "parrot", "--json")).json(Asked)
        sent = await asyncio.to_thread(
            busreplay, asked.task, "--otlp", there.otlp, BUS_URL=up.url, BUS_JAEGER_UI=there.page
        )
        assert sent.returncode == 0, sent.stderr
        await there.has(asked.task, 3)
        assert len(containers(page)) == 1
        running.send_signal(how)
        ran = await ended(running)
    if how is signal.SIGINT:
        assert ran.code == 0, ran.err
        assert containers(page) == []
    await eventually(lambda: containers(page) == [], "that no container is left", 60)
