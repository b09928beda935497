"""How the planner's model makes and revises plans: tools whose arguments code checks."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.anemoi.board import Work
from threadbus.agents.teams.anemoi.names import WORKERS
from threadbus.agents.teams.deciding import decide
from threadbus.agents.tools import ToolError
from threadbus.schemas import PlanStep, clean_text

MAX_STEPS: Final = 12
_MAX_DETAIL_CHARS: Final = 2_000
_MAX_TITLE_CHARS: Final = 300
_MAX_REASONS: Final = 12
_MAX_REASON_CHARS: Final = 1_000


class BadPlanError(ToolError, ValueError):
    """A plan cannot be carried out as it stands."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the plan is not taken: {self.reason}"


class Step(msgspec.Struct):
    """One step of a plan as a model writes it."""

    title: str
    assignee: str
    detail: str = ""
    after: list[int] = []


class Plan(msgspec.Struct):
    """What propose_plan and revise_plan take."""

    steps: list[Step]
    reasons: list[str] = []


class Planned(msgspec.Struct, frozen=True):
    """A plan that can be carried out."""

    steps: tuple[PlanStep, ...]
    reasons: tuple[str, ...]


def checked(plan: Plan) -> Planned:
    """Check a plan that a model wrote.

    Raises:
        BadPlanError: it cannot be carried out; says why and what would do.
    """
    if not 1 <= len(plan.steps) <= MAX_STEPS:
        raise BadPlanError(f"it has {len(plan.steps)} steps; make it 1 to {MAX_STEPS}")
    steps: list[PlanStep] = []
    for number, step in enumerate(plan.steps, 1):
        if step.assignee not in WORKERS:
            raise BadPlanError(
                f"step {number} is for {step.assignee!r}; there are {', '.join(WORKERS)}"
            )
        if not step.title.strip():
            raise BadPlanError(f"step {number} has no title")
        late = [one for one in step.after if not 1 <= one < number]
        if late:
            raise BadPlanError(f"step {number} comes after step {late[0]}; name earlier steps only")
        made = PlanStep(
            clean_text(step.title.strip(), _MAX_TITLE_CHARS),
            step.assignee,
            clean_text(step.detail, _MAX_DETAIL_CHARS),
            tuple(dict.fromkeys(step.after)),
        )
        if made in steps:
            raise BadPlanError(f"step {number} is there twice")
        steps.append(made)
    return Planned(tuple(steps), reasons_of(plan.reasons))


def reasons_of(said: list[str]) -> tuple[str, ...]:
    """Return reasons that a model gave, as an event can carry them."""
    kept = [clean_text(one.strip(), _MAX_REASON_CHARS) for one in said if one.strip()]
    return tuple(kept[:_MAX_REASONS])


async def think_plan(
    mention: Mention, tool: str, prompt: str, asked: str
) -> tuple[Planned | None, str]:
    """Have the model call *tool* with a plan, None where it does not; and what it says last.

    Cancellation: ends the model call.
    """
    made: list[Planned] = []

    async def take(plan: Plan) -> str:
        made.append(checked(plan))
        return "The plan is on record."

    tools: dict[str, Tool] = {tool: make_tool(tool, "Say the whole plan.", Plan, take)}
    text = await decide(
        mention, [ChatMessage.system(prompt), ChatMessage.user(asked)], tools, max_rounds=4
    )
    return (made[-1] if made else None), text


def first_plan(planned: Planned | None) -> Planned:
    """Return the first plan, without which nothing can begin.

    Raises:
        GiveUpError: the model made none.
    """
    if planned is None:
        raise GiveUpError("the model made no plan: it did not call propose_plan")
    return planned


def reworked(steps: tuple[PlanStep, ...], works: tuple[Work, ...]) -> Planned:
    """Return the same plan with what was wrong added to the steps; where a model makes no other."""
    wrong = {
        work.step: clean_text(work.failure or "; ".join(work.reasons), 600)
        for work in works
        if work.step is not None
    }
    kept = tuple(
        msgspec.structs.replace(
            step, detail=clean_text(f"{step.detail}\nMind: {wrong[step]}".strip(), 2_000)
        )
        if step in wrong
        else step
        for step in steps
    )
    return Planned(kept, tuple(wrong.values()))
