"""What the commands of an operator print with ``--json``, as :mod:`.results` has it for others."""

from __future__ import annotations

from typing import Annotated

import msgspec

from threadbus.bus import backup


def described(text: str) -> msgspec.Meta:
    """Describe a key."""
    return msgspec.Meta(description=text)


class ForgottenRow(msgspec.Struct, kw_only=True):
    """What was taken away of one agent."""

    agent: str
    registered: Annotated[bool, described("whether it had a record")]
    waiting: Annotated[int, described("mentions that waited for it")]
    dropped: Annotated[int, described("how many of those were dropped from its inbox")]


class Forgot(msgspec.Struct, kw_only=True):
    """What `forget` prints."""

    agents: Annotated[list[ForgottenRow], described("in the order given")]


class IdentityRow(msgspec.Struct, kw_only=True):
    """One identity: whoever has its nkey. Nothing of it is secret."""

    tenant: Annotated[str, described("whose it is: a NATS account")]
    name: Annotated[str, described("its name")]
    role: Annotated[str, described("operator, agent, gateway or observer")]
    public_key: Annotated[str, described("the public half of its nkey")]
    acts_for: Annotated[list[str], described("names that a gateway speaks as besides")] = []
    can: Annotated[list[str], described("what it may do besides")] = []
    muted: Annotated[str, described("who muted it, when and why; empty where it may speak")] = ""
    added_at: Annotated[str, described("when its present key was made, in UTC")] = ""


class AuthChanged(IdentityRow, kw_only=True):
    """What the commands of `auth` print that add, change or take out somebody."""

    key_file: Annotated[str, described("where its nkey is; empty once it is revoked")] = ""
    reloaded: Annotated[list[int], described("servers (processes) that took it in at once")] = []


class AuthLimited(msgspec.Struct, kw_only=True):
    """What `auth limit` prints."""

    tenant: Annotated[str, described("which tenant")]
    connections: Annotated[int, described("connections at a time; 0 is open")]
    file_bytes: Annotated[int, described("bytes of all its streams; 0 is open")]
    message_bytes: Annotated[int, described("bytes of one message; 0 is open")] = 0
    subscriptions: Annotated[int, described("subscriptions of one connection; 0 is open")] = 0
    reloaded: Annotated[list[int], described("servers (processes) that took it in at once")] = []


class AuthReloaded(msgspec.Struct, kw_only=True):
    """What `auth reload` prints."""

    reloaded: Annotated[list[int], described("servers (processes) that read the accounts again")]


class AuthList(msgspec.Struct, kw_only=True):
    """What `auth list` prints."""

    folder: Annotated[str, described("the access folder")]
    identities: Annotated[list[IdentityRow], described("every identity")]


class RoleLine(msgspec.Struct, kw_only=True):
    """What one role, or one `--can`, may do."""

    name: Annotated[str, described("the role; of a `--can` with that before it")]
    about: Annotated[str, described("what it is for")]
    publish: Annotated[list[str], described("subjects; {me} and {who} stand for names")]
    subscribe: Annotated[list[str], described("subjects; {me} and {who} stand for names")]


class AuthRoles(msgspec.Struct, kw_only=True):
    """What `auth roles` prints."""

    roles: Annotated[list[RoleLine], described("the table")]


class MetricsServed(msgspec.Struct, kw_only=True):
    """What `metrics` prints once it serves; with `--once` it prints the metrics themselves."""

    url: Annotated[str, described("what Prometheus scrapes")]


class LimitRow(msgspec.Struct, kw_only=True):
    """Limits as somebody set them; null where they are as for everybody."""

    events_per_second: int | None
    burst: int | None
    mentions_per_minute: int | None
    exchange: int | None
    set_by: str
    set_at: int
    reason: str


class AgentLimitsRow(msgspec.Struct, kw_only=True):
    """The limits on record for one agent; ``*`` is everybody."""

    agent: str
    limits: Annotated[LimitRow, described("in force")]
    replaced: Annotated[list[LimitRow], described("those before, the newest first")]


class LimitsShown(msgspec.Struct, kw_only=True):
    """What the commands of `limits` print."""

    agents: Annotated[list[AgentLimitsRow], described("who has limits on record")]
    defaults: Annotated[dict[str, int], described("what the settings say; 0 is no limit")]


class BackupDone(msgspec.Struct, kw_only=True):
    """What `backup` and `restore` print."""

    folder: Annotated[str, described("the backup")]
    manifest: Annotated[backup.Manifest, described("what it holds")]


class ClusterMade(msgspec.Struct, kw_only=True):
    """What `cluster init` prints."""

    folder: Annotated[str, described("the folder of the cluster")]
    url: Annotated[str, described("where clients connect, every server")]
    nodes: Annotated[list[str], described("the folder of each server in it")]
    operator_key: Annotated[str, described("the nkey of the operator, a file")]


class CopiesSet(msgspec.Struct, kw_only=True):
    """What `cluster copies` prints."""

    copies: Annotated[int, described("servers that keep each stream")]
    changed: Annotated[list[str], described("streams that were kept by another number")]


class GuardLine(msgspec.Struct, kw_only=True):
    """What `guard` prints, a line for each thing that it does."""

    agent: Annotated[str, described("who")]
    done: Annotated[str, described("muted, may speak again …")]
    reason: Annotated[str, described("why, in words")]
