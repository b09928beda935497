"""Identities that the server holds to their own name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.support.bus_env import soon, take
from tests.support.configured_servers import configured_server
from threadbus.bus import Bus, PermissionDeniedError, connect
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    MessagePosted,
    Presence,
    Recorded,
    TaskId,
    TextPart,
)

STREAMS = ("BUS", "MENTIONS", "KV_AGENTS", "KV_PRESENCE", "OBJ_ARTIFACTS")


def agent_may_publish(name: str) -> list[str]:
    """Return what an agent must be allowed to publish; this is the whole of it."""
    return [
        # What it says, under its own name only; artifacts; its record and its heartbeats.
        f"bus.*.*.*.{name}",
        f"bus.*.*.*.{name}.>",
        f"live.*.*.{name}",
        "$O.ARTIFACTS.>",
        f"$KV.AGENTS.{name}",
        f"$KV.PRESENCE.{name}.>",
        # Looking at the server and its streams, which it may neither make nor change.
        "$JS.API.INFO",
        *(f"$JS.API.STREAM.INFO.{stream}" for stream in STREAMS),
        # Reading.
        "$JS.API.DIRECT.GET.BUS",
        "$JS.API.DIRECT.GET.OBJ_ARTIFACTS",
        *(f"$JS.API.DIRECT.GET.KV_{bucket}" for bucket in ("AGENTS", "PRESENCE")),
        *(f"$JS.API.DIRECT.GET.KV_{bucket}.>" for bucket in ("AGENTS", "PRESENCE")),
        # Its own inbox.
        f"$JS.API.CONSUMER.CREATE.MENTIONS.agent-{name}.mention.{name}.>",
        f"$JS.API.CONSUMER.DELETE.MENTIONS.agent-{name}",
        f"$JS.API.CONSUMER.MSG.NEXT.MENTIONS.agent-{name}",
        f"$JS.ACK.MENTIONS.agent-{name}.>",
    ]


def agent_may_subscribe(name: str) -> list[str]:
    """Return what an agent must be allowed to subscribe to."""
    return [f"_INBOX_{name}.>", "stored.bus.>", "live.>", f"$KV.AGENTS.{name}"]


def config(*agents: str) -> dict[str, object]:
    """Return the configuration of a server with an administrator and *agents*."""
    users: list[dict[str, object]] = [{"user": "admin", "password": "a"}]
    for name in agents:
        allowed = {"publish": agent_may_publish(name), "subscribe": agent_may_subscribe(name)}
        users.append({"user": name, "password": name, "permissions": allowed})
    return {"accounts": {"TEAM": {"jetstream": "enabled", "users": users}}}


class Team:
    """A server with identities, on which an administrator has opened a super-task."""

    def __init__(self, url: str, admin: Bus, task: TaskId) -> None:
        self.admin = admin
        self.task = task
        self._url = url

    def url(self, name: str) -> str:
        """Return the URL with which *name* connects."""
        return self._url.replace("//", f"//{name}:{name}@")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """A server with web, coder and an administrator who speaks as user."""
    settings = config("web", "coder") | {"jetstream": {"store_dir": str(tmp_path / "data")}}
    async with (
        configured_server(tmp_path, settings) as url,
        connect(url.replace("//", "//admin:a@"), name="user") as admin,
    ):
        for name in ("user", "web", "coder"):
            await admin.registry.register(AgentCard(name=name), holder="tests")
        opened = await admin.tasks.open("What is it?", to=["web"], participants=["coder"])
        yield Team(url, admin, opened.event.task)


async def test_an_agent_works_with_what_it_needs(team: Team) -> None:
    """With permissions for its own name only, an agent does everything that agents do."""
    async with connect(team.url("web"), name="web") as web, web.inbox(fresh=True) as inbox:
        delivery = await soon(inbox.next())
        await delivery.in_progress()
        await web.registry.register(AgentCard(name="web", description="Looks up."), holder="tests")
        await web.registry.beat(
            Presence(agent="web", instance="one", holder="tests", host="h", pid=1)
        )
        await web.registry.living()
        reference = await web.artifacts.put(b"content" * 20_000)
        assert await web.artifacts.get(reference) == b"content" * 20_000
        await web.send(
            team.task, MAIN_THREAD, "Found.", mentions=["coder"], cause=delivery.event.id
        )
        thread = await web.threads.open(team.task, "Side", participants=["coder"])
        await web.threads.close(team.task, thread.event.thread, summary="Done.")
        entries = await take(web.follow(team.task), 4)
        await web.publish_live(team.task, MAIN_THREAD, {"delta": "x"})
        async with web.registry.watching("web", lambda: None):
            pass
        await web.tasks.submit_answer(team.task, "42")
        await delivery.ack()
        await web.registry.leave("web", "one")
        answer = await soon(team.admin.waits.for_answer(team.task))

    assert answer.text == "42"
    assert all(isinstance(entry, Recorded) for entry in entries)


async def test_forging_a_sender_is_refused_at_once(team: Team) -> None:
    """An event under another name is refused by the server, and the caller is told which."""
    async with connect(team.url("web"), name="web") as web:
        forger = web.acting_as("coder")
        with pytest.raises(PermissionDeniedError, match=r"\.coder"):
            async with asyncio.timeout(10):
                await forger.send(team.task, MAIN_THREAD, "I am the coder.")
        # The connection, and what others do over it, is unhurt.
        await web.send(team.task, MAIN_THREAD, "I am web.")
        entries = [entry async for entry in web.read(team.task)]

    assert len(entries) == 2


async def test_a_refusal_hits_only_the_event_that_it_is_about(team: Team) -> None:
    """Of many appends under way only the forged ones fail."""
    async with connect(team.url("web"), name="web") as web:
        forger = web.acting_as("coder")

        async def post(bus: Bus, number: int) -> int:
            data = MessagePosted(parts=(TextPart(str(number)),))
            return (await bus.append(data, task=team.task)).seq

        posting = [post(forger if n % 10 == 0 else web, n) for n in range(100)]
        results: Sequence[int | BaseException] = await soon(
            asyncio.gather(*posting, return_exceptions=True)
        )

    assert [n for n, r in enumerate(results) if not isinstance(r, int)] == list(range(0, 100, 10))
    assert all(isinstance(results[n], PermissionDeniedError) for n in range(0, 100, 10))


async def test_the_inbox_of_another_is_refused_at_once(team: Team) -> None:
    """Whoever opens another's inbox is told so instead of waiting."""
    async with connect(team.url("web"), name="web") as web:
        with pytest.raises(PermissionDeniedError, match="agent-coder"):
            async with asyncio.timeout(10), web.acting_as("coder").inbox():
                pass


async def test_the_entry_of_another_is_refused_at_once(team: Team) -> None:
    """Nobody registers, or takes out, another agent."""
    async with connect(team.url("web"), name="web") as web, asyncio.timeout(10):
        with pytest.raises(PermissionDeniedError):
            await web.registry.register(AgentCard(name="coder"), holder="web", takeover=True)
        with pytest.raises(PermissionDeniedError):
            await web.registry.deregister("coder")


async def test_streams_that_an_agent_may_not_make_are_refused_at_once(tmp_path: Path) -> None:
    """On an empty server an agent is told that it may not make the streams."""
    settings = config("web") | {"jetstream": {"store_dir": str(tmp_path / "data")}}
    async with configured_server(tmp_path, settings) as url:
        with pytest.raises(PermissionDeniedError, match=r"STREAM\.CREATE\.BUS"):
            async with asyncio.timeout(10), connect(url.replace("//", "//web:web@"), name="web"):
                pass
