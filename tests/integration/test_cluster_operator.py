"""An operator's cluster: laid out, secured, changed while it runs, with a server killed."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.bus_env import DEADLINE_S, soon
from tests.support.clusters import console_block, free_ports, run_script, running_cluster
from tests.support.eventually import eventually
from tests.support.running_agents import running as running_agent
from threadbus.agents import Agent, Mention
from threadbus.bus import (
    BusSettings,
    NotAdmittedError,
    PermissionDeniedError,
    access,
    backup,
    connect,
    server,
)
from threadbus.bus.cluster.certificates import Authority
from threadbus.schemas import MAIN_THREAD, AgentCard

_ROOT = Path(__file__).parents[2]
_GREETER = """
from threadbus.agents import Agent, Mention

agent = Agent("greeter", description="Greets people by name.")


@agent.on_mention
async def greet(mention: Mention) -> str:
    return f"Hello, {mention.text}!"
"""


@pytest.mark.cluster
@pytest.mark.timeout(180)
async def test_a_new_operator_gets_to_an_answer_in_ten_commands(tmp_path: Path) -> None:
    """The commands of the documentation, as they stand there, on free ports."""
    commands = console_block(_ROOT / "docs" / "operations" / "cluster.md", "cluster")
    (tmp_path / "greeter.py").write_text(_GREETER, encoding="utf-8")
    port, cluster_port = free_ports(3)
    first, *others = commands
    env = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    env["XDG_STATE_HOME"] = str(tmp_path / "state")
    on_ports = f"{first} --port {port} --cluster-port {cluster_port}"

    output = await run_script([on_ports, *others], tmp_path, env)

    assert len(commands) <= 10
    assert "Hello, Ada!" in output
    assert (tmp_path / "team" / "n1" / "server.conf").stat().st_mode & 0o777 == 0o600


@pytest.mark.cluster
@pytest.mark.timeout(240)
async def test_a_team_goes_on_while_a_server_is_dead_and_keys_change(tmp_path: Path) -> None:
    """Three copies; a dead server, an agent added, one revoked; nobody comes in without a key."""
    async with running_cluster(tmp_path, "web") as running:
        operator = running.settings("operator")
        web = Agent("web")

        @web.on_mention
        async def answer(mention: Mention) -> str:
            return f"{mention.text}!"

        async with (
            connect(operator, name="user") as user,
            connect(running.settings("web"), name="web") as bus,
            running_agent(web, bus),
        ):
            await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
            storage = await user.storage()
            assert {stream.copies for stream in storage.streams} == {3}
            assert (await soon(user.ask("One", to=["web"]))).text == "One!"

            await running.kill("n2")
            assert (await soon(user.ask("Two", to=["web"]))).text == "Two!"
            found = await running.folder.status()
            assert [node.name for node in found.nodes if node.problem] == ["n2"]

            await running.folder.auth.add("late", access.Role.AGENT)
            await running.start("n2")
            assert (await running.folder.sync()).is_healthy
            for node in running.nodes:
                url = node.url(tls=True)
                with pytest.raises(NotAdmittedError):
                    async with connect(replace(operator, url=url, nkey=""), name="x"):
                        pass
                there = replace(running.settings("late"), url=url)
                async with connect(there, name="late", ensure=False) as late:
                    await soon(late.registry.register(AgentCard(name="late"), holder="test"))

            opened = await user.tasks.open("Three", to=[], participants=["late"])
            late_key = tmp_path / "late.nk"
            late_key.write_bytes(running.folder.auth.key_path("late").read_bytes())
            late_key.chmod(0o600)
            settings = replace(running.settings("late"), nkey=str(late_key))
            async with connect(settings, name="late") as late:
                await running.folder.auth.revoke("late")
                assert (await running.folder.sync()).is_healthy
                with pytest.raises(PermissionDeniedError, match="revoked"):
                    await soon(late.send(opened.event.task, MAIN_THREAD, "Still here?"))
            for node in running.nodes:
                with pytest.raises(NotAdmittedError):
                    async with connect(replace(settings, url=node.url(tls=True)), name="late"):
                        pass
            assert (await soon(user.ask("Four", to=["web"]))).text == "Four!"


@pytest.mark.cluster
@pytest.mark.timeout(180)
async def test_streams_with_one_copy_get_three(tmp_path: Path) -> None:
    """`bus cluster copies 3` changes what was made with one, and nothing is lost by it."""
    from threadbus.bus import cluster

    async with running_cluster(tmp_path) as running:
        operator = running.settings("operator")
        assert "BUS" in await cluster.set_copies(operator, 1)
        async with connect(replace(operator, replicas=1), name="user") as user:
            await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
            task = (await user.tasks.open("What?", to=[])).event.task
            before = [entry.seq async for entry in user.read(task)]

            changed = await cluster.set_copies(operator, 3)

            assert {stream.name for stream in (await user.storage()).streams} <= set(changed)
            assert {stream.copies for stream in (await user.storage()).streams} == {3}
            assert await cluster.set_copies(operator, 3) == []

            async def is_read() -> bool:
                return [entry.seq async for entry in user.read(task)] == before

            await eventually(is_read, "the log is as it was", DEADLINE_S)


@pytest.mark.cluster
@pytest.mark.timeout(180)
async def test_the_log_of_one_server_moves_into_a_cluster(tmp_path: Path) -> None:
    """Restored with three copies, it tells the same, and what waited is delivered."""
    async with server.EmbeddedServer() as single, connect(single.url, name="user") as user:
        for name in ("user", "web"):
            await user.registry.register(AgentCard(name=name), holder="test", takeover=True)
        task = (await user.tasks.open("What?", to=["web"])).event.task
        before = [(entry.seq, entry.stored_at) async for entry in user.read(task)]
        await backup.backup(BusSettings(url=single.url), tmp_path / "saved")
    async with running_cluster(tmp_path, "web") as running:
        await backup.restore(running.settings("operator"), tmp_path / "saved")
        async with connect(running.settings("web"), name="web") as web:
            assert [(entry.seq, entry.stored_at) async for entry in web.read(task)] == before
            storage = await web.storage()
            assert {s.copies for s in storage.streams if s.exists} == {3}
            async with web.inbox() as inbox:
                assert (await soon(inbox.next())).event.task == task


async def test_a_cluster_without_servers_is_told_so(tmp_path: Path) -> None:
    """Nothing listens: the error names every server."""
    from datetime import timedelta

    from threadbus.bus import NoServerError, cluster

    port, cluster_port = free_ports(3)
    folder = cluster.ClusterFolder(tmp_path / "team")
    await folder.init(cluster.make_plan(["127.0.0.1"] * 3, port=port, cluster_port=cluster_port))
    with pytest.raises(NoServerError, match=f"127.0.0.1:{port + 2}"):
        await folder.sync(patience=timedelta(seconds=0))
    assert BusSettings().url not in str(folder.plan())


def test_the_readme_says_the_same() -> None:
    """The commands of the README are those that are run."""
    commands = console_block(_ROOT / "docs" / "operations" / "cluster.md", "cluster")
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    assert "".join(f"$ {command}\n" for command in commands) in readme


async def _shown(host: str, port: int, *, is_route: bool = False) -> bytes:
    """Return the certificate that a server shows to clients, or to other servers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port)
    try:
        if not is_route:
            await soon(reader.readline())
        await soon(writer.start_tls(context))
        der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return der
    finally:
        writer.transport.abort()


