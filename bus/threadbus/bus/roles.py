"""What each role may publish and subscribe to: the one table that permissions are made from.

In a row, ``{me}`` is the identity's own name and ``{who}`` each name that it may speak as: its own,
and for a gateway those that it acts for. Whatever is not in a row is refused by the server: to make
or change a stream, to make a consumer other than the own inbox, to delete or purge anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from threadbus.bus.spread_subjects import spread_pattern

ANYBODY: Final = "*"
"""What a gateway acts for that may speak as anybody."""


class Role(StrEnum):
    """What an identity is."""

    OPERATOR = "operator"
    AGENT = "agent"
    GATEWAY = "gateway"
    OBSERVER = "observer"


class Extra(StrEnum):
    """What an agent, a gateway or an observer may do besides (``--can``)."""

    POSITIONS = "positions"
    PUSH = "push"
    WAITING = "waiting"


class RoleRow(msgspec.Struct, frozen=True):
    """A row of the table."""

    about: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...] = ()


class Permissions(msgspec.Struct, frozen=True):
    """What one identity may do, as NATS takes it."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


_STREAMS: Final = ("BUS", "MENTIONS", "KV_AGENTS", "KV_PRESENCE", "OBJ_ARTIFACTS")
_READ_PUBLISH: Final = (
    "$JS.API.INFO",
    *(f"$JS.API.STREAM.INFO.{stream}" for stream in _STREAMS),
    "$JS.API.DIRECT.GET.BUS",
    "$JS.API.DIRECT.GET.OBJ_ARTIFACTS",
    "$JS.API.DIRECT.GET.KV_AGENTS",
    "$JS.API.DIRECT.GET.KV_AGENTS.>",
    "$JS.API.DIRECT.GET.KV_PRESENCE",
    "$JS.API.DIRECT.GET.KV_PRESENCE.>",
)
_READ_SUBSCRIBE: Final = ("_INBOX_{me}.>", "stored.bus.>", "live.>", "$KV.AGENTS.*")
_SPEAK: Final = (
    # What it says, and what it shows without storing it.
    "bus.*.*.*.{who}",
    "bus.*.*.*.{who}.>",
    "live.*.*.{who}",
    # Artifacts are found by the hash of their content: a false one is noticed by whoever reads it.
    "$O.ARTIFACTS.C.*",
    "$O.ARTIFACTS.M.*",
    # Its record and its heartbeats.
    "$KV.AGENTS.{who}",
    "$KV.PRESENCE.{who}.*",
    # Its inbox.
    "$JS.API.CONSUMER.CREATE.MENTIONS.agent-{who}.mention.{who}.>",
    "$JS.API.CONSUMER.DELETE.MENTIONS.agent-{who}",
    "$JS.API.CONSUMER.MSG.NEXT.MENTIONS.agent-{who}",
    "$JS.ACK.MENTIONS.agent-{who}.>",
)

ROLES: Final[Mapping[Role, RoleRow]] = {
    Role.OPERATOR: RoleRow(
        "makes and changes streams; may do everything in its tenant", (">",), (">",)
    ),
    Role.AGENT: RoleRow(
        "reads; speaks, registers and is woken under its own name only",
        _READ_PUBLISH + _SPEAK,
        _READ_SUBSCRIBE,
    ),
    Role.GATEWAY: RoleRow(
        "as an agent, for itself and for each name that it acts for",
        _READ_PUBLISH + _SPEAK,
        _READ_SUBSCRIBE,
    ),
    Role.OBSERVER: RoleRow("reads; writes nothing", _READ_PUBLISH, _READ_SUBSCRIBE),
}
"""The table: a row for each role."""

