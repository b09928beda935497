"""Answers that are plain messages, in streams: of an agent that says it may answer so."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb

from tests.support.a2a_gateway import PATIENCE_S, Json, gateway, message
from threadbus.agents import Agent, Mention, Reply
from threadbus.gateways.a2a import handler
from threadbus.gateways.a2a.parts import PLAIN_MESSAGE
from threadbus.schemas import TextPart


def chatty(go: asyncio.Event | None = None) -> Agent:
    """Return an agent that talks, or works where it is asked to."""
    agent = Agent("chatty", output_modes=("text/plain", PLAIN_MESSAGE))

    @agent.on_mention
    async def handle(mention: Mention) -> Reply:
        if go is not None:
            await go.wait()
        if mention.text == "work":
            await mention.save("piece", TextPart("1"))
            return "worked"
        if mention.text == "ask":
            return f"so {await mention.request_input('what?')}"
        return TextPart(f"hi {mention.text}", PLAIN_MESSAGE)

    return agent


async def test_a_stream_of_one_message(bus_url: str) -> None:
    """A message is all of the stream, over both bindings, and again for the same messageId."""
    async with gateway(bus_url, chatty()) as (client, _):
        streams: list[list[Json]] = []
        for _ in range(2):
            async with client.stream("SendStreamingMessage", message("talk")) as stream:
                streams.append([event async for event in stream])
        rest = await client.http.post(
            client.url + "/rest/message:stream",
            json=message("talk"),
            headers={"A2A-Version": "1.0"},
        )
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            config = ClientConfig(httpx_client=http)
            peer = await create_client(f"{client.url}/agents/chatty", config)
            said = pb.Message(message_id="t", role=pb.ROLE_USER, parts=[pb.Part(text="you")])
            request = pb.SendMessageRequest(message=said)
            heard = [event async for event in peer.send_message(request)]
        task = await client.result(
            "GetTask", {"id": streams[0][0]["message"]["metadata"]["threadbus.task"]}
        )

    assert [list(event) for event in streams[0]] == [["message", "id"]]
    assert streams[0][0]["message"]["parts"][0]["text"] == "hi hello"
    assert streams[1] == streams[0]
    assert rest.text.count("data:") == 1
    assert '"message"' in rest.text
    assert [event.message.parts[0].text for event in heard] == ["hi you"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_task_comes_whole(bus_url: str) -> None:
    """The same agent at work: the stream has everything, from the task on."""
    async with gateway(bus_url, chatty()) as (client, _):
        async with client.stream("SendStreamingMessage", message("w", "work")) as stream:
            worked = [event async for event in stream]
        async with client.stream("SendStreamingMessage", message("q", "ask")) as stream:
            asked = [event async for event in stream]
        task = asked[0]["task"]["id"]
        async with client.stream("SendStreamingMessage", message("a", "x", taskId=task)) as stream:
            answered = [event async for event in stream]

    kinds = [next(iter(event)) for event in worked]
    assert kinds[0] == "task"
    assert worked[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert kinds.count("artifactUpdate") == 2
    assert worked[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert asked[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert next(iter(answered[0])) == "task"
    assert answered[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("text", ["hello", "work"])
async def test_nobody_waits_long(bus_url: str, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """An agent that takes its time is shown as a task after a moment, with nothing missing."""
    monkeypatch.setattr(handler, "_HOLD_S", 0.2)
    go = asyncio.Event()
    async with gateway(bus_url, chatty(go)) as (client, _):
        async with client.stream("SendStreamingMessage", message(f"slow {text}", text)) as stream:
            events = [await anext(stream)]
            go.set()
            events += [event async for event in stream]
        task = await client.result("GetTask", {"id": events[0]["task"]["id"]})

    assert events[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    made = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    assert [one["artifactId"] for one in made] == [one["artifactId"] for one in task["artifacts"]]
