"""A whole collaboration over A2A: a question in the middle, a kill, and one trace for all of it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx
import msgspec

from tests.support.a2a_gateway import PATIENCE_S, Client, gateway, message, pieces
from tests.support.busreplay import busreplay
from tests.support.cli import Cli, line_with, process
from threadbus.agents import Agent, Mention
from threadbus.gateways.a2a.commands import Serving
from threadbus.schemas import TextPart

_ATTEMPTS = 3


def team(asked: asyncio.Event) -> tuple[Agent, Agent, Agent]:
    """Return who models, who checks the syntax, who checks the meaning."""
    modeller, syntax, meaning = Agent("modeller"), Agent("syntax"), Agent("meaning")

    @syntax.on_mention
    async def check(mention: Mention) -> str:
        return "ok" if mention.text.endswith(";") else "a semicolon is missing"

    @meaning.on_mention
    async def judge(mention: Mention) -> str:
        return "ok" if "net" in mention.text else "which amount is meant?"

    @modeller.on_mention
    async def model(mention: Mention) -> str:
        model, unit = "amount", ""
        for attempt in range(_ATTEMPTS):
            await mention.save(f"attempt {attempt}", TextPart(model))
            problem = await mention.ask("syntax", model)
            if problem != "ok":
                model += ";"
                continue
            problem = await mention.ask("meaning", model)
            if problem == "ok":
                return model
            asked.set()
            unit = unit or await mention.request_input(problem)
            model = f"{unit} {model}"
        return model

    return modeller, syntax, meaning


async def _until_asked(client: Client, seen: list[dict[str, Any]]) -> None:
    """Ask, and follow until the team has a question of its own."""
    sent = message("york", "Model the amount.", contextId="york")
    async with client.stream("SendStreamingMessage", sent) as stream:
        seen += [event async for event in stream]


async def test_a_collaboration_over_a2a(cli: Cli) -> None:
    """Attempts, checks, a question answered elsewhere after a kill: one run, nothing twice."""
    asked = asyncio.Event()
    agents = team(asked)
    words = ("gateway", "a2a", "--http", "127.0.0.1:0", "--json", "--team", "modeller")
    async with (
        gateway(cli.url, *agents) as (second, _),
        process(*words, "--team", "syntax", "--team", "meaning", env=cli.env) as running,
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
    ):
        served = msgspec.json.decode(await line_with(running, '"card"'), type=Serving)
        seen: list[dict[str, Any]] = []
        await _until_asked(Client(served.url, http), seen)
        os.kill(running.pid, signal.SIGKILL)
        task = seen[0]["task"]["id"]
        last = {"Last-Event-ID": seen[-1]["id"]}
        async with second.stream("SubscribeToTask", {"id": task}, headers=last) as stream:
            snapshot = await anext(stream)
            await second.call(
                "SendMessage",
                message("unit", "net", taskId=task, configuration={"returnImmediately": True}),
            )
            seen += [event async for event in stream]
        run = await asyncio.to_thread(busreplay, task, BUS_URL=cli.url)
        told = run.stdout.decode()

    assert asked.is_set()
    assert snapshot["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert pieces(seen) == ["attempt 0", "attempt 1", "attempt 2", "answer"]
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert run.returncode == 0
    for name in ("modeller", "syntax", "meaning", "a2a-guest", "net amount;"):
        assert name in told
