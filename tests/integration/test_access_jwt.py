"""Operator mode: tokens instead of a list of nkeys; everything reaches the running server."""

from __future__ import annotations

import base64
import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import nkeys  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tests.support.access import Secured, secured
from tests.support.bus_env import opened, soon
from threadbus.bus import (
    BusSettings,
    NoServerError,
    NotAdmittedError,
    PermissionDeniedError,
    access,
    access_errors,
    connect,
)
from threadbus.bus.access.tokens import credentials_file, sign_claims
from threadbus.schemas import MAIN_THREAD, AgentCard

BEGIN, END = "-----BEGIN NATS USER JWT-----\n", "\n------END"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Secured]:
    """A server in operator mode with the agents web and coder."""
    async with secured(tmp_path, "web", "coder", jwt=True) as made:
        yield made


def settings_of(team: Secured, path: Path) -> BusSettings:
    """Return the settings of who has a file of credentials."""
    return BusSettings(url=team.server.url, credentials=str(path))


async def test_who_is_added_needs_no_reload(team: Secured) -> None:
    """The account vouches for a token; the server need not be told of it."""
    task = await team.task("web", "coder")
    path = team.folder.key_path("late")
    await team.folder.add("late", access.Role.AGENT)
    async with connect(settings_of(team, path), name="late") as late:
        assert [entry async for entry in late.read(task)]


@pytest.mark.parametrize("change", ["revoke", "rotate", "mute"])
async def test_who_is_not_wanted_is_cut_off(team: Secured, change: str, tmp_path: Path) -> None:
    """At the next reload the connection ends and the token is worth nothing; the others stay."""
    task = await team.task("web", "coder")
    old = tmp_path / "old.creds"
    old.write_bytes(team.folder.key_path("web").read_bytes())
    old.chmod(0o600)
    async with team.bus("coder") as coder, connect(settings_of(team, old), name="web") as web:
        await web.send(task, MAIN_THREAD, "Hello.")
        if change == "mute":
            await team.folder.mute("web", by="operator", reason="For a test.")
        else:
            await getattr(team.folder, change)("web")
        await team.server.reload()
        with pytest.raises(PermissionDeniedError, match="revoked or rotated"):
            await soon(web.send(task, MAIN_THREAD, "Still here?"))
        await coder.send(task, MAIN_THREAD, "I am.")
    with pytest.raises(NotAdmittedError, match="bus auth"):
        async with connect(settings_of(team, old), name="web"):
            pass
    if change == "mute":
        await team.folder.unmute("web")
        await team.server.reload()
    if change != "revoke":
        async with team.bus("web") as web:
            await web.send(task, MAIN_THREAD, "Here I am again.")


async def test_tenants_and_their_limits_reach_the_server(team: Secured) -> None:
    """A further tenant sees nothing of the first, and takes what it is allowed to."""
    task = await team.task("web", "coder")
    await team.folder.init("other", apart=True)
    await team.folder.add("web", access.Role.AGENT, tenant="other")
    await team.server.reload()
    async with team.bus("operator", tenant="other") as other:
        await other.registry.register(AgentCard(name="operator"), holder="there")
        mine = await opened(other, "operator")
        assert [summary.task for summary in await other.tasks.list()] == [mine]
        assert [entry async for entry in other.read(task)] == []
        await team.folder.limit("other", max_connections=1, max_payload_bytes=64 * 1024)
        await team.server.reload()
        with pytest.raises((NoServerError, NotAdmittedError)):
            async with team.bus("web", tenant="other"):
                pass
        async with team.bus("web") as web:
            assert (await web.tasks.list())[0].task == task


def parts_of(path: Path) -> tuple[str, dict[str, object], bytes]:
    """Return the token of a file of credentials, what it says, and the seed."""
    text = path.read_text()
    token = text.partition(BEGIN)[2].partition(END)[0]
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    seed = text.partition("SEED-----\n")[2].partition("\n")[0].encode()
    return token, claims, seed


