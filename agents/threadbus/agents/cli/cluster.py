"""``bus cluster …``: several servers that keep copies of everything, on machines of one's own."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from threadbus.agents.cli.app import app, command, command_group
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.results_operating import (
    CertificatesRenewed,
    ClusterMade,
    CopiesSet,
)
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import plural, safe_url
from threadbus.bus import cluster, server

group: Final = command_group("cluster", "Run several servers that keep copies of everything.")
app.add_typer(group, rich_help_panel="Set up")

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the cluster.")
]


@command("init", group=group)
async def init(
    shell: Shell,
    folder: Folder,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="A server's name or address, once for each; this machine if absent."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", help="Without --host: servers, 3 or 5.")] = 3,
    name: Annotated[str, typer.Option("--name", help="What the cluster is called.")] = "threadbus",
    port: Annotated[int, typer.Option("--port", help="Where clients connect.")] = (
        server.DEFAULT_PORT
    ),
    cluster_port: Annotated[
        int, typer.Option("--cluster-port", help="Where the servers connect to one another.")
    ] = cluster.CLUSTER_PORT,
    no_tls: Annotated[
        bool, typer.Option("--no-tls", help="Without TLS: on a network of your own only.")
    ] = False,
    apart: Annotated[
        bool, typer.Option("--apart", help="Streams in an account of their own: docs/access.md.")
    ] = False,
) -> None:
    """Lay out a cluster: a folder for each server, keys, certificates, an operator.

    Only who has a key is let in, everything goes over TLS, and servers show one another a
    certificate and a password.
    """
    where = cluster.ClusterFolder(folder)
    hosts = host or ["127.0.0.1"] * nodes
    plan = cluster.make_plan(hosts, name=name, port=port, cluster_port=cluster_port, tls=not no_tls)
    await where.init(plan, apart=apart)
    if shell.json:
        shell.result(
            ClusterMade(
                folder=str(where.path),
                url=plan.urls,
                nodes=[node.name for node in plan.nodes],
                operator_key=str(where.auth.key_path("operator")),
            )
        )
        return
    shell.say(f"made a cluster of {len(plan.nodes)} servers in {where.path}", "bold green")
    shell.say("Next, each on its machine (bring its folder there):")
    for node in plan.nodes:
        shell.say(f"  bus cluster up {folder / node.name}    # {node.host}:{node.port}")
    shell.say("and then, here:")
    shell.say(f"  source {folder}/operator.env")
    shell.say(f"  bus cluster status {folder}")
    shell.say(f"  bus auth add-agent NAME --folder {folder}/auth")
    shell.say(f"  bus cluster sync {folder}    # whenever `bus auth` changed something")


@command("up", group=group)
def up(
    shell: Shell,
    folder: Annotated[
        Path, typer.Argument(metavar="NODE", help="The folder of one server, CLUSTER/n1.")
    ],
) -> None:
    """Become the nats-server of one node, with the log on standard error.

    The process is nats-server itself: SIGTERM ends it in order, SIGHUP reloads it.
    """
    config = cluster.check_node_folder(folder)
    binary = asyncio.run(server.find_server_binary())
    shell.note(f"nats-server {binary.version} as {config.parent.name}, in {config.parent}", "dim")
    # The paths in it are relative to its folder.
    os.chdir(config.parent)
    os.execv(binary.path, [str(binary.path), "--config", config.name])  # noqa: S606


@command("status", group=group)
async def status(shell: Shell, folder: Folder) -> ExitCode:
    """Show every server, and whether it runs with what its folder here says; 1 if one does not."""
    return _tell(shell, await cluster.ClusterFolder(folder).status())


@command("sync", group=group)
async def sync(
    shell: Shell,
    folder: Folder,
    copy: Annotated[
        str,
        typer.Option(
            "--copy",
            help="Brings a file to a server: 'scp -p {file} {host}:team/{path}', run for each.",
        ),
    ] = "",
) -> ExitCode:
    """Put the identities of `bus auth` in force on every server, without a restart.

    Makes the streams of each tenant too. Servers that run in the folders here need no --copy.
    Ends with 1 when one did not take them.
    """
    return _tell(shell, await cluster.ClusterFolder(folder).sync(copy))


@command("renew", group=group)
async def renew(
    shell: Shell,
    folder: Folder,
    within: Annotated[
        int | None,
        typer.Option(
            "--within", min=1, help="Only if one ends within so many days; for a daily timer."
        ),
    ] = None,
    copy: Annotated[
        str, typer.Option("--copy", help="As for `sync`, with {path}: run for each file.")
    ] = "",
    no_reload: Annotated[
        bool,
        typer.Option(
            "--no-reload", help="Only write them here: they get to the servers otherwise."
        ),
    ] = False,
) -> ExitCode:
    """Give every server a new certificate, without a restart and before the old one ends.

    Keys stay, and so do connections. A new ca.pem, when the authority's own certificate would end
    first, has to be brought to the clients before the old one ends.
    """
    found = await cluster.ClusterFolder(folder).renew(
        copy, within=None if within is None else timedelta(days=within), reload=not no_reload
    )
    is_well = found.cluster is None or found.cluster.is_healthy
    if shell.json:
        shell.result(CertificatesRenewed(renewed=found.is_renewed, cluster=found.cluster))
    elif found.cluster is not None:
        _tell(shell, found.cluster)
    elif found.is_renewed:
        shell.say(f"written to {folder}; bring each server its tls/ and reload it")
    else:
        shell.say(f"all hold for {within} days and more: nothing was done")
    return ExitCode.OK if is_well else ExitCode.FAILED


@command("copies", group=group)
async def copies(
    shell: Shell,
    count: Annotated[
        int, typer.Argument(metavar="N", min=1, max=5, help="Servers that keep each stream.")
    ],
) -> None:
    """Have every stream kept by N servers of the cluster, as the operator; nothing stops for it.

    A server may be down while most of them run: 3 survive the loss of one, 5 that of two.
    """
    changed = await cluster.set_copies(shell.settings(), count)
    if shell.json:
        shell.result(CopiesSet(copies=count, changed=changed))
        return
    shell.say(f"{', '.join(changed) or 'every stream already'}: {count} of each")


def _tell(shell: Shell, found: cluster.ClusterStatus) -> ExitCode:
    code = ExitCode.OK if found.is_healthy else ExitCode.FAILED
    if shell.json:
        shell.result(found)
        return code
    made = table("server", "url", "version", "clients", "leads", "certificate", "")
    for node in found.nodes:
        made.add_row(
            cell(node.name),
            cell(safe_url(node.url)),
            cell(node.version or "-"),
            cell(str(node.connections)),
            cell("yes" if node.is_leader else ""),
            cell("-" if node.certificate_days is None else plural(node.certificate_days, "day")),
            cell(node.problem or "ok", "bold red" if node.problem else "green"),
        )
    shell.table(made)
    if not found.has_leader:
        shell.say("no leader: most of the servers must run before anything is stored", "bold red")
    left = found.certificate_days
    if left is not None and left <= cluster.NOTE_DAYS:
        shell.say(f"a certificate ends in {plural(left, 'day')}: `bus cluster renew`", "bold red")
    wrong = [node for node in found.nodes if node.problem]
    if wrong:
        shell.say(f"{plural(len(wrong), 'server')} of {len(found.nodes)} not as it should be")
    return code
