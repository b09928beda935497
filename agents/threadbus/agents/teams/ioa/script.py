"""The team that finds itself, on one question: what do these measurements say?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threadbus.agents.teams.script import TeamScript
from threadbus.schemas import Part, TextPart

_QUESTION: Final = (
    "The river stood at these levels this week: 12, 7, 3, 25, 8 and 30 cm. Describe the "
    "measurements for the public, and explain the word median."
)


def _question() -> list[Part]:
    return [TextPart(_QUESTION)]


_FOLDER: Final = "threadbus.agents.teams.ioa"

SCRIPT: Final = TeamScript(
    about="Six agents, each a process of its own; the one that is asked knows none of the others.",
    agents={
        "host": f"{_FOLDER}.host:agent",
        "analyst": f"{_FOLDER}.analyst:agent",
        "centre": f"{_FOLDER}.workers:centre_agent",
        "spread": f"{_FOLDER}.workers:spread_agent",
        "glossary": f"{_FOLDER}.workers:glossary_agent",
        "weather": f"{_FOLDER}.workers:weather_agent",
    },
    to=("host",),
    question=_question,
    playbook=Path(__file__).parent / "playbook.toml",
    is_real="the agents find one another in the registry, and the numbers are computed",
)
