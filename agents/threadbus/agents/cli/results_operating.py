"""What the commands of an operator print with ``--json``, as :mod:`.results` has it for others."""

from __future__ import annotations

from typing import Annotated

import msgspec

from threadbus.bus import backup, cluster


def means(text: str) -> msgspec.Meta:
    """Describe a key."""
    return msgspec.Meta(description=text)


class ForgottenRow(msgspec.Struct, kw_only=True):
    """What was taken away of one agent."""

    agent: str
    registered: Annotated[bool, means("whether it had a record")]
    waiting: Annotated[int, means("mentions that waited for it")]
    dropped: Annotated[int, means("how many of those were dropped from its inbox")]


class Forgot(msgspec.Struct, kw_only=True):
    """What `forget` prints."""

    agents: Annotated[list[ForgottenRow], means("in the order given")]


class IdentityRow(msgspec.Struct, kw_only=True):
    """One identity: whoever has its nkey. Nothing of it is secret."""

    tenant: Annotated[str, means("whose it is: a NATS account")]
    name: Annotated[str, means("its name")]
    role: Annotated[str, means("operator, agent, gateway or observer")]
    public_key: Annotated[str, means("the public half of its nkey")]
    acts_for: Annotated[list[str], means("names that a gateway speaks as besides")] = []
    can: Annotated[list[str], means("what it may do besides")] = []
    muted: Annotated[str, means("who muted it, when and why; empty where it may speak")] = ""
    added_at: Annotated[str, means("when its present key was made, in UTC")] = ""


class AuthChanged(IdentityRow, kw_only=True):
    """What the commands of `auth` print that add, change or take out somebody."""

    key_file: Annotated[str, means("where its nkey is; empty once it is revoked")] = ""
    reloaded: Annotated[list[int], means("servers (processes) that took it in at once")] = []


class AuthLimited(msgspec.Struct, kw_only=True):
    """What `auth limit` prints."""

    tenant: Annotated[str, means("which tenant")]
    connections: Annotated[int, means("connections at a time; 0 is open")]
    file_bytes: Annotated[int, means("bytes of all its streams; 0 is open")]
    message_bytes: Annotated[int, means("bytes of one message; 0 is open")] = 0
    subscriptions: Annotated[int, means("subscriptions of one connection; 0 is open")] = 0
    reloaded: Annotated[list[int], means("servers (processes) that took it in at once")] = []


class AuthReloaded(msgspec.Struct, kw_only=True):
    """What `auth reload` prints."""

    reloaded: Annotated[list[int], means("servers (processes) that read the accounts again")]


class AuthList(msgspec.Struct, kw_only=True):
    """What `auth list` prints."""

    folder: Annotated[str, means("the access folder")]
    identities: Annotated[list[IdentityRow], means("every identity")]


class RoleLine(msgspec.Struct, kw_only=True):
    """What one role, or one `--can`, may do."""

    name: Annotated[str, means("the role; of a `--can` with that before it")]
    about: Annotated[str, means("what it is for")]
    publish: Annotated[list[str], means("subjects; {me} and {who} stand for names")]
    subscribe: Annotated[list[str], means("subjects; {me} and {who} stand for names")]


class AuthRoles(msgspec.Struct, kw_only=True):
    """What `auth roles` prints."""

    roles: Annotated[list[RoleLine], means("the table")]


class MetricsServed(msgspec.Struct, kw_only=True):
    """What `metrics` prints once it serves; with `--once` it prints the metrics themselves."""

    url: Annotated[str, means("what Prometheus scrapes")]


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
    limits: Annotated[LimitRow, means("in force")]
    replaced: Annotated[list[LimitRow], means("those before, the newest first")]


class LimitsShown(msgspec.Struct, kw_only=True):
    """What the commands of `limits` print."""

    agents: Annotated[list[AgentLimitsRow], means("who has limits on record")]
    defaults: Annotated[dict[str, int], means("what the settings say; 0 is no limit")]


class BackupDone(msgspec.Struct, kw_only=True):
    """What `backup` and `restore` print."""

    folder: Annotated[str, means("the backup")]
    manifest: Annotated[backup.Manifest, means("what it holds")]


class ClusterMade(msgspec.Struct, kw_only=True):
    """What `cluster init` prints."""

    folder: Annotated[str, means("the folder of the cluster")]
    url: Annotated[str, means("where clients connect, every server")]
    nodes: Annotated[list[str], means("the folder of each server in it")]
    operator_key: Annotated[str, means("the nkey of the operator, a file")]


class CertificatesRenewed(msgspec.Struct, kw_only=True):
    """What `cluster renew` prints."""

    renewed: Annotated[bool, means("whether there are new ones in the folder of the cluster")]
    cluster: Annotated[
        cluster.ClusterStatus | None, means("how it is with them; null where no server was told")
    ] = None


class CopiesSet(msgspec.Struct, kw_only=True):
    """What `cluster copies` prints."""

    copies: Annotated[int, means("servers that keep each stream")]
    changed: Annotated[list[str], means("streams that were kept by another number")]


class GuardLine(msgspec.Struct, kw_only=True):
    """What `guard` prints, a line for each thing that it does."""

    agent: Annotated[str, means("who")]
    done: Annotated[str, means("muted, may speak again …")]
    reason: Annotated[str, means("why, in words")]
