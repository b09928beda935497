"""The host: finds a team, gives out work, has the result put into words, and answers."""

from __future__ import annotations

from typing import Final

from threadbus.agents.agent import Agent
from threadbus.agents.conversing import Floor, open_team
from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage
from threadbus.agents.teaming import form_team
from threadbus.bus import AssignmentResult
from threadbus.schemas import Skill, TaskOpened

_PROMPT: Final = (
    "You close a discussion. Say in two sentences what the team found, numbers included."
)
_TURNS: Final = 20
_MEMBERS: Final = 6
_DEPTH: Final = 1

agent = Agent(
    "host",
    display_name="Host",
    description="Takes a question, finds the agents that can answer it, and leads them.",
    skills=[Skill(id="lead", name="Lead a team", tags=("coordination",))],
)


@agent.on_mention
async def lead(mention: Mention) -> None:
    """Begin with a team, or go on where a pause has ended."""
    if isinstance(mention.event.data, TaskOpened):
        jobs = await form_team(mention, mention.text, max_members=_MEMBERS - 1)
        floor = await open_team(
            mention,
            "Numbers for everybody",
            [job.assignee for job in jobs],
            goal=mention.text,
            max_turns=_TURNS,
            max_members=_MEMBERS,
            max_depth=_DEPTH,
        )
        await floor.assign(jobs, reason="they do not need one another")
        return
    floor = Floor(mention)
    outcomes = await floor.outcomes()
    if not outcomes and not floor.is_concluding:
        return
    said = "\n".join(map(_line, outcomes.values())) or "the turns were used up"
    answer = await mention.thinking.complete(
        [ChatMessage.system(_PROMPT), ChatMessage.user(f"The results:\n{said}")]
    )
    if not any(one is not None and one.ok for one in outcomes.values()):
        raise GiveUpError(f"nobody in the team had a result\n{said}")
    await floor.conclude(answer.text)
    await mention.submit(answer.text)


def _line(outcome: AssignmentResult | None) -> str:
    if outcome is None:
        return "- one did not end in time"
    return f"- {outcome.text}" if outcome.ok else f"- one failed: {outcome.text}"
