"""MCP hosts at the gateway, in both eras of the protocol, on a private server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.support.cli import echo, living
from tests.support.eventually import eventually
from tests.support.mcp_hosts import ERAS, Era, Running, serving_gateway
from threadbus.bus import connect
from threadbus.schemas import AgentCard, Presence

both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
async def running(bus_url: str, tmp_path: Path) -> AsyncGenerator[Running]:
    """A gateway on the private server of the module."""
    async with serving_gateway(bus_url, tmp_path) as served:
        yield served


def names(era: str, *suffixes: str) -> list[str]:
    """Return agent names of a test's own."""
    return [f"{suffix}-{era}" for suffix in suffixes]


@both_eras
async def test_hosts_talk_vote_and_answer(running: Running, era: Era) -> None:
    """Two hosts open a thread, wake each other, vote, and end the super-task with its answer."""
    ada_name, bob_name = names(era, "ada", "bob")
    async with running.host(ada_name, era) as ada, running.host(bob_name, era) as bob:
        assert (await bob.call("list_agents"))["you"] == bob_name
        where = (await ada.call("create_thread", name="Sum", participants=[bob_name]))["thread_id"]
        waiting = asyncio.create_task(bob.call("wait_for_mentions", timeout_s=20))
        await ada.call("send_message", thread_id=where, content="2+2?", mentions=[bob_name])
        got = await waiting
        (message,) = got["messages"]
        assert (message["sender"], message["text"]) == (ada_name, "2+2?")
        assert message["respond_with"] == "reply"
        replied = await bob.call(
            "reply", thread_id=where, message_id=message["message_id"], content="4"
        )
        assert replied["mentions"] == [ada_name]
        (answer,) = (await ada.call("wait_for_mentions", timeout_s=20))["messages"]
        assert answer["in_reply_to"] == message["message_id"]
        made = await ada.call("propose", thread_id=where, content="It is 4", voters=[bob_name])
        asked = await bob.call("wait_for_mentions", timeout_s=20, cursor=got["cursor"])
        assert asked["messages"][0]["respond_with"] == "vote"
        await bob.call("vote", thread_id=where, proposal_id=made["message_id"], verdict="approve")
        votes = await ada.call(
            "wait_for_votes", thread_id=where, proposal_id=made["message_id"], timeout_s=20
        )
        assert (votes["reached"], votes["votes"]) == (True, {bob_name: "approve"})
        parked = asyncio.create_task(
            bob.call("wait_for_mentions", timeout_s=20, cursor=asked["cursor"])
        )
        await ada.call(
            "submit_answer", thread_id=where, content="4", sources=[answer["message_id"]]
        )
        ended = await parked
        assert (ended["status"], ended["closed"][0]["summary"]) == ("thread_closed", "4")
        assert "closed (completed). Its summary: 4" in await bob.error(
            "send_message", thread_id=where, content="5"
        )


@both_eras
async def test_work_is_assigned_reported_and_handed_over(running: Running, era: Era) -> None:
    """An assignment goes to one agent; its progress and result come back."""
    boss, worker = names(era, "boss", "worker")
    async with running.host(boss, era) as ada, running.host(worker, era) as bob:
        where = (await ada.call("create_thread", name="Work", participants=[worker]))["thread_id"]
        made = await ada.call("assign", thread_id=where, agent=worker, content="count")
        key = made["message_id"]
        early = await ada.call(
            "wait_for_results", thread_id=where, assignment_ids=[key], timeout_s=0.1
        )
        assert (early["status"], early["missing"]) == ("timeout", [key])
        await bob.call("wait_for_mentions", timeout_s=20)
        await bob.call(
            "report_progress", thread_id=where, assignment_id=key, note="half", fraction=0.5
        )
        await bob.call("reply", thread_id=where, message_id=key, content="3", data={"n": 3})
        done = await ada.call("wait_for_results", thread_id=where, assignment_ids=[key])
        (result,) = done["results"]
        assert (result["status"], result["text"], result["data"]) == ("finished", "3", [{"n": 3}])
        other = await ada.call("assign", thread_id=where, agent=worker, content="fly")
        await bob.call(
            "reply", thread_id=where, message_id=other["message_id"], content="no", declined=True
        )
        failed = await ada.call(
            "wait_for_results", thread_id=where, assignment_ids=[other["message_id"]]
        )
        assert failed["results"][0]["status"] == "failed"
        said = await ada.call("get_thread", thread_id=where)
        assert [m["text"] for m in said["messages"] if m["type"] == "assignment.progressed"] == [
            "half (50%)"
        ]


