"""Identities on a running server: added, rotated, revoked; tenants; limits; secrets."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import nkeys  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import pytest
import structlog

from tests.support.access import Secured, secured
from tests.support.bus_env import DEADLINE_S, opened, soon
from tests.support.cli import ended, environment, start
from threadbus.bus import (
    BusSettings,
    NoServerError,
    NotAdmittedError,
    PermissionDeniedError,
    access,
    access_errors,
    connect,
    server,
)
from threadbus.schemas import MAIN_THREAD, AgentCard


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Secured]:
    """A server with the agents web and coder."""
    small = server.ServerSettings(max_payload_bytes=64 * 1024, max_subscriptions=50)
    async with secured(tmp_path, "web", "coder", settings=small) as made:
        yield made


async def test_a_key_that_is_added_works_at_once(team: Secured) -> None:
    """No restart, and nobody's connection is cut."""
    task = await team.task("web", "coder")
    async with team.bus("web") as web:
        await team.add("late")
        async with team.bus("late") as late:
            assert [e async for e in late.read(task)]
        await web.send(task, MAIN_THREAD, "Still here.")


@pytest.mark.parametrize("change", ["revoke", "rotate"])
async def test_a_key_that_is_gone_cuts_its_connection(team: Secured, change: str) -> None:
    """Whoever is connected with it is told so at the next word, and cannot come back."""
    task = await team.task("web", "coder")
    old = team.folder.path.parent / "old.nk"
    old.write_bytes(team.folder.key_path("web").read_bytes())
    old.chmod(0o600)
    settings = BusSettings(url=team.server.url, nkey=str(old))
    async with team.bus("coder") as coder, connect(settings, name="web") as web:
        await web.send(task, MAIN_THREAD, "Hello.")
        await getattr(team.folder, change)("web")
        await team.server.reload()
        with pytest.raises(PermissionDeniedError, match="revoked or rotated") as refusal:
            await soon(web.send(task, MAIN_THREAD, "Still here?"))
        print(refusal.value)
        await coder.send(task, MAIN_THREAD, "I am.")
    with pytest.raises(NotAdmittedError, match="bus auth") as refusal_at_the_door:
        async with connect(settings, name="web"):
            pass
    print(refusal_at_the_door.value)
    if change == "rotate":
        async with team.bus("web") as web:
            await web.send(task, MAIN_THREAD, "With my new key.")


async def test_nobody_comes_in_without_a_key(team: Secured, tmp_path: Path) -> None:
    """No key, a key of nobody, and one of another server are refused with a way out."""
    with pytest.raises(NotAdmittedError, match="--nkey"):
        async with connect(team.server.url, name="web"):
            pass
    other = access.AccessFolder(tmp_path / "other")
    await other.init()
    settings = BusSettings(url=team.server.url, nkey=str(other.key_path("operator")))
    with pytest.raises(NotAdmittedError, match="never added"):
        async with connect(settings, name="web"):
            pass


