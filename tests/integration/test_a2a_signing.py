"""Signed A2A cards: checked by the SDK, and by other means in any script."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import json_format
from jwt.algorithms import ECAlgorithm

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import gateway
from threadbus.agents import Agent, Mention
from threadbus.gateways.a2a.signing import card_signer
from threadbus.gateways.errors import InvalidOptionError


def signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Make a key to sign with, and write it to *path*."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return key


async def test_signed_cards(bus_url: str, tmp_path: Path) -> None:
    """A card is signed with the operator's key, and one that was changed is told from it."""
    path = tmp_path / "key.pem"
    public = (
        signing_key(path)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    verify = create_signature_verifier(lambda _kid, _jku: public, ["ES256"])
    async with gateway(bus_url, tck, sign_key=path, old_clients=False) as (client, _):
        served = await client.http.get(client.url + "/agents/tck/.well-known/agent-card.json")
        again = await client.http.get(
            client.url + "/agents/tck/.well-known/agent-card.json",
            headers={"If-None-Match": served.headers["etag"]},
        )
    card = json_format.ParseDict(served.json(), pb.AgentCard())
    changed = json_format.ParseDict({**served.json(), "name": "other"}, pb.AgentCard())

    verify(card)
    assert again.status_code == 304
    with pytest.raises(SignatureVerificationError):
        verify(changed)


async def test_a_signed_card_in_any_script(bus_url: str, tmp_path: Path) -> None:
    """Who makes the canonical form (RFC 8785) by other means finds the signature right."""
    path = tmp_path / "key.pem"
    public = signing_key(path).public_key()
    agent = Agent("elodie", display_name="Élodie 🚀 刘备", description="Dit « bonjour »\u2028מלה")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return mention.text

    async with gateway(bus_url, agent, sign_key=path, old_clients=False) as (client, _):
        served = await client.http.get(client.url + "/agents/elodie/.well-known/agent-card.json")
    card = served.json()
    (signature,) = card.pop("signatures")
    canonical = json.dumps(card, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    payload = base64.urlsafe_b64encode(canonical.encode()).rstrip(b"=")
    algorithm = ECAlgorithm(ECAlgorithm.SHA256)

    assert card["name"] == agent.card.display_name
    assert algorithm.verify(
        signature["protected"].encode() + b"." + payload,
        public,
        base64.urlsafe_b64decode(signature["signature"] + "=="),
    )


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA"])
def test_what_is_no_key_signs_nothing(tmp_path: Path, content: bytes) -> None:
    """A file without a usable key is refused at the start."""
    path = tmp_path / "key.pem"
    path.write_bytes(content)

    with pytest.raises(InvalidOptionError, match="--sign-key"):
        card_signer(path)