@pytest.mark.cluster
@pytest.mark.timeout(240)
async def test_certificates_are_renewed_while_everything_goes_on(tmp_path: Path) -> None:
    """Of clients and of routes, with the old ca.pem; a server that is started again comes back."""
    async with running_cluster(tmp_path, "web") as running:
        folder = running.folder
        authority = Authority.load(folder.path / "tls")
        n1 = running.nodes[0]
        authority.issue(folder.node_path("n1") / "tls", "n1", n1.host, life=timedelta(days=5))
        assert not (await folder.status()).is_healthy
        assert (await folder.sync()).is_healthy is False
        found = (await folder.status()).nodes[0]
        assert found.certificate_days == 4
        assert "ends in 4 days: `bus cluster renew`" in found.problem
        old_authority = tmp_path / "old-ca.pem"
        old_authority.write_bytes((folder.path / "tls" / "ca.pem").read_bytes())
        settings = replace(running.settings("operator"), tls_ca=str(old_authority))
        before = [await _shown(node.host, node.port) for node in running.nodes]

        web = Agent("web")

        @web.on_mention
        async def answer(mention: Mention) -> str:
            return f"{mention.text}!"

        async with (
            connect(settings, name="user") as user,
            connect(replace(settings, nkey=running.settings("web").nkey), name="web") as bus,
            running_agent(web, bus),
        ):
            await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
            assert (await soon(user.ask("One", to=["web"]))).text == "One!"
            assert (await folder.renew(within=timedelta(days=3))).is_renewed is False
            renewal = await folder.renew(within=timedelta(days=30))
            assert renewal.is_renewed
            assert renewal.cluster is not None
            assert renewal.cluster.is_healthy, renewal.cluster
            assert renewal.cluster.certificate_days == 824
            assert (await soon(user.ask("Two", to=["web"]))).text == "Two!"
            for node, old in zip(running.nodes, before, strict=True):
                new = await _shown(node.host, node.port)
                assert new != old
                assert await _shown(node.host, node.cluster_port, is_route=True) == new
            # Routes that are made anew take the new certificates of both sides.
            await running.kill("n2")
            await running.start("n2")
            assert (await folder.sync()).is_healthy
            assert (await soon(user.ask("Three", to=["web"]))).text == "Three!"
        async with connect(settings, name="user") as again:
            assert await again.tasks.list()
