"""What every member of the team does beside its own work: look at plans, vote, and talk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.anemoi.context import turn_context
from threadbus.agents.teams.anemoi.plans import Plan, Planned, checked, reasons_of
from threadbus.agents.teams.anemoi.prompts import REVIEW_PROMPT, VOTE_PROMPT
from threadbus.agents.teams.anemoi.quick import at_work, how_far
from threadbus.agents.teams.deciding import decide
from threadbus.schemas import (
    AssignmentCancelled,
    AssignmentMade,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    VoteCast,
    VoteVerdict,
    clean_text,
    text_of,
)

Work: TypeAlias = Callable[[Mention], Awaitable[Reply]]
"""Does one assignment and returns its result; :func:`asked_in` is what the model is shown."""


class Vote(msgspec.Struct):
    """What vote takes."""

    verdict: VoteVerdict
    reasons: list[str] = []


class Contribution(msgspec.Struct):
    """What contribute takes."""

    text: str


def member(agent: Agent, prompt: str, work: Work) -> None:
    """Let *agent* take part in a team: it works, looks at plans, votes, and says how far it is."""
    agent.on_quick(how_far)

    @agent.on_mention
    async def handle(mention: Mention) -> Reply:
        match mention.event.data:
            case AssignmentMade() as data:
                with at_work(mention, data.title or "an assignment"):
                    return await work(mention)
            case PlanProposed() | PlanRevised():
                return await review(mention, prompt)
            case ProposalMade():
                return await vote(mention, prompt)
            case AssignmentCancelled():
                # The work goes on until its turn ends, and counts no more: nothing to say.
                return None
            case _:
                return await talk(mention, prompt)


async def asked_in(mention: Mention) -> str:
    """Return what is asked, after what is new in the thread; that it was shown is on record.

    Cancellation: safe.
    """
    context = await turn_context(mention)
    return f"{context.text}\n\nYou are asked:\n{mention.text}"


async def talk(mention: Mention, prompt: str) -> str:
    """Answer what somebody says in the thread."""
    context = await turn_context(mention)
    asked = f"{context.text}\n\n{mention.sender} says to you:\n{mention.text}"
    completion = await mention.thinking.complete(
        [ChatMessage.system(prompt), ChatMessage.user(asked)]
    )
    return completion.text


async def vote(mention: Mention, prompt: str) -> Reply:
    """Vote on a proposal; who says nothing rejects, because silence must not pass an answer."""
    data = mention.event.data
    parts = data.parts if isinstance(data, ProposalMade) else ()
    cast: list[Vote] = []

    async def take(said: Vote) -> str:
        cast.append(said)
        return "The vote is on record."

    context = await turn_context(mention)
    asked = f"{context.text}\n\nThe candidate answer:\n{text_of(parts)}"
    said = await decide(
        mention,
        [ChatMessage.system(f"{prompt}\n{VOTE_PROMPT}"), ChatMessage.user(asked)],
        {"vote": make_tool("vote", "Vote on the candidate answer.", Vote, take)},
    )
    last = cast[-1] if cast else Vote(VoteVerdict.REJECT, [f"gave no verdict: {said}"])
    return VoteCast(
        proposal=mention.event.id, verdict=last.verdict, reasons=reasons_of(last.reasons)
    )


async def review(mention: Mention, prompt: str) -> Reply:
    """Look at a plan; say what is wrong with it, propose another, or nothing."""
    said: list[str] = []
    plans: list[Planned] = []

    async def contribute(one: Contribution) -> str:
        said.append(clean_text(one.text, 4_000))
        return "It is on record."

    async def propose(plan: Plan) -> str:
        plans.append(checked(plan))
        return "The plan is put to the planner."

    tools: dict[str, Tool] = {
        "contribute": make_tool(
            "contribute", "Say what the team should know.", Contribution, contribute
        ),
        "propose_plan": make_tool("propose_plan", "Propose a whole other plan.", Plan, propose),
    }
    context = await turn_context(mention)
    data = mention.event.data
    steps = data.steps if isinstance(data, PlanProposed | PlanRevised) else ()
    listed = "\n".join(f"{n}. {step.title} ({step.assignee})" for n, step in enumerate(steps, 1))
    asked = f"{context.text}\n\nThe plan:\n{listed}"
    await decide(
        mention,
        [ChatMessage.system(f"{prompt}\n{REVIEW_PROMPT}"), ChatMessage.user(asked)],
        tools,
    )
    if plans:
        return PlanRevised(
            replaces=mention.event.id,
            steps=plans[-1].steps,
            reasons=(*plans[-1].reasons, *said)[:12],
        )
    if said:
        # To nobody in particular: the planner reads the thread when it makes its next plan.
        await mention.say("\n".join(said))
    return None