@both_eras
async def test_resources_show_what_hosts_may_see_and_tell_when_it_changes(
    running: Running, era: Era
) -> None:
    """Threads, tasks and agents are read; a message in a thread is announced to its readers."""
    ada_name, eve_name = names(era, "reads", "eve")
    async with running.host(ada_name, era) as ada, running.host(eve_name, era) as eve:
        opened = await ada.call("create_thread", name="Notes")
        where, task = opened["thread_id"], opened["thread"]["task_id"]
        uri = f"threadbus://threads/{where}"
        listed = {resource.uri for resource in (await ada.client.list_resources()).resources}
        assert {"threadbus://agents", uri, f"threadbus://tasks/{task}"} <= listed
        for wrong in (uri, f"threadbus://tasks/{task}", "threadbus://nonsense"):
            with pytest.raises(MCPError) as refusal:
                await eve.client.read_resource(wrong)
            assert refusal.value.error.code == -32602
        if era == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await ada.client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
            # Following begins a moment later: what is said until it is heard of counts.
            heard = asyncio.create_task(ada.change(types.ResourceUpdatedNotification))
            await _say_until(ada, where, heard)
            assert heard.result().params.uri == uri
            with pytest.warns(MCPDeprecationWarning):
                await ada.client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        else:
            async with ada.client.listen(resource_subscriptions=[uri]) as events:
                first = asyncio.create_task(anext(aiter(events)))
                await _say_until(ada, where, first)
                assert first.result() == ResourceUpdated(uri)
        await eventually(lambda: running.gateway.hub.followed == 0, "nothing is followed")
        contents = (await ada.client.read_resource(uri)).contents[0]
        assert isinstance(contents, types.TextResourceContents)
        assert json.loads(contents.text)["messages"][-1]["text"] == "news"


async def _say_until(host: Any, where: str, heard: asyncio.Task[Any]) -> None:
    async def is_heard() -> bool:
        await host.call("send_message", thread_id=where, content="news")
        await asyncio.wait({heard}, timeout=0.2)
        return heard.done()

    await eventually(is_heard, "the change is announced", 30)


async def test_prompts_teach_how_to_work_in_threads(running: Running) -> None:
    """They are listed with what they take, and a missing argument is named."""
    async with running.host("prompted") as ada:
        listed = (await ada.client.list_prompts()).prompts
        assert {prompt.name for prompt in listed} >= {"lead_a_team", "serve_mentions"}
        got = await ada.client.get_prompt("lead_a_team", {"goal": "find the bug"})
        assert isinstance(got.messages[0].content, types.TextContent)
        assert "find the bug" in got.messages[0].content.text
        with pytest.raises(MCPError, match="Goal: it is missing"):
            await ada.client.get_prompt("lead_a_team", {})


async def test_a_host_is_an_agent_for_as_long_as_it_is_there(running: Running) -> None:
    """It is living while it calls, and its name stays known when it has gone."""
    async with running.host("guest") as ada:
        await ada.call("list_agents")
        async with connect(running.bus_url, name="looks") as bus:
            assert "guest" in [agent.name for agent in await bus.registry.living()]
            running.gateway.desks.leave()
            await eventually(lambda: len(running.gateway.desks) == 0, "the desk is left")
            assert "guest" not in [agent.name for agent in await bus.registry.living()]
            record = await bus.registry.get("guest")
            assert record is not None
            assert record.card.labels == {"via": "mcp"}


async def test_a_name_that_another_process_holds_is_not_taken(running: Running) -> None:
    """A token does not let a host speak for an agent that runs elsewhere."""
    async with living(running.bus_url, echo("taken")), running.host("taken") as ada:
        assert "held by another process" in await ada.error("list_agents")
        with pytest.raises(MCPError, match="held by another process"):
            await ada.client.list_tools()


