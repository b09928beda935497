"""The planner: proposes a plan, gives the work out, and submits what the writer makes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.schemas import FilePart, PlanProposed, PlanStep, ReferencePart, Skill

PROMPT: Final = """\
You plan the work of a small team and see it through. Your colleagues:
- document reads documents and quotes what they say;
- coder computes with Python over data files;
- answer writes the final answer from what the others found.
First call propose_plan with one step for each piece of work. Then assign the steps; steps that do
not need each other go out together. Last, assign the writing of the answer to the answer agent,
with everything that was found. Your final message is that answer, unchanged.
"""

agent = Agent(
    "planner",
    display_name="Planner",
    description="Plans how a question about files is answered, and assigns the steps.",
    skills=[
        Skill(
            id="plan",
            name="Plan and assign",
            description="Breaks a question into steps for a reader, a coder and a writer.",
            tags=("planning", "coordination"),
            examples=("Does the report agree with the data?",),
        )
    ],
)


_LONGEST_WORK: Final = timedelta(minutes=30)
"""How long the planner waits for one piece of work."""
_REST: Final = timedelta(seconds=30)


class Step(msgspec.Struct):
    """One step of a plan."""

    title: str
    assignee: str


class Plan(msgspec.Struct):
    """What propose_plan takes."""

    steps: list[Step]
    reasons: list[str] = []


class Assignment(msgspec.Struct):
    """What assign takes."""

    agent: str
    task: str


def _tools(mention: Mention) -> dict[str, Tool]:
    async def propose_plan(plan: Plan) -> str:
        await mention.append(
            PlanProposed(
                steps=tuple(PlanStep(step.title, step.assignee) for step in plan.steps),
                reasons=tuple(plan.reasons),
            )
        )
        return "The plan is on record."

    async def assign(assignment: Assignment) -> str:
        await mention.progress(f"waiting for {assignment.agent}")
        result = await mention.assign(
            assignment.agent, assignment.task, timeout=_LONGEST_WORK - _REST
        )
        return result.text if result.ok else f"{assignment.agent} could not do it: {result.text}"

    return {
        "propose_plan": make_tool("propose_plan", "Record the plan.", Plan, propose_plan),
        "assign": make_tool(
            "assign",
            "Give a piece of work to a colleague and get its result.",
            Assignment,
            assign,
            timeout=_LONGEST_WORK,
        ),
    }


@agent.on_mention
async def plan(mention: Mention) -> str:
    """Answer the question of a super-task with the help of the team."""
    names = [part.name for part in mention.parts if isinstance(part, FilePart | ReferencePart)]
    question = f"{mention.text}\n\nFiles: {', '.join(names) or 'none'}"
    run = await mention.thinking.run(
        [ChatMessage.system(PROMPT), ChatMessage.user(question)],
        _tools(mention),
        max_rounds=12,
        concurrency=4,
    )
    return run.text
