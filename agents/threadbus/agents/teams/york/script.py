"""The York collaboration on one request: a library, with a question about it in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threadbus.agents.teams.script import TeamScript
from threadbus.schemas import Part, TextPart

_REQUEST: Final = (
    "Model a library: it has a name and contains books and writers. A book has a title, a number "
    "of pages, a category (mystery, science fiction, biography) and its writers; a writer knows "
    "the books."
)


def _question() -> list[Part]:
    return [TextPart(_REQUEST)]


SCRIPT: Final = TeamScript(
    about="Four agents, each a process of its own, make a model that is right in form and meaning.",
    agents={
        "collaboration": "threadbus.agents.teams.york.collaboration:agent",
        "solution": "threadbus.agents.teams.york.solution:agent",
        "syntax": "threadbus.agents.teams.york.syntax:agent",
        "semantics": "threadbus.agents.teams.york.semantic:agent",
    },
    to=("collaboration",),
    question=_question,
    playbook=Path(__file__).parent / "playbook.toml",
    is_real="the models are parsed, checked and written as Ecore",
    replies=("Yes, a book may have several writers, but at least one.",),
)
