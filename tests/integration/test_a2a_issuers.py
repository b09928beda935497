"""Tokens of an OpenID Connect issuer, as the A2A gateway takes them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import gateway, message
from threadbus.gateways.errors import InvalidOptionError
from threadbus.schemas import TaskId


class Issuer:
    """An OpenID Connect issuer, as far as the gateway knows it: a name and its keys."""

    def __init__(self, folder: Path) -> None:
        self.url = "https://id.example"
        self.keys = folder / "jwks.json"
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        key = {**public, "kid": "k", "alg": "ES256", "use": "sig"}
        self.keys.write_text(json.dumps({"keys": [key]}))
        self.claims = {
            "iss": self.url,
            "aud": "a2a",
            "sub": "planner",
            "exp": int(time.time()) + 600,
        }

    def token(
        self, signer: ec.EllipticCurvePrivateKey | None = None, **claims: Any
    ) -> dict[str, str]:
        """Return the header with a token."""
        made = jwt.encode(
            {**self.claims, **claims},
            signer or self._key,
            algorithm="ES256",
            headers={"kid": "k"},
        )
        return {"Authorization": f"Bearer {made}"}


async def test_tokens_of_an_issuer(bus_url: str, tmp_path: Path) -> None:
    """A token of the issuer, for us and not over, is a principal of its own; no other is."""
    issuer = Issuer(tmp_path)
    unsigned = jwt.encode(issuer.claims, "", algorithm="none")
    bad = [
        issuer.token(ec.generate_private_key(ec.SECP256R1())),
        issuer.token(aud="other"),
        issuer.token(iss="https://evil.example"),
        issuer.token(None, exp=int(time.time()) - 600),
        # Two that would be one, once they were cut or made fit to travel.
        issuer.token(sub="u" * 300),
        issuer.token(sub="u\x00"),
        issuer.token(sub=""),
        {"Authorization": f"Bearer {jwt.encode(issuer.claims, 'x' * 64, algorithm='HS256')}"},
        {"Authorization": f"Bearer {unsigned}"},
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": "Bearer " + "x." * 40_000},
    ]
    async with gateway(bus_url, tck, issuer=issuer.url, jwks=issuer.keys, audience="a2a") as (
        client,
        bus,
    ):
        task = await client.result("SendMessage", message("issued"), headers=issuer.token())
        state = await bus.tasks.state(TaskId(task["task"]["id"]))
        refused = [
            (await client.http.post(client.url + "/rpc", json={}, headers=headers)).status_code
            for headers in bad
        ]
        card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()

    assert state.opened_by is not None
    assert state.opened_by != "planner"
    # The last one is more than the server takes of a header.
    assert refused == [*[401] * (len(bad) - 1), refused[-1]]
    assert refused[-1] in {400, 401, 431}
    assert set(card["securitySchemes"]) == {"bearer", "key", "oidc"}


async def test_scopes_and_client_credentials(bus_url: str, tmp_path: Path) -> None:
    """Tokens have to allow every scope; the card says where programs get one, and which."""
    issuer = Issuer(tmp_path)
    given: list[tuple[dict[str, Any], int]] = [
        ({"scope": "tasks read"}, 200),
        ({"scp": ["read", "tasks"]}, 200),
        ({"scope": "tasks"}, 401),
        ({"scope": "tasksread"}, 401),
        ({"scope": 5, "scp": {"tasks": 1}}, 401),
        ({}, 401),
    ]
    async with gateway(
        bus_url,
        tck,
        issuer=issuer.url,
        jwks=issuer.keys,
        audience="a2a",
        token_url="https://id.example/token",  # noqa: S106 - an address
        scopes=("tasks", "read"),
    ) as (client, _):
        codes = [
            (
                await client.http.post(client.url + "/rpc", json={}, headers=issuer.token(**claims))
            ).status_code
            for claims, _ in given
        ]
        card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()

    assert codes == [code for _, code in given]
    oauth2 = card["securitySchemes"]["oauth2"]["oauth2SecurityScheme"]
    flow = oauth2["flows"]["clientCredentials"]
    assert flow["tokenUrl"] == "https://id.example/token"
    assert set(flow["scopes"]) == {"tasks", "read"}
    assert {"schemes": {"oauth2": {"list": ["tasks", "read"]}}} in card["securityRequirements"]


@pytest.mark.parametrize(
    "options", [{"token_url": "https://id.example/token"}, {"scopes": ("tasks",)}]
)
async def test_scopes_need_an_issuer(bus_url: str, options: dict[str, Any]) -> None:
    """What only an issuer's tokens have is refused without one."""
    with pytest.raises(InvalidOptionError, match="--issuer"):
        async with gateway(bus_url, **options):
            pass
