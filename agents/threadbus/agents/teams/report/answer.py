"""The answer agent: writes the final answer from what the others found."""

from __future__ import annotations

from typing import Final

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage
from threadbus.schemas import Skill

PROMPT: Final = """\
You write the final answer to a question from the findings that you are given. Quote the numbers of
every source and say where each comes from. If sources disagree, say which number differs. Be short.
"""

agent = Agent(
    "answer",
    display_name="Answer writer",
    description="Writes the final answer from what the others found, quoting each source.",
    skills=[
        Skill(
            id="write",
            name="Write the answer",
            description="Turns findings into a short answer with sources.",
            tags=("writing",),
        )
    ],
)


@agent.on_mention
async def write(mention: Mention) -> str:
    """Write one answer."""
    completion = await mention.thinking.complete(
        [ChatMessage.system(PROMPT), ChatMessage.user(mention.text)]
    )
    return completion.text