async def test_a_name_that_is_taken_over_is_given_up(running: Running) -> None:
    """Whoever takes it over in order gets it, and the host hears of it at its next call."""
    async with running.host("moving") as ada, connect(running.bus_url, name="looks") as bus:
        await ada.call("list_agents")
        card = AgentCard(name="moving")
        await bus.registry.register(card, holder="another", takeover=True)
        await eventually(lambda: running.gateway.desks.found("moving") is None, "it is given up")
        beat = Presence(agent="moving", instance="another-1", holder="another")
        await bus.registry.beat(beat)
        assert "held by another process" in await ada.error("list_agents")


@both_eras
async def test_a_change_of_the_threads_is_announced(running: Running, era: Era) -> None:
    """A host that lists its resources hears when there are others."""
    async with running.host(f"threads-{era}", era) as ada:
        await ada.client.list_resources()
        if era == "legacy":
            await ada.call("create_thread", name="New")
            await ada.change(types.ResourceListChangedNotification)
            return
        async with asyncio.timeout(30), ada.client.listen(resources_list_changed=True) as events:
            await ada.call("create_thread", name="New")
            assert isinstance(await anext(aiter(events)), ResourcesListChanged)


async def test_the_trace_of_a_host_and_that_of_its_super_task_are_one(running: Running) -> None:
    """The trace id becomes the id of the task; a second task has it as a label only."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    meta: Any = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    async with running.host("traced") as ada, connect(running.bus_url, name="looks") as bus:
        for expected in (True, False):
            result = await ada.result("create_thread", {"name": "T"}, meta=meta)
            assert result.structured_content is not None
            task = result.structured_content["thread"]["task_id"]
            assert (task == trace) is expected
            entries = [entry async for entry in bus.read(task)]
            assert entries[0].event.data.labels == meta  # type: ignore[union-attr]


async def test_who_has_no_token_is_sent_away(running: Running) -> None:
    """Without one, with a wrong one, and with somebody else's session."""
    async with httpx2.AsyncClient() as http:
        for headers in ({}, {"Authorization": "Bearer " + "x" * 43}, {"Authorization": "Basic eA"}):
            response = await http.post(running.url, json={}, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")


async def test_other_paths_than_the_protocol_s_are_served(running: Running) -> None:
    """Health needs no token; a slash at the end leads to the same place; the rest is not there."""
    root = running.url.removesuffix("/mcp")
    headers = {"Authorization": f"bEARER {running.token('paths')}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        assert (await http.get(f"{root}/healthz")).json() == {"status": "ok"}
        assert (await http.get(f"{root}/other")).status_code == 404
        moved = await http.post(f"{running.url}/", json={})
        assert moved.status_code in {307, 308}
        assert moved.headers["location"].removeprefix("http:") == running.url.removeprefix("http:")
        # The token is good: what is wrong is what was sent.
        assert (await http.post(running.url, json={})).status_code in {400, 406}


@both_eras
async def test_a_host_that_vanishes_in_a_wait_leaves_no_waiter(running: Running, era: Era) -> None:
    """The connection breaks; the mention that comes then is for the next wait."""
    name = f"vanishes-{era}"
    token = running.token(name)
    async with running.host(name, era, token=token) as ada:
        where = (await ada.call("create_thread", name="T"))["thread_id"]
    desk = running.gateway.desks.found(name)
    assert desk is not None
    for _ in range(3):
        gone = asyncio.create_task(_wait_and_vanish(running, name, era, token))
        await eventually(lambda: desk.mailbox.waiters > 0, "the wait has begun")
        gone.cancel()
        await asyncio.wait({gone})
        await eventually(lambda: desk.mailbox.waiters == 0, "nobody waits any more")
    await eventually(lambda: running.gateway.caller.running == 0, "no call runs any more")
    async with running.host(f"says-{era}", era) as bob, running.host(name, era, token=token) as ada:
        await ada.call("list_agents")
        await bob.call("list_agents")
        await ada.call("add_participant", thread_id=where, agent=f"says-{era}")
        await bob.call("send_message", thread_id=where, content="back?", mentions=[name])
        got = await ada.call("wait_for_mentions", timeout_s=20)
        assert [message["text"] for message in got["messages"]] == ["back?"]


async def _wait_and_vanish(running: Running, name: str, era: Era, token: str) -> None:
    async with running.host(name, era, token=token) as host:
        await host.call("wait_for_mentions", timeout_s=50)