@pytest.mark.parametrize("attack", ["changed", "self-signed", "other-account"])
async def test_a_token_cannot_be_forged(team: Secured, tmp_path: Path, attack: str) -> None:
    """One that was changed, or that nobody vouches for whom the operator trusts, is refused."""
    token, claims, seed = parts_of(team.folder.key_path("web"))
    everything: dict[str, object] = {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    subject = str(claims["sub"])
    if attack == "changed":
        head, body, signature = token.split(".")
        claims["nats"] = {**everything, "type": "user", "version": 2}
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        token = f"{head}.{body}.{signature}"
    elif attack == "self-signed":
        token = sign_claims("user", "web", subject, everything, seed)
    else:
        own = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_ACCOUNT)  # pyright: ignore
        token = sign_claims("user", "web", subject, everything, own)  # pyright: ignore
    path = tmp_path / "forged.creds"
    path.write_bytes(credentials_file(token, seed))
    path.chmod(0o600)
    with pytest.raises(NotAdmittedError):
        async with connect(settings_of(team, path), name="web"):
            pass


async def test_credentials_that_others_can_read_are_not_used(team: Secured, tmp_path: Path) -> None:
    """As for an nkey: the error says what to do; so do a file of something else, and none."""
    path = tmp_path / "web.creds"
    path.write_bytes(team.folder.key_path("web").read_bytes())
    for mode, said in ((0o644, "chmod 600"), (0o600, "")):
        path.chmod(mode)
        if not said:
            async with connect(settings_of(team, path), name="web") as web:
                assert await web.registry.list() is not None
            continue
        with pytest.raises(access_errors.KeyFileError, match=said):
            async with connect(settings_of(team, path), name="web"):
                pass
    nkey = access.AccessFolder(tmp_path / "nkeys")
    await nkey.init()
    for other, said in (
        (nkey.key_path("operator"), "--nkey takes it"),
        (tmp_path / "x", "No such"),
    ):
        with pytest.raises(access_errors.KeyFileError, match=said) as refused:
            async with connect(settings_of(team, other), name="web"):
                pass
        assert "SU" not in str(refused.value)


async def test_secrets_are_in_their_files_only(team: Secured) -> None:
    """The configuration has tokens and no seed; every file is its owner's."""
    await team.folder.revoke("coder")
    public = team.folder.config.read_text() + (team.folder.path / "access.json").read_text()
    secrets = [path for path in team.folder.path.rglob("*") if path.suffix in {".nk", ".creds"}]
    seeds = [one for path in secrets for one in re.findall(r"\bS[UAO]\w{40,}", path.read_text())]

    assert len(seeds) == 2 + 3
    assert "resolver_preload" in public
    assert not [seed for seed in seeds if seed[:20] in public]
    for path in team.folder.path.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


async def test_a_folder_is_of_one_mode(tmp_path: Path) -> None:
    """One of nkeys does not become one of tokens; the error says what to do."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    with pytest.raises(access_errors.AccessFolderError, match="another folder"):
        await folder.init("other", jwt=True)

    assert folder.key_path("operator").suffix == ".nk"
    assert [tenant.name for tenant in folder.tenants()] == ["main"]


@pytest.mark.parametrize("name", ["operator", "system"])
async def test_no_tenant_gets_the_keys_of_the_server(tmp_path: Path, name: str) -> None:
    """One that is called as they are would have their file: its operator would be the server's."""
    folder = access.AccessFolder(tmp_path / "auth")
    with pytest.raises(access_errors.AccessFolderError, match=f"is called {name}"):
        await folder.init(name, jwt=True)
    await folder.init(jwt=True)
    with pytest.raises(access_errors.AccessFolderError, match="choose another name"):
        await folder.init(name)
    assert [tenant.name for tenant in folder.tenants()] == ["main"]
    nkeys_folder = access.AccessFolder(tmp_path / "nkeys")
    await nkeys_folder.init(name)
    assert [tenant.name for tenant in nkeys_folder.tenants()] == [name]
