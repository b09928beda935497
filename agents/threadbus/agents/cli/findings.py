"""The verdicts of `bus doctor`, and the bounds that they are given by."""

from __future__ import annotations

from typing import Final

from threadbus.agents.cli.results import Check
from threadbus.bus import Unseen

S: Final = 1_000_000_000
DAY: Final = 86_400 * S

MAX_SKEW_NS: Final = 5 * S
"""How far clocks may be apart."""
MAX_LAG: Final = 1_000
"""Messages that an inbox, or a copy, may be behind."""
MAX_SILENT_NS: Final = 60 * S
"""How long nothing may be heard of a source, or of a copy, that is behind."""
MUCH: Final = 0.8
"""The part of a limit from which it is worth a note."""
TOO_MUCH: Final = 0.9
"""The part of a limit from which it is wrong."""
SOON_NS: Final = 30 * DAY
"""Before a certificate or a token ends: worth a note."""
TOO_SOON_NS: Final = 7 * DAY
"""Before a certificate or a token ends: wrong."""
SERVER_CONSUMERS: Final = 1_000
"""Consumers a stream that nats-server 2.15 allows by itself."""
MAX_NAMED: Final = 10
"""Names in one finding; more are counted."""


def ok(name: str, found: str) -> Check:
    """Say that all is well."""
    return Check(name=name, verdict="ok", found=found)


def note(name: str, found: str, advice: str, limit: str = "") -> Check:
    """Say what is good to know; it makes nothing unhealthy."""
    return Check(name=name, verdict="note", found=found, advice=advice, limit=limit)


def wrong(name: str, found: str, advice: str, limit: str = "") -> Check:
    """Say what is wrong."""
    return Check(name=name, verdict="wrong", found=found, advice=advice, limit=limit)


def hidden(what: Unseen) -> Check:
    """Say what could not be looked at: by permission, or as nobody answered."""
    if not what.denied:
        return wrong(
            "no answer",
            f"{what.what}: {what.reason}",
            "look at the server's log; in a cluster nothing answers for a stream that has lost "
            "more than half of its copies: start the servers that are away",
        )
    return Check(
        name="not seen",
        verdict="unseen",
        found=f"{what.what}: {what.reason}",
        advice="look again with credentials that may: an operator's, or `--can waiting`",
    )


def share(name: str, used: int, limit: int, shown: tuple[str, str], advice: str) -> Check:
    """Judge how much of a limit is used.

    Args:
        name: of the check.
        used: how much.
        limit: of how much.
        shown: both in words.
        advice: what to do.
    """
    part = used / limit
    found = f"{shown[0]} of {shown[1]} ({part:.0%})"
    if part >= TOO_MUCH:
        return wrong(name, found, advice, f"{TOO_MUCH:.0%}")
    if part >= MUCH:
        return note(name, found, advice, f"{MUCH:.0%}")
    return ok(name, found)


def named(names: list[str]) -> str:
    """Return names for a finding, not too many of them."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
