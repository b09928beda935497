"""A real model, run by llama.cpp on this machine: one question, and teams that it cannot lead."""

from __future__ import annotations

import os
import re
import sys
from asyncio import create_subprocess_exec, subprocess, timeout
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.agent_process import agent_process
from tests.support.cli import environment, line_with, process
from tests.support.require import require
from tests.support.running_agents import find
from tests.support.tree import ROOT
from threadbus.agents.model.local import HINT, NAME, model_file
from threadbus.bus import connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    AgentName,
    Event,
    ModelCalled,
    TaskClosed,
    TaskStatus,
    decode_event,
    text_of,
)

ELSEWHERE = os.environ.get("THREADBUS_LOCAL_MODEL") == "none"
"""Set in CI where the model was asked on another Python already."""
PATIENCE = timedelta(seconds=240)
"""The model shares the cores with the agents and with other tests."""
pytestmark = [
    pytest.mark.skipif(ELSEWHERE, reason="the model was asked on another Python"),
    pytest.mark.timeout(300),
]


@asynccontextmanager
async def local_model() -> AsyncGenerator[str]:
    """Serve the model; yields the base URL."""
    require(f"a local model ({HINT})", model_file() and find_spec("xllamacpp"))
    serving = await create_subprocess_exec(
        # One thread: several wait for one another in circles where the machine is busy.
        *(sys.executable, "-m", "threadbus.agents.model.local", "--port", "0", "--threads", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield (await line_with(serving, "http://")).strip()
    finally:
        serving.terminate()
        async with timeout(60):
            await serving.communicate()


def variables(url: str) -> dict[str, str]:
    """Return what has agents ask the model, with answers that are short."""
    return {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none",
        "BUS_MODEL": NAME,
        "BUS_COMPLETION_MAX_TOKENS": "12",
        "BUS_COMPLETION_DEADLINE": "240",
        "BUS_COMPLETION_TIMEOUT": "240",
    }


async def test_a_real_model_answers_a_question() -> None:
    """The words come as they are made, and the log has the answer and what the server counted."""
    shown: list[str] = []

    def watch(_sender: AgentName, value: Any) -> None:
        if value["kind"] == "delta":
            shown.append(value["text"])

    async with local_model() as url, EmbeddedServer() as server:
        environ = {**variables(url), "BUS_URL": server.url}
        async with (
            agent_process(str(ROOT / "examples/evaluation/answerer.py:agent"), environ),
            connect(server.url, name="user") as bus,
        ):
            opened = await bus.tasks.open("Name a colour.", to=["answerer"])
            task = opened.event.task
            async with bus.watching_live(task, watch):
                answer = await bus.waits.for_answer(task, timeout=PATIENCE)
            (called,) = await find(bus, task, ModelCalled)

    assert isinstance(called.data, ModelCalled)
    said = text_of(answer.parts)
    assert said.strip()
    assert text_of(called.data.output) == said
    # Whoever begins to watch late misses the first words.
    assert len(shown) > 1
    assert said.endswith("".join(shown))
    assert called.data.streamed
    assert called.data.first_token_ns is not None
    assert not called.data.estimated
    assert 0 < called.data.output_tokens <= 12
    assert called.data.input_tokens > 10
    assert called.data.error is None


def exported(out: str) -> list[Event]:
    """Return the events of the log that a demo names in what it says."""
    found = re.search(r"--file (\S+)", out)
    assert found is not None, out
    rows = [msgspec.json.decode(line) for line in Path(found[1]).read_bytes().splitlines()]
    return [decode_event(msgspec.json.encode(row["event"])) for row in rows]


@pytest.mark.parametrize("team", ["anemoi", "ioa", "york"])
async def test_a_model_that_cannot_lead_a_team_ends_it_in_order(team: str, tmp_path: Path) -> None:
    """A tiny model makes no plan, no team and no model: that is on record, with the reason."""
    async with local_model() as url:
        env = environment(tmp_path, {**variables(url), "BUS_YORK_ATTEMPTS": "1"})
        async with process("demo", team, "--model", NAME, env=env, cwd=ROOT) as demo:
            async with timeout(PATIENCE.total_seconds()):
                out, err = await demo.communicate()

    said = out.decode() + err.decode()
    events = exported(said)
    (closed,) = [event.data for event in events if isinstance(event.data, TaskClosed)]
    called = [event.data for event in events if isinstance(event.data, ModelCalled)]
    assert called
    assert not any(one.estimated for one in called)
    if closed.outcome is TaskStatus.COMPLETED:  # it may happen, and is welcome
        assert demo.returncode == 0
    else:
        assert demo.returncode == 1
        assert closed.outcome is TaskStatus.FAILED
        assert closed.summary
        assert "Traceback" not in said
