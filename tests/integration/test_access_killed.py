"""`kill -9` at every single file operation of `bus auth`: the next command finds all or nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import nkeys  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tests.support.cli import ended, environment, line_with, process, start
from tests.support.eventually import eventually
from tests.support.tree import ROOT
from threadbus.bus import BusSettings, NotAdmittedError, access, access_errors, connect


def _killed(folder: Path, into: Path, what: str) -> list[access.AccessFolder]:
    """Return a folder for each moment at which the change was killed; the last is whole."""
    into.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_changes", folder, into, what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    paths = sorted(into.iterdir(), key=lambda path: int(path.name))
    assert len(paths) > 5, "it was killed nowhere"
    return [access.AccessFolder(path) for path in paths]


def _check(folder: access.AccessFolder) -> dict[str, str]:
    """Check that a folder is whole; return the public key of each identity of the first tenant."""
    found: dict[str, str] = {}
    wanted: set[Path] = set()
    for tenant in folder.tenants():
        for one in tenant.identities:
            path = folder.key_path(one.name, tenant.name)
            wanted.add(path)
            if path.suffix == ".nk":
                seed = bytearray(path.read_bytes().strip())
                assert nkeys.from_seed(seed).public_key.decode() == one.public_key, one.name  # pyright: ignore
            else:
                assert b"USER NKEY SEED" in path.read_bytes()
            if tenant.name == "main":
                found[one.name] = one.public_key
    assert set((folder.path / "keys").glob("*/*")) == wanted
    for path in folder.path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert not folder.is_interrupted
    if not any(path.suffix == ".creds" for path in wanted):
        config = msgspec.json.decode(folder.config.read_bytes())
        users = config["accounts"]["main"]["users"]
        assert {user["nkey"] for user in users} == set(found.values())
    return found


async def _check_all(copies: list[access.AccessFolder], before: dict[str, str]) -> None:
    """Check that `bus auth reload` leaves each as before the change, or as after it."""
    seen: list[dict[str, str]] = []
    for killed in copies:
        killed.tenants()
        await killed.rewrite()
        seen.append(_check(killed))
        assert set(before) - {"web"} <= set(seen[-1]) <= set(before)
        assert seen[-1]["operator"] == before["operator"]
    assert seen[0] == before != seen[-1]


@pytest.mark.parametrize("jwt", [False, True], ids=["nkeys", "jwt"])
async def test_a_key_is_rotated_or_it_is_not(tmp_path: Path, jwt: bool) -> None:
    """Keys and accounts are those on record, and no others, wherever the command was killed."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init(jwt=jwt)
    await folder.add("web", access.Role.AGENT)
    before = _check(folder)
    copies = await asyncio.to_thread(_killed, folder.path, tmp_path / "killed", "rotate")
    await _check_all(copies, before)


async def test_a_server_that_is_started_lets_nobody_in_who_was_to_be_revoked(
    tmp_path: Path,
) -> None:
    """The command was killed between what is on record and the accounts; nobody came after it.

    Wherever else it was killed, somebody is revoked or he is not.
    """
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    added = await folder.add("web", access.Role.AGENT)
    before = _check(folder)
    copies = await asyncio.to_thread(_killed, folder.path, tmp_path / "killed", "revoke")
    stale = [
        copy
        for copy in copies
        if copy.tenants()[0].find("web") is None
        and added.public_key in copy.config.read_text(encoding="utf-8")
    ]
    assert stale, "it was never killed in between"
    env = environment(tmp_path / "home")
    words = ("up", "--auth", str(stale[0].path), "--port", "0", "--json")
    async with process(*words, env=env) as server:
        url = str(msgspec.json.decode(await line_with(server, "url"))["url"])
        settings = BusSettings(url=url, nkey=str(folder.key_path("web")))
        with pytest.raises(NotAdmittedError):
            async with connect(settings, name="web"):
                pass
        server.terminate()
        await ended(server)
    await _check_all(copies, before)


async def test_a_folder_that_was_begun_is_made_by_the_same_command(tmp_path: Path) -> None:
    """`bus auth init --jwt` again, and one that is of another kind says so."""
    empty = tmp_path / "auth"
    empty.mkdir(mode=0o700)
    for killed in await asyncio.to_thread(_killed, empty, tmp_path / "killed", "init"):
        if not (killed.path / "access.json").exists():
            with pytest.raises(access_errors.AccessFolderError, match="bus auth init"):
                killed.tenants()
            if (killed.path / "signing" / "keys" / "operator.nk").exists():
                with pytest.raises(access_errors.AccessFolderError, match="say --jwt again"):
                    await killed.init()
            await killed.init(jwt=True)
        await killed.rewrite()
        assert set(_check(killed)) == {"operator"}


async def test_a_folder_that_others_could_change_is_refused(tmp_path: Path) -> None:
    """Its accounts would be theirs; so are files that its server could not read."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init()
    with pytest.raises(access_errors.IdentityExistsError, match="--tenant OTHER"):
        await folder.init()
    folder.path.chmod(0o777)
    with pytest.raises(access_errors.AccessFolderError, match="chmod 700"):
        await folder.add("web", access.Role.AGENT)
    folder.path.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder.path, 12345, 12345)
        with pytest.raises(access_errors.AccessFolderError, match="belongs to the user 12345"):
            await folder.add("web", access.Role.AGENT)


async def test_signing_keys_that_are_kept_elsewhere_do_not_make_it_a_folder_of_nkeys(
    tmp_path: Path,
) -> None:
    """A change says that they are wanted; what is there stays, and can be read and reloaded."""
    folder = access.AccessFolder(tmp_path / "auth")
    await folder.init(jwt=True)
    await folder.add("web", access.Role.AGENT)
    before = folder.config.read_bytes()
    signing = folder.path / "signing"
    signing.rename(tmp_path / "safe")
    with pytest.raises(access_errors.AccessFolderError, match="bring signing/ back"):
        await folder.revoke("web")
    await folder.rewrite()
    assert folder.config.read_bytes() == before
    (tmp_path / "safe").rename(signing)
    (signing / "keys" / "operator.nk").chmod(0o644)
    with pytest.raises(access_errors.KeyFileError, match="chmod 600"):
        await folder.revoke("web")


async def test_a_gateway_gets_more_names_with_the_key_that_it_has(tmp_path: Path) -> None:
    """In operator mode it gets new credentials; an agent gets none at all."""
    for jwt in (False, True):
        folder = access.AccessFolder(tmp_path / f"auth-{jwt}")
        await folder.init(jwt=jwt)
        made = await folder.add("desk", access.Role.GATEWAY, acts_for=["ann"])
        changed = await folder.act_for("desk", ["bob", "ann"])
        assert changed.acts_for == ("ann", "bob")
        assert (changed.public_key == made.public_key) is not jwt
        _check(folder)
        with pytest.raises(access_errors.AccessFolderError, match="is no gateway"):
            await folder.act_for("operator", ["bob"])


async def test_a_cluster_that_was_begun_is_laid_out_by_the_same_command(tmp_path: Path) -> None:
    """`kill -9` in the middle of `bus cluster init`: no cluster, and no keys that stay behind."""
    team = tmp_path / "team"
    partial = tmp_path / ".team.partial"
    words = ("cluster", "init", str(team))
    process = await start(*words, env=environment(tmp_path / "home"))
    await eventually((partial / "n1").exists, "it has begun")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert (partial / "auth" / "keys").exists()
    assert not team.exists()

    again = await ended(await start(*words, env=environment(tmp_path / "home")))
    assert again.code == 0, again.err
    assert (team / "cluster.json").is_file()
    assert not partial.exists()
