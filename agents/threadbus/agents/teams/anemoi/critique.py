"""The critique: judges each result, accept or uncertain, with reasons."""

from __future__ import annotations

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, make_tool
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.names import CRITIQUE, JUDGE, data_of
from threadbus.agents.teams.anemoi.plans import reasons_of
from threadbus.agents.teams.anemoi.prompts import CRITIQUE_PROMPT
from threadbus.agents.teams.anemoi.quick import at_work
from threadbus.agents.teams.deciding import decide
from threadbus.schemas import CritiqueGiven, CritiqueVerdict, Skill

agent = Agent(
    CRITIQUE,
    display_name="Critique",
    description="Judges results of a team: accept or uncertain, with reasons.",
    skills=[
        Skill(
            id="judge",
            name="Judge results",
            description="Says whether a result answers its step, and what is missing.",
            tags=("validation", "critique"),
        )
    ],
)


class Verdict(msgspec.Struct):
    """What judge takes."""

    verdict: CritiqueVerdict
    reasons: list[str] = []


async def _work(mention: Mention) -> Reply:
    completion = await mention.thinking.complete(
        [ChatMessage.system(CRITIQUE_PROMPT), ChatMessage.user(await asked_in(mention))]
    )
    return completion.text


member(agent, CRITIQUE_PROMPT, _work)
_other = agent.mention_handler


@agent.on_mention
async def handle(mention: Mention) -> Reply:
    """Judge the result that a message names; everything else as any member does."""
    named = data_of(mention.event, JUDGE)
    if named is None:
        if _other is None:
            raise GiveUpError("there is nothing to do")
        return await _other(mention)
    with at_work(mention, "judging a result"):
        return await _judge(mention, str(named.get("result", "")))


async def _judge(mention: Mention, result: str) -> Reply:
    said: list[Verdict] = []

    async def take(verdict: Verdict) -> str:
        said.append(verdict)
        return "The verdict is on record."

    text = await decide(
        mention,
        [
            ChatMessage.system(CRITIQUE_PROMPT),
            ChatMessage.user(await asked_in(mention)),
        ],
        {"judge": make_tool("judge", "Say the verdict, with reasons.", Verdict, take)},
    )
    # Who says nothing has not accepted: a model that forgets the tool lets no fault through.
    last = said[-1] if said else Verdict(CritiqueVerdict.UNCERTAIN, [f"no verdict: {text}"])
    return CritiqueGiven(of=result, verdict=last.verdict, reasons=reasons_of(last.reasons))
