"""``bus auth …``: who may do what on a server of one's own."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from threadbus.agents.cli.app import app, command, command_group
from threadbus.agents.cli.results_operating import (
    AuthChanged,
    AuthLimited,
    AuthList,
    AuthReloaded,
    AuthRoles,
    IdentityRow,
    RoleLine,
)
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import typed
from threadbus.bus import access

group: Final = command_group("auth", "Say who may do what: nkeys, roles, tenants.")
app.add_typer(group, rich_help_panel="Set up")

FolderOption: TypeAlias = Annotated[
    Path | None, typer.Option("--folder", help="The access folder; yours if absent.")
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="A name: an agent's.")]
TenantOption: TypeAlias = Annotated[
    str, typer.Option("--tenant", help="The tenant: streams and agents of its own.")
]
CanOption: TypeAlias = Annotated[
    list[access.Extra] | None, typer.Option("--can", help="What it may do besides; several times.")
]
_MAIN: Final = "main"


@command("init", group=group)
async def init(
    shell: Shell,
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
    apart: Annotated[
        bool,
        typer.Option(
            "--apart", help="Streams in an account of their own: no answer can be stored in them."
        ),
    ] = False,
    jwt: Annotated[
        bool, typer.Option("--jwt", help="Operator mode: signed tokens instead of a list of nkeys.")
    ] = False,
) -> None:
    """Make an access folder with a tenant and its operator, or add a tenant to it.

    For a bus of several streams say --partitions and --inboxes here as well as to the first command
    that makes them.
    """
    where = access.AccessFolder(folder)
    settings = shell.settings()
    made = await where.init(
        tenant,
        apart=apart,
        jwt=jwt,
        partitions=settings.partitions or 1,
        inboxes=settings.inboxes or 1,
    )
    await _tell(shell, where, tenant, made, "is the operator of")
    if not shell.json:
        shell.say("Next:")
        shell.say(f"  bus up --auth {where.path}")
        shell.say(f"  bus auth add-agent NAME{_flags(folder, tenant)}")


@command("add-agent", group=group)
async def add_agent(
    shell: Shell,
    name: Name,
    can: CanOption = None,
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Add an agent: it speaks and is woken under its own name only."""
    where = access.AccessFolder(folder)
    made = await where.add(name, access.Role.AGENT, tenant=tenant, can=can or ())
    await _tell(shell, where, tenant, made, "is an agent of")


