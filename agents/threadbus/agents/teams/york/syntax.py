"""The syntactic supervisor: checks a model by the rules of the notation. It asks no model."""

from __future__ import annotations

from threadbus.agents.agent import Agent
from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention
from threadbus.agents.teams.york.attempts import whole_text
from threadbus.agents.teams.york.emfatic import Checked, check
from threadbus.agents.teams.york.solution import MEDIA_TYPE
from threadbus.schemas import DataPart, Part, Skill, TextPart

agent = Agent(
    "syntax",
    display_name="Syntactic supervisor",
    description="Checks models in Emfatic: grammar, types, bounds, containment, opposite links.",
    skills=[
        Skill(
            id="check",
            name="Check Emfatic",
            description="Says every problem of a model with its line and column.",
            tags=("validation", "emfatic", "syntax"),
        )
    ],
    input_modes=("text/plain", MEDIA_TYPE),
    output_modes=("text/plain", "application/json"),
)


@agent.on_mention
async def supervise(mention: Mention) -> list[Part]:
    """Check one model."""
    files = await mention.files()
    content = files[0].content if files else (await whole_text(mention)).encode()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise GiveUpError(f"the model is not UTF-8: byte {error.start} cannot be read") from None
    # In a thread of its own: it takes a while, and this agent has other turns.
    checked: Checked = await mention.call(check, text)
    problems = [
        {
            "line": problem.place.line,
            "column": problem.place.column,
            "rule": problem.rule,
            "message": problem.message,
        }
        for problem in checked.problems
    ]
    said = "\n".join(str(problem) for problem in checked.problems) or "The model is well formed."
    return [TextPart(said), DataPart({"ok": checked.ok, "problems": problems})]
