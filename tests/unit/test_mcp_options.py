"""How the MCP gateway may be started, and what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from threadbus.gateways.errors import InvalidOptionError, TokensFileError
from threadbus.gateways.mcp.running import http_options, options
from threadbus.gateways.principals import add_token
from threadbus.schemas import AgentName

ADA = AgentName("ada")


def made(http: str = "127.0.0.1:0", agent: AgentName | None = None, **more: Any) -> Any:
    """Read options as the command does."""
    given: dict[str, Any] = {
        "tokens": None,
        "hosts": (),
        "origins": (),
        "issuer": "",
        "public_url": "",
    } | more
    return http_options(http, agent, given.pop("tokens"), **given)


def test_who_a_host_is_must_be_said(tmp_path: Path) -> None:
    """By tokens, or by one name on a loopback address; not by both, and not by neither."""
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "ada")

    assert made(agent=ADA).principals is None
    assert made(tokens=tokens).principals.agents == {"ada"}
    for wrong in ({}, {"agent": ADA, "tokens": tokens}):
        # Nothing was given, so no value is named.
        with pytest.raises(
            InvalidOptionError, match=r"^--tokens and --agent: with --http give one"
        ):
            made(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "10.0.0.1:80", "[::]:0", "example.org:80"])
def test_an_agent_without_tokens_is_for_this_machine_only(address: str) -> None:
    """Elsewhere anybody could be it."""
    with pytest.raises(InvalidOptionError, match="anybody could be it"):
        made(address, ADA)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """Tokens and keys are looked at before anything is served."""
    with pytest.raises(TokensFileError, match="nowhere"):
        made(tokens=tmp_path / "nowhere")
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        options(None, "", coral=False, state_keys=tmp_path / "nowhere")
    short = tmp_path / "keys"
    short.write_text("k" * 40 + "\nshort\n")
    with pytest.raises(InvalidOptionError, match="32 characters or more"):
        options(None, "", coral=False, state_keys=short)
    short.write_text("k" * 40 + "\n\n" + "l" * 32)
    assert options(None, "", coral=True, state_keys=short).state_keys == (b"k" * 40, b"l" * 32)


def test_an_issuer_needs_to_know_how_hosts_reach_the_gateway(tmp_path: Path) -> None:
    """The two options go together."""
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "ada")
    with pytest.raises(InvalidOptionError, match="go together"):
        made(tokens=tokens, issuer="https://login.example.org")
