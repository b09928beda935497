"""What goes wrong in the protocol's library by itself, and does not here."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Stepper, gateway, message, pieces, until_state
from tests.support.a2a_remote import REMOTE, Remote, joined
from threadbus.agents import Agent, Mention
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import TextPart

LOOPBACK = ("127.0.0.0/8",)
ENDS = "one\u2028two\u2029three\u0085four"
RAW = tuple(end.encode() for end in "\u2028\u2029\u0085")


async def test_three_answers_by_task_alone(bus_url: str) -> None:
    """Answers that name no context stay in that of the task, however many there are."""
    async with gateway(bus_url, tck) as (client, _):
        asked = await client.send("step-by-step", contextId="a chat")
        more = [await client.send(f"answer-{n}", "on", taskId=asked["id"]) for n in range(3)]
        done = await client.send("the last", "stop", taskId=asked["id"])
        listed = await client.result("ListTasks", {"contextId": "a chat"})

    told = [asked, *more]
    lines = [line for task in [*told, done] for line in task["history"]]
    assert {task["status"]["state"] for task in told} == {"TASK_STATE_INPUT_REQUIRED"}
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {one["contextId"] for one in [*told, done, *lines]} == {"a chat"}
    assert [task["id"] for task in listed["tasks"]] == [asked["id"]]


async def test_line_ends_of_unicode_on_every_way_out(bus_url: str, tmp_path: Path) -> None:
    """Cards, the catalogue, answers, streams and pushes have them escaped, and say the same."""
    bodies: list[bytes] = []
    is_over = asyncio.Event()
    agent = Agent("lines", display_name="lines", description=ENDS)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return mention.text

    async def hook(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if b"COMPLETED" in bodies[-1]:
            is_over.set()

    options: dict[str, Any] = {"push_key": tmp_path / "k", "push_allow": LOOPBACK}
    async with (
        serving(hook, Address("127.0.0.1", 0)) as served,
        gateway(bus_url, agent, **options) as (client, _),
    ):
        config = {"taskPushNotificationConfig": {"url": served.url}}
        answer = await client.http.post(
            client.url + "/rpc",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendStreamingMessage",
                "params": message("lines", ENDS, configuration=config),
            },
            headers={"A2A-Version": "1.0"},
        )
        card = await client.http.get(client.url + "/agents/lines/.well-known/agent-card.json")
        catalogue = await client.http.get(client.url + "/agents")
        listed = await client.http.get(client.url + "/rest/tasks", headers={"A2A-Version": "1.0"})
        async with asyncio.timeout(PATIENCE_S):
            await is_over.wait()
        bodies += [one.content for one in (answer, card, catalogue, listed)]

    assert not [body for body in bodies for end in RAW if end in body]
    assert card.json()["description"] == ENDS
    pushed = [json.loads(body) for body in bodies[:-4]]
    (update,) = [one["artifactUpdate"] for one in pushed if "artifactUpdate" in one]
    assert [part["text"] for part in update["artifact"]["parts"]] == [ENDS]


async def test_a_silent_stream_is_waited_for(bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote agent may say nothing for two minutes; the library's own patience is 5 s."""
    patience: list[Any] = []
    send = httpx.AsyncHTTPTransport.handle_async_request

    async def noting(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        patience.append(request.extensions["timeout"]["read"])
        return await send(self, request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", noting)
    async with Remote().running() as port, joined(bus_url, port) as bus:
        await bus.ask("file", to=[REMOTE])

    assert len(patience) >= 2
    assert all(seconds is None or seconds >= 120 for seconds in patience)


async def test_a_webhook_that_hangs_delays_nothing(bus_url: str, tmp_path: Path) -> None:
    """Streams and answers come while a receiver of pushes does not answer at all."""
    asked, release = asyncio.Event(), asyncio.Event()
    got: list[dict[str, Any]] = []

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        asked.set()
        await release.wait()
        got.append(json.loads(body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    stepper = Stepper("hung")
    options: dict[str, Any] = {"push_key": tmp_path / "k", "push_allow": LOOPBACK}
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(hang, Address("127.0.0.1", 0)) as served,
        gateway(bus_url, stepper.agent, **options) as (client, _),
    ):
        config = {"taskPushNotificationConfig": {"url": served.url}}
        sent = message("hung", configuration=config)
        stepper.step(6)
        async with client.stream("SendStreamingMessage", sent) as stream:
            seen = [event async for event in stream]
        await asked.wait()
        assert not got
        release.set()

    assert pieces(seen) == [*(f"piece {number}" for number in range(6)), "answer"]


async def test_a_task_that_makes_much(bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task holds goes out whole up to a bound, then by address, the same to everybody."""
    monkeypatch.setattr("threadbus.gateways.a2a.log.MAX_TASK_BYTES", 2_500_000)
    agent = Agent("much")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        for number in range(5):
            await mention.save(f"piece {number}", TextPart(str(number) * 1_000_000))
        return "done"

    async with gateway(bus_url, agent) as (client, _):
        async with client.stream("SendStreamingMessage", message("much")) as stream:
            seen = [event["artifactUpdate"] async for event in stream if "artifactUpdate" in event]
        task = await client.send("much")
        urls = [part["url"] for one in task["artifacts"] for part in one["parts"] if "url" in part]
        last = await client.http.get(urls[-1])

    assert [one["artifact"]["parts"] for one in seen] == [one["parts"] for one in task["artifacts"]]
    assert len(urls) == 3
    assert last.text == "4" * 1_000_000


async def test_a_parked_task_holds_nothing(bus_url: str) -> None:
    """A task that waits for its client is in the log and nowhere else; it can be cancelled."""
    async with gateway(bus_url, tck) as (client, _):
        parked = [await client.send(f"tck-input-required-{number}-p") for number in range(10)]
        served = [task for task in asyncio.all_tasks() if "run_asgi" in str(task.get_coro())]
        ended = [await client.result("CancelTask", {"id": task["id"]}) for task in parked]
        again = await client.error("SubscribeToTask", {"id": parked[0]["id"]})

    assert not served
    assert {task["status"]["state"] for task in parked} == {"TASK_STATE_INPUT_REQUIRED"}
    assert {task["status"]["state"] for task in ended} == {"TASK_STATE_CANCELED"}
    assert again["code"] == -32004


async def test_a_second_message_to_a_task_that_works(bus_url: str) -> None:
    """It does not wait behind the first, and is a line of the same task."""
    async with gateway(bus_url, tck) as (client, _):
        config = {"returnImmediately": True}
        first = await client.result("SendMessage", message("wait-1", configuration=config))
        task = first["task"]["id"]
        await until_state(client, task, "TASK_STATE_WORKING")
        more = message("more", "and this", taskId=task, configuration=config)
        second = await client.result("SendMessage", more)
        await client.result("CancelTask", {"id": task})

    lines = [line["parts"][0]["text"] for line in second["task"]["history"]]
    assert second["task"]["id"] == task
    assert lines.count("and this") == 1


def test_the_library_makes_no_spans() -> None:
    """Its own tracing is off before anything of ours imports it."""
    code = (
        "import threadbus.gateways.a2a.joining\n"
        "from a2a.utils import telemetry\nprint(telemetry.otel_enabled)"
    )
    name = "OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"
    env = {key: value for key, value in os.environ.items() if key != name}
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("tasks/get", {}, "params.id: Field required"),
        ("tasks/get", {"id": 5}, "params.id: Input should be a valid string"),
        ("message/send", {"message": {"parts": 7}}, "params.message.parts"),
        ("tasks/resubscribe", {}, "params.id: Field required"),
    ],
)
async def test_errors_for_clients_of_0_3(
    bus_url: str, method: str, params: dict[str, Any], said: str
) -> None:
    """Wrong parameters have the code for that, and the words of the protocol alone."""
    async with gateway(bus_url, tck) as (client, _):
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        response = await client.http.post(client.url + "/rpc", json=request)
    answer = response.json()

    assert (answer["id"], answer["error"]["code"]) == (7, -32602)
    assert said in answer["error"]["message"]
    assert "pydantic" not in response.text
    assert "validation error" not in response.text