async def _greeted(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    host, _, port = url.removeprefix("nats://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    info = json.loads((await soon(reader.readline())).removeprefix(b"INFO "))
    return reader, writer, str(info["nonce"])


async def test_a_signature_is_good_for_one_connection(team: Secured) -> None:
    """What was signed for one connection, and listened to, does not open another."""
    seed = team.folder.key_path("web").read_bytes().strip()
    pair = nkeys.from_seed(bytearray(seed))  # pyright: ignore
    answers: list[bytes] = []
    signature = ""
    for _ in range(2):
        reader, writer, nonce = await _greeted(team.server.url)
        signature = signature or base64.b64encode(pair.sign(nonce.encode())).decode()  # pyright: ignore
        said = {"nkey": pair.public_key.decode(), "sig": signature, "verbose": False}  # pyright: ignore
        writer.write(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
        answers.append(await soon(reader.readline()))
        writer.close()
        await writer.wait_closed()
    print(answers)

    assert answers[0] == b"PONG\r\n"
    assert answers[1].startswith(b"-ERR 'Authorization Violation'")


async def test_who_floods_is_cut_off_and_the_others_go_on(team: Secured) -> None:
    """A message above the limit, and too many subscriptions, end one connection only."""
    task = await team.task("web", "coder")
    seed = team.folder.key_path("web").read_bytes().strip()
    pair = nkeys.from_seed(bytearray(seed))  # pyright: ignore
    async with team.bus("coder") as coder:
        for flood, expected in (
            (b"PUB live.t.main.web 70000\r\n" + b"x" * 70_000 + b"\r\n", b"Maximum Payload"),
            (b"".join(b"SUB _INBOX_web.%d %d\r\n" % (n, n) for n in range(60)), b"subscriptions"),
        ):
            reader, writer, nonce = await _greeted(team.server.url)
            signature = base64.b64encode(pair.sign(nonce.encode())).decode()  # pyright: ignore
            said = {"nkey": pair.public_key.decode(), "sig": signature, "verbose": False}  # pyright: ignore
            writer.write(b"CONNECT " + json.dumps(said).encode() + b"\r\n" + flood)
            lines = b""
            async with asyncio.timeout(DEADLINE_S):
                while expected.lower() not in lines.lower():
                    piece = await reader.read(4096)
                    assert piece, lines
                    lines += piece
            print(lines[-80:])
            writer.close()
        await coder.send(task, MAIN_THREAD, "Undisturbed.")


async def test_a_tenant_may_have_so_many_connections(team: Secured) -> None:
    """Beyond its bound a tenant is refused; another tenant is not."""
    await team.folder.init("other")
    await team.folder.limit(max_connections=1)
    await team.server.reload()
    async with team.bus("web"):
        with pytest.raises((NoServerError, NotAdmittedError), match="connections"):
            async with team.bus("coder"):
                pass
        async with team.bus("operator", tenant="other"):
            pass


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_tenants_see_nothing_of_one_another(team: Secured, apart: bool) -> None:
    """Streams, registry, presence, live messages and agents of one name are those of a tenant."""
    task = await team.task("web", "coder")
    await team.folder.init("other", apart=apart)
    await team.folder.add("web", access.Role.AGENT, tenant="other")
    await team.server.reload()
    heard: list[object] = []
    async with (
        team.bus("operator", tenant="other") as other,
        team.bus("web") as web,
        other.watching_live(task, lambda _sender, data: heard.append(data)),
    ):
        await other.registry.register(AgentCard(name="web"), holder="there")
        await other.registry.register(AgentCard(name="operator"), holder="there")
        await web.publish_live(task, MAIN_THREAD, {"delta": "secret"})
        mine = await opened(other, "web")
        await other.publish_live(task, MAIN_THREAD, "own")
        async with asyncio.timeout(DEADLINE_S):
            while not heard:
                await other.facts()

        assert heard == ["own"]
        assert [summary.task for summary in await other.tasks.list()] == [mine]
        assert [entry async for entry in other.read(task)] == []
        assert {record.card.name for record in await other.registry.list()} == {"operator", "web"}
        assert [summary.task for summary in await web.tasks.list()] == [task]
        (log, *_) = (await other.storage()).streams
        assert log.messages == 1


async def test_nothing_that_is_written_has_a_secret(team: Secured, tmp_path: Path) -> None:
    """Seeds are in the files of the keys only, which only their owner can read."""
    task = await team.task("web", "coder")
    seeds = [path.read_text().strip() for path in (team.folder.path / "keys").rglob("*.nk")]
    assert len(seeds) == 3
    env = environment(tmp_path / "home", {"BUS_URL": team.server.url})
    folder = str(team.folder.path)
    said = ""
    for arguments in (
        ("auth", "list", "--folder", folder),
        ("auth", "add-agent", "another", "--folder", folder),
        ("config", "--nkey", seeds[0]),
        ("tasks", "--nkey", str(team.folder.key_path("web"))),
    ):
        ran = await ended(await start(*arguments, env=env))
        said += ran.out + ran.err
    with structlog.testing.capture_logs() as logs:
        async with team.bus("web") as web:
            await web.send(task, MAIN_THREAD, "Hello.")
            events = [str(entry) async for entry in web.read(task)]
            said += str(web) + repr(team.settings("web")) + "".join(events)
    said += str(logs) + "".join(team.server.log_tail)
    said += team.folder.config.read_text() + (team.folder.path / "access.json").read_text()

    assert "tenant" in said
    assert not [seed for seed in seeds if seed[:20] in said]
    for path in team.folder.path.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        ("SUAHSECRETSECRET", 0o600, "not a whole"),
        ("SAAHSECRETSECRET", 0o600, "begins with SU"),
        ("", 0o600, "begins with SU"),
        (None, 0o644, "chmod 600"),
    ],
)
async def test_a_key_file_that_is_none_is_refused_without_showing_it(
    tmp_path: Path, content: str | None, mode: int, reason: str
) -> None:
    """The error names the file and the way out, and nothing of what is in it."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    path = folder.key_path("operator")
    if content is not None:
        path.write_text(content)
    path.chmod(mode)
    settings = BusSettings(nkey=str(path))
    with pytest.raises(access_errors.KeyFileError, match=reason) as refusal:
        async with connect(settings, name="web"):
            pass

    assert "SECRET" not in str(refusal.value)
    assert refusal.value.__cause__ is None


async def test_a_folder_is_used_as_it_should_be(tmp_path: Path) -> None:
    """What cannot be done is refused with a way out, and changes nothing."""
    folder = access.AccessFolder(tmp_path / "auth")
    with pytest.raises(access_errors.AccessFolderError, match="bus auth init"):
        folder.tenants()
    with pytest.raises(access_errors.AccessFolderError, match="bus auth init"):
        await folder.add("web", access.Role.AGENT)
    await folder.init()
    await folder.add("web", access.Role.AGENT)
    before = folder.config.read_bytes()
    with pytest.raises(access_errors.IdentityExistsError, match="rotate"):
        await folder.add("web", access.Role.OBSERVER)
    with pytest.raises(access_errors.IdentityExistsError):
        await folder.init()
    with pytest.raises(access_errors.UnknownIdentityError, match="there is operator, web"):
        await folder.revoke("wep")
    with pytest.raises(access_errors.UnknownIdentityError, match="there is main"):
        await folder.add("web", access.Role.AGENT, tenant="nobody")
    with pytest.raises(access_errors.AccessConfigError, match="nats-server would not take"):
        await access.check_config(b'{"accounts":{"A":{"users":[{"nkey":"nonsense"}]}}}')

    assert folder.config.read_bytes() == before
