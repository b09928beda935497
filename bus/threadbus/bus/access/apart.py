"""Streams in an account of their own: what its clients reach of it, and nothing else of them.

A client names the subject of an answer itself, and in the account of the streams that subject may
be one of the log. Where the clients are in another account, an answer goes back to theirs, where
no stream listens. So nobody can have the server say something under another's name.

Each row is a subject that the account of the streams exports and that of the clients imports.
They do not overlap: what two rows matched would come twice.
"""

from __future__ import annotations

from typing import Any, Final

_ONE: Final = (
    "bus.>",
    "part.>",
    "$KV.>",
    "$O.>",
    "$JS.API.INFO",
    "$JS.API.STREAM.>",
    "$JS.API.CONSUMER.CREATE.>",
    "$JS.API.CONSUMER.DURABLE.>",
    "$JS.API.CONSUMER.DELETE.>",
    "$JS.API.CONSUMER.INFO.>",
    "$JS.API.CONSUMER.LIST.>",
    "$JS.API.CONSUMER.NAMES.>",
    "$JS.API.CONSUMER.PAUSE.>",
    "$JS.API.DIRECT.GET.*.>",
    "$JS.ACK.>",
)
"""Requests with one answer, or none."""

_MANY: Final = ("$JS.API.DIRECT.GET.*", "$JS.API.CONSUMER.MSG.NEXT.>")
"""Requests with many answers: batches of the log, pulled mentions."""

_QUIET: Final = "1m"
"""How long the way of many answers is kept open without any; a pull gives one every few seconds."""

_QUIET_NS: Final = 60 * 1_000_000_000

_HEARD: Final = ("stored.>", "inbox.>", "backup.*")
"""What the account of the streams says by itself: what it has stored, mentions that are pushed, the
pieces of a backup. Only an operator may subscribe to the last."""

_SAID: Final = ("$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>")
"""What clients say to the account of the streams without a request's headers, which would get into
the pieces of a restored stream. Only an operator may publish there."""


def exports() -> list[dict[str, Any]]:
    """Return the exports of the account of the streams, as the server's configuration has them."""
    return [
        *({"service": subject} for subject in _ONE),
        *(
            {"service": subject, "response_type": "stream", "response_threshold": _QUIET}
            for subject in _MANY
        ),
        *({"stream": subject} for subject in _HEARD),
    ]


def imports(account: str) -> list[dict[str, Any]]:
    """Return the imports of the account of the clients from *account*."""
    return [
        *({"service": {"account": account, "subject": subject}} for subject in (*_ONE, *_MANY)),
        *({"stream": {"account": account, "subject": subject}} for subject in _HEARD),
    ]


def claimed_exports() -> list[dict[str, Any]]:
    """Return the exports as the token of the account of the streams has them."""
    one = [{"name": subject, "subject": subject, "type": "service"} for subject in _ONE]
    many = [
        {
            "name": subject,
            "subject": subject,
            "type": "service",
            "response_type": "Stream",
            "response_threshold": _QUIET_NS,
        }
        for subject in _MANY
    ]
    heard = [{"name": subject, "subject": subject, "type": "stream"} for subject in _HEARD]
    return [*one, *many, *heard]


def claimed_imports(account: str) -> list[dict[str, Any]]:
    """Return the imports as the token of the account of the clients has them.

    Args:
        account: the public key of the account of the streams.
    """
    kinds = [*((subject, "service") for subject in (*_ONE, *_MANY))]
    kinds += [(subject, "stream") for subject in _HEARD]
    return [
        {"name": subject, "subject": subject, "account": account, "type": kind}
        for subject, kind in kinds
    ]


def claimed_said_to_streams() -> list[dict[str, Any]]:
    """Return the exports as the token of the account of the clients has them."""
    return [{"name": subject, "subject": subject, "type": "stream"} for subject in _SAID]


def claimed_heard_from_clients(account: str) -> list[dict[str, Any]]:
    """Return the imports as the token of the account of the streams has them.

    Args:
        account: the public key of the account of the clients.
    """
    return [
        {"name": subject, "subject": subject, "account": account, "type": "stream"}
        for subject in _SAID
    ]


def said_to_streams() -> list[dict[str, Any]]:
    """Return the exports of the account of the clients."""
    return [{"stream": subject} for subject in _SAID]


def heard_from_clients(account: str) -> list[dict[str, Any]]:
    """Return the imports of the account of the streams from that of its clients."""
    return [{"stream": {"account": account, "subject": subject}} for subject in _SAID]
