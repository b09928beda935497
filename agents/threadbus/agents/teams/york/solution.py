"""The solution agent: writes a model in Emfatic, and asks whoever wants it where it is unclear."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.agent import Agent, AgentLimits
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, make_tool
from threadbus.agents.teams.york.attempts import model_text, whole_text
from threadbus.schemas import (
    EventId,
    FilePart,
    InputGiven,
    InputRequested,
    Part,
    Skill,
    TextPart,
    clean_text,
)

MEDIA_TYPE: Final = "text/x-emfatic"
LONGEST_ANSWER: Final = timedelta(hours=24)
"""How long the requester may take to answer a question."""
LONGEST_TURN: Final = LONGEST_ANSWER + timedelta(hours=1)
"""How long one attempt may take, with the wait for an answer."""
_MAX_QUESTION_CHARS: Final = 2_000
_MAX_ANSWERS: Final = 20
PROMPT: Final = """\
You write domain models in Emfatic, the textual notation of Ecore. Answer with one package in a
fenced block and nothing else. `attr` is for values, `ref` for links, `val` for parts; both ends of
a link name one another with #. Bounds stand behind the type: String[1], Book[*], Writer[1..*].
Where the request leaves something open that changes the model, call ask_requester once, with one
short question. Where feedback on an earlier attempt is given, mend all of it.
"""

agent = Agent(
    "solution",
    display_name="Solution",
    description="Writes domain models in Emfatic and mends them by feedback.",
    skills=[
        Skill(
            id="model",
            name="Write a domain model",
            description="Turns a description of a domain into an Ecore model in Emfatic.",
            tags=("modelling", "emfatic", "ecore", "generation"),
            examples=("A library with books, writers and loans",),
        )
    ],
    output_modes=("text/plain", MEDIA_TYPE),
    limits=AgentLimits(turn_timeout=LONGEST_TURN),
)


class Question(msgspec.Struct):
    """What ask_requester takes."""

    question: str


@agent.on_mention
async def write(mention: Mention) -> list[Part]:
    """Make one attempt, knowing what was asked and answered before it."""

    async def ask(asked: Question) -> str:
        await mention.progress("asking the requester")
        question = clean_text(asked.question, _MAX_QUESTION_CHARS)
        return await mention.request_input(question, timeout=LONGEST_ANSWER)

    said, known = await whole_text(mention), await _answered(mention)
    tools = {
        "ask_requester": make_tool(
            "ask_requester",
            "Ask the person who wants the model one question.",
            Question,
            ask,
            timeout=LONGEST_TURN,
        )
    }
    run = await mention.thinking.run(
        [ChatMessage.system(PROMPT), ChatMessage.user(f"{said}{known}")], tools
    )
    text = model_text(run.text)
    return [TextPart(run.text), FilePart(text.encode(), "model.emf", MEDIA_TYPE)]


async def _answered(mention: Mention) -> str:
    """Return what the requester was asked in earlier attempts, with the answers."""
    asked: dict[EventId, str] = {}
    lines: list[str] = []
    for entry in await mention.history():
        data = entry.event.data
        # What this turn asks itself is in its own conversation, also where it runs again.
        if entry.seq >= mention.seq:
            break
        if isinstance(data, InputRequested) and entry.event.sender == mention.agent:
            asked[entry.event.id] = await whole_text(mention, data.parts)
        elif isinstance(data, InputGiven) and data.request in asked:
            question = asked.pop(EventId(data.request))
            lines.append(f"- {question} {await whole_text(mention, data.parts)}")
    answers = "\n".join(lines[-_MAX_ANSWERS:])
    return f"\n\nThe requester has answered:\n{answers}" if answers else ""
