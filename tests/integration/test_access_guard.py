"""`bus guard` beside a server: mutes a runaway, says so, and lets it speak again."""

from __future__ import annotations

import asyncio
import fcntl
import json
from datetime import UTC, datetime
from pathlib import Path

from nats.aio.client import Client

from tests.support.bus_env import DEADLINE_S, opened
from tests.support.cli import ended, environment, line_with, process
from threadbus.agents.cli.results_operating import GuardLine
from threadbus.bus import BusSettings, access, connect
from threadbus.schemas import AgentCard, AgentThrottled, ThrottleAction


async def test_the_guard_mutes_a_runaway_for_a_while(tmp_path: Path) -> None:
    """By the commands that an operator types; the mute and its end reach the server."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    await folder.add("mallory", access.Role.AGENT)
    operator = str(folder.key_path("operator"))
    env = environment(tmp_path / "home", {"BUS_NKEY": operator})
    up = ("up", "--auth", str(folder.path), "--port", "0", "--json")
    watch = ("guard", "--folder", str(folder.path), "--mute-for", "1", "--as", "guard")
    refused = asyncio.Event()

    async def on_error(error: Exception) -> None:
        if "permissions violation" in str(error):
            refused.set()

    async with process(*up, env=env) as server:
        url = str(json.loads(await line_with(server, "url"))["url"])
        async with connect(BusSettings(url=url, nkey=operator), name="user") as user:
            for name in ("user", "mallory"):
                await user.registry.register(AgentCard(name=name), holder="test")
            task = await opened(user, "user", participants=("mallory",))
            # Before the guard begins: limits are looked up now and then, not at each event.
            await user.limits.set("mallory", events_per_second=20, burst=50)
            async with process(*watch, "--json", "--url", url, env=env) as guard:
                mallory = Client()
                await mallory.connect(
                    url,
                    nkeys_seed=str(folder.key_path("mallory")),
                    inbox_prefix=b"_INBOX_mallory",
                    error_cb=on_error,
                    allow_reconnect=False,
                )
                subject = f"bus.{task}.main.obs.mallory"
                await line_with(guard, "watching", of="stderr")
                async with asyncio.timeout(2 * DEADLINE_S):
                    while not refused.is_set():
                        for _ in range(20):
                            await mallory.publish(subject, b"again")
                        await mallory.flush(int(DEADLINE_S))
                muted = json.loads(await line_with(guard, "muted"))
                again = json.loads(await line_with(guard, "may speak again"))
                stored = await mallory.request(subject, b"back", timeout=DEADLINE_S)
                await mallory.close()
                entries = [entry async for entry in user.read(task)]
                guard.terminate()
                last = await ended(guard)
        server.terminate()
        await ended(server)

    assert GuardLine(**muted).agent == GuardLine(**again).agent == "mallory"
    assert "20 events per second are allowed" in muted["reason"]
    assert "seq" in json.loads(stored.data)
    found = [getattr(getattr(entry, "event", None), "data", None) for entry in entries]
    (record,) = [data for data in found if isinstance(data, AgentThrottled)]
    assert (record.agent, record.action) == ("mallory", ThrottleAction.MUTED)
    assert (record.allowed, record.set_by) == (20, "user")
    assert record.until is not None
    assert last.code == 0, last.err


async def test_a_mute_ends_although_another_command_was_at_it(tmp_path: Path) -> None:
    """The guard tries again until it ends; what somebody muted by hand meanwhile stays so."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    for name in ("mallory", "web"):
        await folder.add(name, access.Role.AGENT)
        await folder.mute(name, by="guard", reason="said too much", until=datetime.now(UTC))
    operator = str(folder.key_path("operator"))
    env = environment(tmp_path / "home", {"BUS_NKEY": operator})
    up = ("up", "--auth", str(folder.path), "--port", "0", "--json")
    watch = ("guard", "--folder", str(folder.path), "--as", "guard", "--json")
    async with process(*up, env=env) as server:
        url = str(json.loads(await line_with(server, "url"))["url"])
        async with connect(BusSettings(url=url, nkey=operator), name="user"):
            pass
        with (folder.path / ".lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            async with process(*watch, "--url", url, env=env) as guard:
                for _ in range(2):
                    still = GuardLine(**json.loads(await line_with(guard, "still muted")))
                    assert "another command changes it" in still.reason
                _mute_by_hand(folder.path / "access.json", "mallory")
                fcntl.flock(lock, fcntl.LOCK_UN)
                again = GuardLine(**json.loads(await line_with(guard, "may speak again")))
                guard.terminate()
                last = await ended(guard)
        server.terminate()
        await ended(server)
    assert (again.agent, last.code, last.out) == ("web", 0, "")
    (tenant,) = folder.tenants()
    muted = {one.name: one.muted.by for one in tenant.identities if one.muted is not None}
    assert muted == {"mallory": "user"}


def _mute_by_hand(state: Path, name: str) -> None:
    """Do what `bus auth mute` does, for who holds the lock."""
    found = json.loads(state.read_bytes())
    for one in found["tenants"][0]["identities"]:
        if one["name"] == name:
            one["muted"] = {"by": "user", "at": one["muted"]["at"]}
    state.write_text(json.dumps(found), encoding="utf-8")
