"""Signed agent cards: who has the public key knows that a card is the gateway's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from threadbus.gateways.errors import InvalidOptionError

_OPTION: Final = "--sign-key"
_ALLOWED: Final = (
    "it is a private key in PEM without a password: EC P-256, or RSA of 2048 bits or more"
)


def card_signer(path: Path) -> Callable[[pb.AgentCard], pb.AgentCard]:
    """Return what signs a card (JWS, RFC 7515, over its canonical form) and gives it back.

    The key's id is a hash of its public part, so that who has that finds the key.

    Args:
        path: a PEM file with a private key.

    Raises:
        InvalidOptionError: it holds no key that cards are signed with.
    """
    try:
        pem = path.read_bytes()
        key = serialization.load_pem_private_key(pem, password=None)
    except OSError as error:
        raise InvalidOptionError(_OPTION, str(path), error.strerror or str(error)) from error
    except (ValueError, TypeError) as error:
        raise InvalidOptionError(_OPTION, str(path), _ALLOWED) from error
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        algorithm = "ES256"
    elif isinstance(key, rsa.RSAPrivateKey) and key.key_size >= 2048:
        algorithm = "RS256"
    else:
        raise InvalidOptionError(_OPTION, str(path), _ALLOWED)
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key_id = hashlib.sha256(public).hexdigest()[:16]
    return create_agent_card_signer(
        pem, {"kid": key_id, "alg": algorithm, "jku": None, "typ": "JOSE"}
    )
