"""Several gateways over one log, and gateways that are killed: nothing is theirs to lose."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Client, Stepper, gateway, message, pieces
from tests.support.cli import Cli, line_with, process
from tests.support.running_agents import running as running_agent
from threadbus.bus import connect
from threadbus.gateways.a2a.commands import Serving


@asynccontextmanager
async def gateway_process(cli: Cli, team: str) -> AsyncGenerator[tuple[Process, str]]:
    """Run a gateway in a process of its own; give its URL."""
    words = ("gateway", "a2a", "--http", "127.0.0.1:0", "--team", team, "--json")
    async with process(*words, env=cli.env) as running:
        served = msgspec.json.decode(await line_with(running, '"card"'), type=Serving)
        yield running, served.url


async def test_a_killed_gateway_loses_no_update(cli: Cli) -> None:
    """Killed between two updates, another one goes on: each update comes once, in order."""
    stepper = Stepper("stepper")
    every = [*(f"piece {number}" for number in range(6)), "answer"]
    async with (
        gateway(cli.url, stepper.agent) as (second, _),
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
    ):
        seen: list[dict[str, Any]] = []
        async with gateway_process(cli, "stepper") as (running, url):
            first = Client(url, http)
            try:
                async with first.stream("SendStreamingMessage", message("killed")) as stream:
                    async for event in stream:
                        seen.append(event)
                        stepper.step()
                        if pieces(seen) == every[:2]:
                            os.kill(running.pid, signal.SIGKILL)
            except httpx.HTTPError:
                stepper.step(3)
        task = seen[0]["task"]["id"]
        last = {"Last-Event-ID": seen[-1]["id"]}
        async with second.stream("SubscribeToTask", {"id": task}, headers=last) as stream:
            async for event in stream:
                if "task" not in event:
                    seen.append(event)
                stepper.step()
        ended = {"Last-Event-ID": seen[3]["id"]}
        async with second.stream("SubscribeToTask", {"id": task}, headers=ended) as stream:
            later = [event async for event in stream]

    assert pieces(seen) == every
    places = [event["id"] for event in seen[1:]]
    assert len(set(places)) == len(places)
    assert [event["id"] for event in later[1:]] == places[3:]
    assert pieces(later) == every


async def test_a_subscription_anywhere_sees_the_rest(bus_url: str) -> None:
    """A client without a position gets the task as it is, then what comes, on any gateway."""
    stepper = Stepper("walker")
    async with gateway(bus_url, stepper.agent) as (first, _), gateway(bus_url) as (second, _):
        stepper.step(2)
        async with first.stream("SendStreamingMessage", message("anywhere")) as stream:
            task = (await anext(stream))["task"]["id"]
        async with second.stream("SubscribeToTask", {"id": task}) as stream:
            seen = [await anext(stream)]
            stepper.step(4)
            seen += [event async for event in stream]

    assert pieces(seen) == [*(f"piece {number}" for number in range(6)), "answer"]


async def test_ask_here_stream_there_cancel_here(cli: Cli) -> None:
    """Two processes: asked at one, streamed from the other, cancelled at the first."""
    async with (
        connect(cli.url, name="test") as bus,
        running_agent(tck, bus),
        gateway_process(cli, "tck") as (_, here),
        gateway_process(cli, "tck") as (_, there),
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
    ):
        first, second = Client(here, http), Client(there, http)
        sent = message("wait-r", configuration={"returnImmediately": True})
        task = (await first.result("SendMessage", sent))["task"]["id"]
        async with second.stream("SubscribeToTask", {"id": task}) as stream:
            states: list[str] = []
            async for event in stream:
                told = event.get("task") or event["statusUpdate"]
                states.append(told["status"]["state"])
                if states[-1] == "TASK_STATE_WORKING" and "TASK_STATE_CANCELED" not in states:
                    await first.result("CancelTask", {"id": task})
        late = await second.error("CancelTask", {"id": task})

    assert states[-1] == "TASK_STATE_CANCELED"
    assert late["code"] == -32002


async def test_answers_on_another_gateway(bus_url: str) -> None:
    """A question asked through one gateway is answered through another."""
    async with gateway(bus_url, tck) as (first, _), gateway(bus_url) as (second, _):
        asked = await first.send("tck-input-required-x")
        done = await second.send("x-answer", "green", taskId=asked["id"])
        seen = await first.result("GetTask", {"id": asked["id"]})

    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert seen == done


async def test_a_stop_ends_streams_in_order(bus_url: str) -> None:
    """A gateway that stops ends its streams; the task goes on without it."""
    async with gateway(bus_url, tck) as (first, _):
        async with gateway(bus_url) as (second, _):
            sent = message("wait-s", configuration={"returnImmediately": True})
            task = (await first.result("SendMessage", sent))["task"]["id"]
            entered = asyncio.Event()
            # A connection that outlives the gateway's own client in the test.
            outside = Client(second.url, first.http)

            async def follow() -> list[dict[str, Any]]:
                async with outside.stream("SubscribeToTask", {"id": task}) as stream:
                    seen = [await anext(stream)]
                    entered.set()
                    return [*seen, *[event async for event in stream]]

            following = asyncio.create_task(follow())
            await entered.wait()
        seen = await asyncio.wait_for(following, PATIENCE_S)
        state = await first.result("GetTask", {"id": task})

    assert seen[0]["task"]["id"] == task
    assert state["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}


async def test_fifty_streams_see_the_same(bus_url: str) -> None:
    """Many open streams of one task all see every update."""
    stepper = Stepper("crowd")
    async with gateway(bus_url, stepper.agent) as (client, _):
        sent = message("crowd", configuration={"returnImmediately": True})
        task = (await client.result("SendMessage", sent))["task"]["id"]
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(timeout=PATIENCE_S, limits=limits) as http:
            many = Client(client.url, http)
            entered = asyncio.Barrier(51)

            async def follow() -> list[str]:
                async with many.stream("SubscribeToTask", {"id": task}) as stream:
                    seen = [await anext(stream)]
                    await entered.wait()
                    return pieces([*seen, *[event async for event in stream]])

            following = [asyncio.create_task(follow()) for _ in range(50)]
            await entered.wait()
            stepper.step(6)
            found = await asyncio.wait_for(asyncio.gather(*following), PATIENCE_S)

    assert {tuple(seen) for seen in found} == {(*(f"piece {n}" for n in range(6)), "answer")}
