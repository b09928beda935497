"""Names that come from outside, and names that go outside.

A foreign name maps to one canonical agent name, always the same one, and two foreign names never
to the same (:func:`threadbus.schemas.canonical_agent_name`). What a model or a person types for an
agent that is registered is looked for more kindly, but never guessed: what fits two is refused.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from threadbus.bus import BusSettings, UnknownAgentError
from threadbus.gateways.errors import AmbiguousNameError
from threadbus.schemas import (
    AgentCard,
    AgentName,
    canonical_agent_name,
    clean_text,
    nearest_names,
    parse_agent_name,
)

MAX_FOREIGN_NAME_CHARS: Final = 1024
"""Characters of a foreign name that count; what differs only after them is one name."""

MAX_TOOL_NAME_CHARS: Final = 64
"""What the strictest of the usual model providers takes."""

_DIGEST: Final = 8


def speaker_of(settings: BusSettings, otherwise: str) -> AgentName:
    """Return under which name a gateway connects: that of ``--as`` (``BUS_AS``), where it is given.

    It has to be that of the identity whose key it has: the server sends answers to nobody else.
    """
    is_given = settings.name != BusSettings().name
    return parse_agent_name(settings.name if is_given else otherwise)


def agent_name_of(foreign: str) -> AgentName:
    """Return the agent name for a name from outside: the same each time, its own for each.

    ``Billing Agent`` and ``billing.agent`` become two names; a canonical name stays as it is.
    """
    return canonical_agent_name(clean_text(foreign[:MAX_FOREIGN_NAME_CHARS]))


def find_agent(typed: str, cards: Sequence[AgentCard]) -> AgentName:
    """Return the registered agent that is meant by *typed*.

    Tried in this order, and the first that fits counts: the canonical name, what
    :func:`agent_name_of` makes of it, then without regard to case, a leading ``@``, blanks, dots
    and dashes: the canonical name or the display name.

    Args:
        typed: what a model, a person or a peer wrote.
        cards: everybody who is registered.

    Raises:
        UnknownAgentError: nobody fits; has the nearest names.
        AmbiguousNameError: two or more fit equally well; has their names.
    """
    wanted = typed[:MAX_FOREIGN_NAME_CHARS].strip().removeprefix("@").strip()
    by_name = {AgentName(card.name): card for card in cards}
    for exact in (wanted, agent_name_of(wanted)):
        if exact in by_name:
            return AgentName(exact)
    loose = _loosely(wanted)
    if loose:
        looks: list[Callable[[AgentCard], str]] = [
            lambda card: card.name,
            lambda card: card.display_name,
        ]
        for look in looks:
            found = [name for name, card in by_name.items() if _loosely(look(card)) == loose]
            if len(found) == 1:
                return found[0]
            if found:
                raise AmbiguousNameError(typed, found)
    near = nearest_names(wanted, list(by_name))
    near += [name for name in _by_title(wanted, cards) if name not in near]
    raise UnknownAgentError(typed, near[:3])


def _loosely(name: str) -> str:
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(character for character in plain if character.isalnum())


def _by_title(wanted: str, cards: Sequence[AgentCard]) -> list[str]:
    """Return the names of those whose display name looks like what was typed."""
    titles = {card.display_name.lower(): card.name for card in cards if card.display_name}
    return [titles[title] for title in nearest_names(wanted, list(titles))]


def tool_name(prefix: str, name: str) -> str:
    """Return the name of the tool that stands for an agent: *prefix* and *name*, in 64 characters.

    Collision-free: what has to be cut ends with digits of a hash of the whole.

    Args:
        prefix: such as ``ask_``, at most 32 characters.
        name: a canonical agent name.
    """
    whole = prefix + name
    if len(whole) <= MAX_TOOL_NAME_CHARS:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    return f"{whole[: MAX_TOOL_NAME_CHARS - _DIGEST - 1]}-{digest}"