@command("add-gateway", group=group)
async def add_gateway(
    shell: Shell,
    name: Name,
    acts_for: Annotated[
        list[str], typer.Option("--for", help="A name that it speaks as; several times, * is all.")
    ],
    can: CanOption = None,
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Add a gateway: it acts for the agents that are named, and for nobody else."""
    where = access.AccessFolder(folder)
    made = await where.add(
        name, access.Role.GATEWAY, tenant=tenant, acts_for=acts_for, can=can or ()
    )
    await _tell(shell, where, tenant, made, f"is a gateway for {', '.join(acts_for)} of")


@command("act-for", group=group)
async def act_for(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="GATEWAY", help="A gateway.")],
    others: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Names that it speaks as besides.")
    ],
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Let a gateway act for more names; its key and its connections stay.

    In operator mode it gets new credentials.
    """
    where = access.AccessFolder(folder)
    made = await where.act_for(name, others, tenant=tenant)
    what = f"acts for {', '.join(made.acts_for)} in"
    await _tell(
        shell, where, tenant, made, what, has_key=where.key_path(name, tenant).suffix != ".nk"
    )


@command("add-observer", group=group)
async def add_observer(
    shell: Shell,
    name: Name,
    can: CanOption = None,
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Add an observer: it reads everything and writes nothing."""
    where = access.AccessFolder(folder)
    made = await where.add(name, access.Role.OBSERVER, tenant=tenant, can=can or ())
    await _tell(shell, where, tenant, made, "is an observer of")


@command("add-operator", group=group)
async def add_operator(
    shell: Shell, name: Name, folder: FolderOption = None, tenant: TenantOption = _MAIN
) -> None:
    """Add another operator: it may do everything in its tenant."""
    where = access.AccessFolder(folder)
    made = await where.add(name, access.Role.OPERATOR, tenant=tenant)
    await _tell(shell, where, tenant, made, "is an operator of")


@command("rotate", group=group)
async def rotate(
    shell: Shell, name: Name, folder: FolderOption = None, tenant: TenantOption = _MAIN
) -> None:
    """Give somebody a new key; whoever is connected with the old one is cut off."""
    where = access.AccessFolder(folder)
    made = await where.rotate(name, tenant)
    await _tell(shell, where, tenant, made, "has a new key in")


@command("revoke", group=group)
async def revoke(
    shell: Shell, name: Name, folder: FolderOption = None, tenant: TenantOption = _MAIN
) -> None:
    """Take somebody out; what he said stays, his connections are cut off."""
    where = access.AccessFolder(folder)
    try:
        gone = await where.revoke(name, tenant)
    except access.AccessError:
        # Whoever says it again, because the first time was cut short, means the servers too.
        with contextlib.suppress(access.AccessError):
            await access.reload_servers(where.config)
        raise
    await _tell(shell, where, tenant, gone, "is no longer in", has_key=False)


@command("mute", group=group)
async def mute(
    shell: Shell,
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays on record.")] = "",
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Let somebody only read until `unmute`: the server takes nothing from him."""
    where = access.AccessFolder(folder)
    made = await where.mute(name, tenant, by=shell.settings().name, reason=typed(reason))
    await _tell(shell, where, tenant, made, "is muted in", has_key=False)


@command("unmute", group=group)
async def unmute(
    shell: Shell, name: Name, folder: FolderOption = None, tenant: TenantOption = _MAIN
) -> None:
    """Let somebody speak again."""
    where = access.AccessFolder(folder)
    made = await where.unmute(name, tenant)
    await _tell(shell, where, tenant, made, "may speak again in", has_key=False)


@command("limit", group=group)
async def limit(
    shell: Shell,
    connections: Annotated[int, typer.Option(min=0, help="Connections at a time; 0: open.")] = 0,
    file_bytes: Annotated[int, typer.Option(min=0, help="Bytes of all streams; 0: open.")] = 0,
    message_bytes: Annotated[int, typer.Option(min=0, help="Bytes of a message; 0: open.")] = 0,
    subscriptions: Annotated[
        int, typer.Option(min=0, help="Subscriptions of a connection; 0: open.")
    ] = 0,
    folder: FolderOption = None,
    tenant: TenantOption = _MAIN,
) -> None:
    """Bound what a tenant may take of the server."""
    where = access.AccessFolder(folder)
    await where.limit(
        tenant,
        max_connections=connections,
        max_file_bytes=file_bytes,
        max_payload_bytes=message_bytes,
        max_subscriptions=subscriptions,
    )
    found = await access.reload_servers(where.config)
    if shell.json:
        shell.result(
            AuthLimited(
                tenant=tenant,
                connections=connections,
                file_bytes=file_bytes,
                message_bytes=message_bytes,
                subscriptions=subscriptions,
                reloaded=found,
            )
        )
        return
    shell.say(f"tenant {tenant} is bounded", "bold")
    _tell_reloaded(shell, where, found)


@command("list", group=group)
def list_(shell: Shell, folder: FolderOption = None) -> None:
    """Show who there is; no secrets."""
    where = access.AccessFolder(folder)
    rows = [_row(tenant.name, one) for tenant in where.tenants() for one in tenant.identities]
    if shell.json:
        shell.result(AuthList(folder=str(where.path), identities=rows))
        return
    made = table("tenant", "name", "role", "acts for", "can", "public key", "since")
    if where.is_interrupted:
        shell.note("a command was killed in the middle of a change: `bus auth reload` finishes it")
    for row in rows:
        made.add_row(
            *(cell(text) for text in (row.tenant, row.name, row.role)),
            cell(" ".join(row.acts_for) or "-"),
            cell(" ".join(row.can) or "-"),
            cell(row.public_key),
            cell(f"muted {row.muted}" if row.muted else row.added_at),
        )
    shell.table(made)


@command("roles", group=group)
def roles(shell: Shell) -> None:
    """Show the table: what each role may publish and subscribe to."""
    rows = {role.value: row for role, row in access.ROLES.items()}
    rows |= {f"--can {extra.value}": row for extra, row in access.EXTRAS.items()}
    lines = [
        RoleLine(
            name=name, about=row.about, publish=list(row.publish), subscribe=list(row.subscribe)
        )
        for name, row in rows.items()
    ]
    if shell.json:
        shell.result(AuthRoles(roles=lines))
        return
    for line in lines:
        shell.say(f"{line.name}: {line.about}", "bold")
        for verb, subjects in (("publish", line.publish), ("subscribe", line.subscribe)):
            for subject in subjects:
                shell.say(f"  {verb:<9}  {subject}")


@command("reload", group=group)
async def reload(shell: Shell, folder: FolderOption = None) -> None:
    """Make the accounts anew from the table, and have this user's running servers read them.

    After an upgrade of threadbus, and after a command that was killed.
    """
    where = access.AccessFolder(folder)
    await where.rewrite()
    found = await access.reload_servers(where.config)
    if shell.json:
        shell.result(AuthReloaded(reloaded=found))
        return
    shell.say(f"reloaded: {', '.join(map(str, found)) or 'no server of yours runs with it'}")


def _row(tenant: str, one: access.Identity) -> IdentityRow:
    return IdentityRow(
        tenant=tenant,
        name=one.name,
        role=one.role.value,
        public_key=one.public_key,
        acts_for=list(one.acts_for),
        can=[extra.value for extra in one.can],
        added_at=one.added_at,
        muted="" if one.muted is None else _muted(one.muted),
    )


def _muted(muted: access.Muted) -> str:
    until = f" until {muted.until}" if muted.until else ""
    return f"by {muted.by} at {muted.at}{until}" + (f": {muted.reason}" if muted.reason else "")


async def _tell(
    shell: Shell,
    where: access.AccessFolder,
    tenant: str,
    one: access.Identity,
    what: str,
    *,
    has_key: bool = True,
) -> None:
    """Put the change in force where a server runs, and say it."""
    found = await access.reload_servers(where.config)
    key = str(where.key_path(one.name, tenant)) if has_key else ""
    if shell.json:
        row = msgspec.structs.asdict(_row(tenant, one))
        shell.result(AuthChanged(**row, key_file=key, reloaded=found))
        return
    shell.say(f"{one.name} {what} tenant {tenant}", "bold")
    if key:
        signed = key.endswith(".creds")
        kind, variable = ("creds", "BUS_CREDS") if signed else ("nkey ", "BUS_NKEY")
        shell.say(f"  {kind} {key}   (secret: move it to whom it belongs)")
        shell.say(f"  use   {variable}={key}")
    _tell_reloaded(shell, where, found)


def _tell_reloaded(shell: Shell, where: access.AccessFolder, found: list[int]) -> None:
    folder = where.path.parent
    if (folder / "cluster.json").is_file():
        command = f"bus cluster sync {shlex.quote(str(folder))}"
        shell.say(f"  next  {command}    (then every server has it)")
    elif found:
        shell.say(f"  the running server has it ({', '.join(map(str, found))})")
    else:
        shell.say(f"  no server of yours runs with it: put a copy of {where.config}", "dim")
        shell.say('  beside its configuration, which says: include "accounts.conf"', "dim")


def _flags(folder: Path | None, tenant: str) -> str:
    flags = "" if folder is None else f" --folder {folder}"
    return flags if tenant == _MAIN else f"{flags} --tenant {tenant}"
