"""Who an A2A client is, what it may see, and what the cards say."""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Client, Stepper, gateway, message, pieces
from tests.support.eventually import eventually
from tests.support.running_agents import running as running_agent
from threadbus.gateways.principals import add_token
from threadbus.schemas import MAIN_THREAD, TaskId


async def test_others_see_nothing(bus_url: str, tmp_path: Path) -> None:
    """Tasks and contexts of another principal do not exist, for every operation."""
    tokens = tmp_path / "tokens.json"
    ada, bob = add_token(tokens, "ada"), add_token(tokens, "bob")
    as_ada, as_bob = ({"Authorization": f"Bearer {token}"} for token in (ada, bob))
    async with gateway(bus_url, tck, tokens=tokens) as (client, _):
        sent = await client.result("SendMessage", message("p", contextId="mine"), headers=as_ada)
        task = sent["task"]["id"]
        errors = [
            await client.error(method, params, headers=as_bob)
            for method, params in (
                ("GetTask", {"id": task}),
                ("CancelTask", {"id": task}),
                ("SubscribeToTask", {"id": task}),
                ("SendMessage", message("b", taskId=task)),
            )
        ]
        missing = await client.error("GetTask", {"id": "0" * 31 + "1"}, headers=as_bob)
        listed = await client.result("ListTasks", {"contextId": "mine"}, headers=as_bob)
        own = await client.result("ListTasks", {"contextId": "mine"}, headers=as_ada)
        same = await client.result("SendMessage", message("p", contextId="mine"), headers=as_bob)
        nobody = await client.http.post(client.url + "/rpc", json={})
        wrong = await client.http.post(
            client.url + "/rpc", json={}, headers={"Authorization": "Bearer " + "x" * 40}
        )
        extended = await client.result("GetExtendedAgentCard", {}, headers=as_ada)
        key = await client.result("GetTask", {"id": task}, headers={"X-API-Key": ada})

    assert {error["code"] for error in errors} == {-32001}
    assert {error["message"] for error in errors} == {missing["message"]}
    assert listed["tasks"] == []
    assert [found["id"] for found in own["tasks"]] == [task]
    assert same["task"]["id"] != task
    assert (nobody.status_code, wrong.status_code) == (401, 401)
    assert extended["name"] == "threadbus"
    assert key["id"] == task


async def test_cards(bus_url: str) -> None:
    """Each agent and the bus have a card with ETag and Last-Modified (CARD-CACHE-001 to -003)."""
    async with gateway(bus_url, tck) as (client, _):
        whole = await client.http.get(client.url + "/.well-known/agent-card.json")
        catalogue = (await client.http.get(client.url + "/agents")).json()
        entry = next(entry for entry in catalogue["agents"] if entry["name"] == "tck")
        one = await client.http.get(entry["card"])
        same = await client.http.get(entry["card"], headers={"If-None-Match": one.headers["etag"]})
        dated = [
            await client.http.get(entry["card"], headers={"If-Modified-Since": date})
            for date in (
                one.headers["last-modified"],
                "Mon, 01 Jan 2001 00:00:00 GMT",
                "no date at all",
                "Mon, 30 Nov 99999999999 00:00:00 GMT",
                "Mon, 01 Jan 0001 00:00:00 -0000",
            )
        ]
        tag = one.headers["etag"]
        tagged = [
            await client.http.get(entry["card"], headers={"If-None-Match": tags})
            for tags in (f'"x, y", {tag}', tag.removeprefix("W/"), "*", '"a*b"', tag[3:-1])
        ]
        head = await client.http.head(entry["card"])
        both = {
            "If-None-Match": 'W/"other"',
            "If-Modified-Since": one.headers["last-modified"],
        }
        tag_counts = await client.http.get(entry["card"], headers=both)
        missing = await client.http.get(client.url + "/agents/nobody/.well-known/agent-card.json")
        through = Client(client.url, client.http, "/agents/tck/rpc")
        task = await through.send("through its card")

    assert whole.json()["name"] == "threadbus"
    assert "tck" in {skill["id"] for skill in whole.json()["skills"]}
    assert one.json()["supportedInterfaces"][0]["url"] == f"{client.url}/agents/tck/rpc"
    assert one.headers["last-modified"].endswith("GMT")
    assert (same.status_code, same.content) == (304, b"")
    assert [response.status_code for response in dated] == [304, 200, 200, 200, 200]
    assert [response.status_code for response in tagged] == [304, 304, 304, 200, 200]
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert tag_counts.status_code == 200
    assert missing.status_code == 404
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_card_that_changes_has_another_date(bus_url: str) -> None:
    """Who asks by date alone hears of an agent that went away, and of a gateway that is another."""
    async with gateway(bus_url) as (client, bus):
        url = client.url + "/.well-known/agent-card.json"
        async with running_agent(tck.renamed("leaves"), bus):
            before = await client.http.get(url)
            one = await client.http.get(f"{client.url}/agents/leaves/.well-known/agent-card.json")
        dated = {"If-Modified-Since": before.headers["last-modified"]}

        async def is_told() -> bool:
            return (await client.http.get(url, headers=dated)).status_code == 200

        await eventually(is_told, "the agent that went away is not on the card any more")
        then = parsedate_to_datetime(one.headers["last-modified"]).timestamp()
        await eventually(lambda: time.time() >= then + 1, "it is another second")
    async with gateway(bus_url) as (other, _):
        dated = {"If-Modified-Since": one.headers["last-modified"]}
        again = await other.http.get(
            f"{other.url}/agents/leaves/.well-known/agent-card.json", headers=dated
        )

    assert "leaves" in {skill["id"] for skill in before.json()["skills"]}
    assert again.status_code == 200


