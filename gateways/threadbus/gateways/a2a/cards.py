"""Agent cards: one for each registered agent, one for the bus as a whole. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from a2a.types import a2a_pb2 as pb

from threadbus.bus import LivingAgent
from threadbus.schemas import AgentCard, Skill, clean_text

JSON_RPC: Final = "rpc"
REST: Final = "rest"
_FILES: Final = (
    "text/plain",
    "text/markdown",
    "text/csv",
    "application/json",
    "application/pdf",
    "application/octet-stream",
)


class CardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the cards of one gateway have in common."""

    base: str
    """Where clients reach the gateway, without a slash at the end."""
    organization: str = "threadbus"
    secured: bool = False
    """Whether requests need a token; then there is an extended card too."""
    push: bool = True
    old_clients: bool = True
    """Whether clients of version 0.3 are told how to call, in fields that 1.0 does not know."""
    grpc: str = ""
    """Where clients reach it over gRPC, as HOST:PORT; empty where that is not served."""
    oidc_issuer: str = ""
    """Whose OpenID Connect tokens are taken, beside those of the tokens file."""
    token_url: str = ""
    """Where that issuer gives tokens to programs, by OAuth 2's client credentials."""
    scopes: tuple[str, ...] = ()
    """What its tokens have to allow."""


def agent_path(name: str) -> str:
    """Return the path under which one agent is served."""
    return f"/agents/{name}"


def agent_card(
    agent: LivingAgent, settings: CardSettings, *, extended: bool = False
) -> pb.AgentCard:
    """Return the card of one agent.

    Args:
        agent: who it is.
        settings: what all cards have in common.
        extended: with what only those see who have a token: examples and who is living.
    """
    own = agent.record.card
    card = _card(own.title, own.description, own.version, own.name, settings)
    card.default_input_modes.extend(own.input_modes)
    card.default_output_modes.extend(own.output_modes)
    card.skills.extend(_skill(skill, extended=extended) for skill in own.skills)
    if not card.skills:
        card.skills.append(_general(own))
    if extended:
        living = ", ".join(beat.state.value for beat in agent.instances) or "not living now"
        card.description = f"{card.description} ({living})".strip()
    return card


def bus_card(
    agents: Sequence[LivingAgent], settings: CardSettings, *, extended: bool = False
) -> pb.AgentCard:
    """Return the card of the bus as a whole: a team that takes questions of any kind."""
    card = _card(
        "threadbus",
        "A team of agents that work together on a question.",
        "1.0.0",
        "",
        settings,
    )
    modes = [mode for agent in agents for mode in agent.record.card.input_modes]
    card.default_input_modes.extend(dict.fromkeys((*_FILES, *modes)))
    modes = [mode for agent in agents for mode in agent.record.card.output_modes]
    card.default_output_modes.extend(dict.fromkeys((*_FILES, *modes)))
    for agent in agents:
        skill = _general(agent.record.card)
        if not extended:
            del skill.examples[:]
        card.skills.append(skill)
    if not card.skills:
        card.skills.append(
            pb.AgentSkill(
                id="team", name="Team work", description="Nobody is living now.", tags=["team"]
            )
        )
    return card


def _card(
    name: str, description: str, version: str, tenant: str, settings: CardSettings
) -> pb.AgentCard:
    base = settings.base + (agent_path(tenant) if tenant else "")
    card = pb.AgentCard(
        name=name,
        description=description or f"The agent {name}.",
        version=version,
        provider=pb.AgentProvider(organization=settings.organization, url=settings.base),
        capabilities=pb.AgentCapabilities(
            streaming=True,
            push_notifications=settings.push,
            extended_agent_card=settings.secured,
        ),
    )
    for protocol_version in ("1.0", "0.3") if settings.old_clients else ("1.0",):
        card.supported_interfaces.add(
            url=f"{base}/{JSON_RPC}",
            protocol_binding="JSONRPC",
            protocol_version=protocol_version,
        )
        card.supported_interfaces.add(
            url=f"{base}/{REST}",
            protocol_binding="HTTP+JSON",
            protocol_version=protocol_version,
        )
    if settings.grpc:
        # One service for all cards: the tenant of a request says whose it is.
        card.supported_interfaces.add(
            url=settings.grpc,
            protocol_binding="GRPC",
            protocol_version="1.0",
            tenant=tenant,
        )
    _secure(card, settings)
    return card


def _secure(card: pb.AgentCard, settings: CardSettings) -> None:
    if not settings.secured:
        return
    schemes = card.security_schemes
    schemes["bearer"].http_auth_security_scheme.scheme = "bearer"
    schemes["key"].api_key_security_scheme.location = "header"
    schemes["key"].api_key_security_scheme.name = "X-API-Key"
    wanted: dict[str, tuple[str, ...]] = {"bearer": (), "key": ()}
    issuer = settings.oidc_issuer.rstrip("/")
    if issuer:
        oidc = schemes["oidc"].open_id_connect_security_scheme
        oidc.open_id_connect_url = f"{issuer}/.well-known/openid-configuration"
        wanted["oidc"] = settings.scopes
    if settings.token_url:
        oauth2 = schemes["oauth2"].oauth2_security_scheme
        oauth2.oauth2_metadata_url = f"{issuer}/.well-known/oauth-authorization-server"
        flow = oauth2.flows.client_credentials
        flow.token_url = settings.token_url
        for scope in settings.scopes:
            flow.scopes[scope] = "Give tasks to the agents of the bus."
        wanted["oauth2"] = settings.scopes
    for name, scopes in wanted.items():
        # Any one of them will do.
        card.security_requirements.add().schemes[name].list[:] = scopes


def _skill(skill: Skill, *, extended: bool) -> pb.AgentSkill:
    return pb.AgentSkill(
        id=skill.id,
        name=skill.name,
        description=skill.description or skill.name,
        tags=skill.tags or ["agent"],
        examples=skill.examples if extended else (),
    )


def _general(card: AgentCard) -> pb.AgentSkill:
    """Return the one skill of an agent that names none, or of an agent within a team."""
    tags = [tag for skill in card.skills for tag in skill.tags]
    return pb.AgentSkill(
        id=card.name,
        name=card.title,
        description=clean_text(card.description or f"Ask {card.title}.", 1000),
        tags=list(dict.fromkeys(tags))[:32] or ["agent"],
        examples=[example for skill in card.skills for example in skill.examples][:8],
    )