EXTRAS: Final[Mapping[Extra, RoleRow]] = {
    Extra.POSITIONS: RoleRow(
        "keeps how far it got in the whole log, under its own name (`bus trace --name`)",
        (
            "$JS.API.STREAM.INFO.KV_POSITIONS",
            "$JS.API.DIRECT.GET.KV_POSITIONS",
            "$JS.API.DIRECT.GET.KV_POSITIONS.>",
            "$KV.POSITIONS.{who}",
        ),
    ),
    Extra.PUSH: RoleRow("has its mentions pushed to inbox.<name>", (), ("inbox.{who}",)),
    Extra.WAITING: RoleRow(
        "sees every inbox and its oldest mention (`bus doctor`, `bus status`, `bus metrics`)",
        ("$JS.API.STREAM.MSG.GET.MENTIONS", "$JS.API.CONSUMER.LIST.MENTIONS"),
    ),
}
"""What can be given besides: a row for each ``--can``."""


def permissions_of(
    role: Role,
    name: str,
    *,
    acts_for: Sequence[str] = (),
    can: Sequence[Extra] = (),
    partitions: int = 1,
    inboxes: int = 1,
) -> Permissions:
    """Return what the server is told to allow one identity.

    Args:
        role: which row.
        name: the identity, an agent's name.
        acts_for: the other names that it may speak as; ``*`` is everybody.
        can: rows of :data:`EXTRAS` besides.
        partitions: streams that the log is spread over.
        inboxes: streams that the inboxes are spread over.
    """
    who = [ANYBODY] if ANYBODY in acts_for else [name, *(n for n in acts_for if n != name)]
    rows = [ROLES[role], *(EXTRAS[extra] for extra in can)]
    return Permissions(
        _filled(
            [subject for row in rows for subject in row.publish], name, who, partitions, inboxes
        ),
        _filled([subject for row in rows for subject in row.subscribe], name, who, 1, 1),
    )


def _filled(
    patterns: Sequence[str], me: str, who: Sequence[str], partitions: int, inboxes: int
) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pattern in patterns:
        if ANYBODY in who and "agent-{who}" in pattern:
            # A wildcard stands for a whole token: any inbox is any consumer of MENTIONS.
            pattern = pattern.replace("agent-{who}", ANYBODY)
        for name in who:
            for spread in spread_pattern(pattern, name, partitions, inboxes):
                found[spread.replace("{me}", me).replace("{who}", name)] = None
    return tuple(found)


def who_may(subject: str) -> str:
    """Return who may publish on *subject*, for a person whom the server has just refused."""
    tokens = subject.split(".")
    if "://" in subject:
        return "they were revoked or rotated: its operator makes new ones with `bus auth rotate`"
    if tokens[0].startswith("_INBOX_"):
        name = tokens[0].removeprefix("_INBOX_")
        return f"they are not those of {name}: say with --as (BUS_AS) whose they are"
    if tokens[0] == "bus" and len(tokens) > 4:
        muted = "; `bus auth list` shows who is muted"
        return _named(tokens[4], "speaks") + muted
    if tokens[0] == "part" and len(tokens) > 5:
        return _named(tokens[5], "speaks")
    if tokens[0] == "live" and len(tokens) > 3:
        return _named(tokens[3], "shows anything")
    if subject.startswith("$KV.AGENTS.limits."):
        return "only an operator sets limits"
    if subject.startswith(("$KV.AGENTS.", "$KV.PRESENCE.")):
        return _named(tokens[2], "keeps its record and its heartbeats")
    if subject.startswith("$KV.POSITIONS."):
        return f"the operator gives it with `--can positions` to {tokens[2]}"
    if subject.startswith(("inbox.", "mention.")):
        return f"the operator gives it with `--can push` to {tokens[1]}"
    for token in tokens:
        if token.startswith("agent-"):
            return _named(token.removeprefix("agent-"), "reads its inbox")
    if subject.startswith(("$JS.API.STREAM.MSG.GET.", "$JS.API.CONSUMER.LIST.")):
        return "the operator gives it with `--can waiting`"
    if subject.startswith("$JS.API.STREAM.") and len(tokens) > 3:
        what = "makes" if tokens[3] in {"CREATE", "UPDATE"} else "does that to"
        return f"only an operator {what} streams: run any command once with the operator's --nkey"
    return "see `bus auth roles` for who may do what"


def _named(name: str, does: str) -> str:
    return (
        f"only {name}, or a gateway that acts for it, {does} there; "
        f"the operator makes such credentials with `bus auth add-agent {name}`"
    )