async def test_a_removed_participant_sees_it_no_more(bus_url: str) -> None:
    """Membership is the bus's: who is taken out of the main thread has no task any more."""
    async with gateway(bus_url, tck) as (client, bus):
        asked = await client.send("tck-input-required-m")
        agent = bus.acting_as("tck")
        await agent.threads.remove(TaskId(asked["id"]), MAIN_THREAD, "a2a-guest")
        error = await client.error("GetTask", {"id": asked["id"]})
        listed = await client.result("ListTasks", {})

    assert error["code"] == -32001
    assert asked["id"] not in {task["id"] for task in listed["tasks"]}


async def test_a_removed_participant_hears_nothing_more(bus_url: str) -> None:
    """A stream that runs already ends where its principal is taken out, before what follows."""
    stepper = Stepper("removes")
    async with gateway(bus_url, stepper.agent) as (client, bus):
        sent = message("until removed", configuration={"returnImmediately": True})
        task = TaskId((await client.result("SendMessage", sent))["task"]["id"])
        agent = bus.acting_as("removes")
        async with (
            client.stream("SubscribeToTask", {"id": task}) as subscribed,
            client.stream("SendStreamingMessage", message("until removed")) as sending,
        ):
            streams = [subscribed, sending]
            seen = [[await anext(stream)] for stream in streams]
            stepper.step()
            for stream, events in zip(streams, seen, strict=True):
                while "piece 0" not in pieces(events):
                    events.append(await anext(stream))
            await agent.threads.remove(task, MAIN_THREAD, "a2a-guest")
            stepper.step(5)
            async with asyncio.timeout(PATIENCE_S):
                for stream, events in zip(streams, seen, strict=True):
                    events += [event async for event in stream]

    assert [pieces(events) for events in seen] == [["piece 0"], ["piece 0"]]


async def test_two_principals_with_one_message_id(bus_url: str, tmp_path: Path) -> None:
    """Who shares a task and calls a message as another one did has said something of its own."""
    tokens = tmp_path / "tokens.json"
    as_ada, as_bob = (
        {"Authorization": f"Bearer {add_token(tokens, name)}"} for name in ("ada", "bob")
    )
    stepper = Stepper("shared")
    bob = tck.renamed("bob")
    async with gateway(bus_url, stepper.agent, bob, tokens=tokens) as (client, bus):

        async def say(as_who: dict[str, str], text: str) -> dict[str, Any]:
            config = {"returnImmediately": True}
            sent = message("m-2", text, taskId=task, configuration=config)
            found = await client.result("SendMessage", sent, headers=as_who)
            return dict(found["task"])

        sent = message("m-1", configuration={"returnImmediately": True})
        task = (await client.result("SendMessage", sent, headers=as_ada))["task"]["id"]
        own = await client.result("SendMessage", sent, headers=as_bob)
        await bus.acting_as("ada").threads.add(TaskId(task), MAIN_THREAD, "bob")
        await say(as_ada, "of ada")
        await say(as_bob, "of bob")
        last = await say(as_bob, "of bob")

    assert own["task"]["id"] != task
    assert [one["parts"][0]["text"] for one in last["history"] if one["messageId"] == "m-2"] == [
        "of ada",
        "of bob",
    ]


OLD_EXTENDED = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}


async def test_the_extended_card_and_files_are_not_for_everybody(
    bus_url: str, tmp_path: Path
) -> None:
    """Without a token no extended card; content of a task is for who takes part in it."""
    tokens = tmp_path / "tokens.json"
    ada, bob = add_token(tokens, "ada"), add_token(tokens, "bob")
    as_ada, as_bob = ({"Authorization": f"Bearer {token}"} for token in (ada, bob))
    spoken = {"A2A-Version": "1.0"}
    large = [{"raw": "QUJD" * (400 * 1024), "mediaType": "application/octet-stream"}]
    async with gateway(bus_url, tck, tokens=tokens) as (client, _):
        calls = [
            client.http.get(client.url + path, headers={**spoken, **headers})
            for path in ("/rest/extendedAgentCard", "/agents/tck/rest/extendedAgentCard")
            for headers in ({}, {"Authorization": "Bearer x"}, {"X-API-Key": "x"}, as_bob)
        ]
        cards = [await call for call in calls]
        public = await client.http.get(client.url + "/agents/tck/.well-known/agent-card.json")
        sent = message("file", parts=large)
        task = (await client.result("SendMessage", sent, headers=as_ada))["task"]
        url = task["history"][0]["parts"][0]["url"]
        files = [
            (await client.http.get(url, headers=headers)).status_code
            for headers in ({}, as_bob, as_ada)
        ]
        old_cards = [
            (await client.http.post(client.url + "/rpc", json=OLD_EXTENDED, headers=headers)).json()
            for headers in ({}, {"Authorization": "Bearer x"}, as_bob)
        ]
    async with gateway(bus_url, tck) as (client, _):
        open_card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()
        error = await client.error("GetExtendedAgentCard", {})
        old = await client.http.post(client.url + "/rpc", json=OLD_EXTENDED)
        old_rest = await client.http.get(client.url + "/rest/v1/card")

    assert [card.status_code for card in cards] == [401, 401, 401, 200] * 2
    assert "living" not in public.json()["description"]
    assert files == [401, 404, 200]
    assert not open_card["capabilities"]["extendedAgentCard"]
    assert error["code"] == -32007
    assert ["result" in answer for answer in (*old_cards, old.json())] == [
        False,
        False,
        True,
        False,
    ]
    assert old_rest.status_code == 400
