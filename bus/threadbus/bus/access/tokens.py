"""JWTs as NATS has them: who vouches for whom, signed with nkeys.

An operator vouches for accounts, an account for its users. A token is a JWT of version 2 of NATS's
claims with the algorithm ``ed25519-nkey``; nothing of it is secret but the seed that stands beside
it in a file of credentials.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import nkeys  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

_keys: Any = nkeys
_HEADER: Final = {"typ": "JWT", "alg": "ed25519-nkey"}
_VERSION: Final = 2
_NO_LIMIT: Final = -1


def sign_claims(kind: str, name: str, subject: str, claims: Mapping[str, Any], seed: bytes) -> str:
    """Return a token.

    Args:
        kind: ``operator``, ``account`` or ``user``.
        name: for people.
        subject: the public key that it is about.
        claims: what it says.
        seed: the secret of who vouches for it.
    """
    pair = _keys.from_seed(bytearray(seed))
    try:
        issuer = str(pair.public_key.decode())
        body: dict[str, Any] = {
            "iat": int(time.time()),
            "iss": issuer,
            "name": name,
            "sub": subject,
            "nats": {**claims, "type": kind, "version": _VERSION},
        }
        digest = hashlib.sha256(msgspec.json.encode(body)).digest()
        body["jti"] = base64.b32encode(digest).decode().rstrip("=")
        signed = f"{_part(_HEADER)}.{_part(body)}"
        return f"{signed}.{_base64(pair.sign(signed.encode()))}"
    finally:
        pair.wipe()


def account_limits(
    *, connections: int = 0, payload: int = 0, subscriptions: int = 0, disk: int | None = None
) -> dict[str, Any]:
    """Return the limits of an account; 0 is none.

    Args:
        connections: at a time.
        payload: bytes of one message.
        subscriptions: of the account; a token has no word for those of one connection.
        disk: bytes of its streams, 0 for no limit; None where it has no streams.
    """
    streams = _NO_LIMIT if disk is not None else 0
    return {
        "subs": subscriptions or _NO_LIMIT,
        "data": _NO_LIMIT,
        "payload": payload or _NO_LIMIT,
        "imports": _NO_LIMIT,
        "exports": _NO_LIMIT,
        "wildcards": True,
        "conn": connections or _NO_LIMIT,
        "leaf": _NO_LIMIT,
        "mem_storage": streams,
        "disk_storage": disk or streams,
        "streams": streams,
        "consumer": streams,
    }


def credentials_file(token: str, seed: bytes) -> bytes:
    """Return the content of a file of credentials."""
    return (
        b"-----BEGIN NATS USER JWT-----\n%b\n------END NATS USER JWT------\n\n"
        b"-----BEGIN USER NKEY SEED-----\n%b\n------END USER NKEY SEED------\n"
        % (token.encode(), seed)
    )


def _part(value: object) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
