"""The analyst: has its assignment done by a team of its own, one level below."""

from __future__ import annotations

from threadbus.agents.agent import Agent
from threadbus.agents.conversing import Floor, open_team
from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention
from threadbus.agents.teaming import form_team
from threadbus.schemas import AssignmentMade, Skill

agent = Agent(
    "analyst",
    display_name="Analyst",
    description="Describes measurements by statistics: where they lie and how far apart.",
    skills=[
        Skill(
            id="describe",
            name="Describe measurements",
            description="Centre and spread of a list of numbers.",
            tags=("statistics", "measurements", "numbers"),
            examples=("Describe the measurements 3, 5 and 8",),
        )
    ],
)


@agent.on_mention
async def analyse(mention: Mention) -> None:
    """Form a nested team for an assignment; its conclusion is the result."""
    if isinstance(mention.event.data, AssignmentMade):
        jobs = await form_team(mention, mention.text, max_members=3)
        floor = await open_team(
            mention,
            "Centre and spread",
            [job.assignee for job in jobs],
            goal=mention.text,
            max_turns=8,
            max_members=4,
            assignment=mention.event.id,
        )
        await floor.assign(jobs, sync=True, reason="the description needs all of it")
        return
    floor = Floor(mention)
    outcomes = await floor.outcomes()
    if not outcomes:
        return
    found = [one.text for one in outcomes.values() if one is not None and one.ok]
    if not found:
        raise GiveUpError("neither centre nor spread could be computed")
    await floor.conclude("; ".join(found))
