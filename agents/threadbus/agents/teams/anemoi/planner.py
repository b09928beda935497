"""The planner: opens the thread, puts the plan into it and sees it through to the vote."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.agent import Agent, AgentLimits
from threadbus.agents.errors import GiveUpError, InvalidSettingError
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.teams.anemoi.acting import Acting
from threadbus.agents.teams.anemoi.members import talk
from threadbus.agents.teams.anemoi.moves import Finished, Wait, next_moves
from threadbus.agents.teams.anemoi.names import PLANNER, RULES, VOTERS
from threadbus.agents.teams.anemoi.news import News
from threadbus.agents.teams.anemoi.prompts import PLANNER_PROMPT
from threadbus.agents.teams.anemoi.quick import at_work, how_far
from threadbus.agents.teams.anemoi.rules import rules_for
from threadbus.schemas import (
    AssignmentFailed,
    DataPart,
    FilePart,
    MentionDeadLettered,
    ReferencePart,
    Skill,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadId,
    clean_text,
    derive_event_id,
)

agent: Final = Agent(
    PLANNER,
    display_name="Planner",
    description="Plans how a team answers a question, gives out the work and holds the vote.",
    skills=[
        Skill(
            id="plan",
            name="Plan and coordinate",
            description="Makes a plan with a team, has results judged, holds the vote.",
            tags=("planning", "coordination"),
        )
    ],
    limits=AgentLimits(turn_timeout=timedelta(hours=24)),
)
agent.on_quick(how_far)


@agent.on_mention
async def plan(mention: Mention) -> Reply:
    """See one super-task through, or answer somebody in its thread."""
    match mention.event.data:
        case TaskOpened() as data:
            with at_work(mention, "coordinating the team"):
                await _coordinate(mention, data)
            return None
        case AssignmentFailed() | MentionDeadLettered():
            # The submission failed after the planner had handed it over.
            await _end_failed(mention)
            return None
        case _:
            return await talk(mention, PLANNER_PROMPT)


async def _coordinate(mention: Mention, data: TaskOpened) -> None:
    try:
        rules = rules_for(data.labels)
    except InvalidSettingError as error:
        raise GiveUpError(str(error)) from error
    state = await mention.participants()
    missing = [name for name in VOTERS if name not in state.participants]
    if missing:
        raise GiveUpError(
            f"the team is not whole: {', '.join(missing)} do not take part; "
            f"open the super-task with participants {', '.join(VOTERS)}"
        )
    thread = await mention.open_thread(
        "Team", participants=VOTERS, goal=clean_text(data.title, 400)
    )
    files = [part.name for part in mention.parts if isinstance(part, FilePart | ReferencePart)]
    text = "\n".join(part.text for part in mention.parts if isinstance(part, TextPart))
    question = f"{text}\n\nFiles: {', '.join(files) or 'none'}"
    await mention.say(
        [TextPart(question), DataPart(msgspec.to_builtins(rules), RULES)], thread=thread
    )
    await _see_through(mention, thread)


async def _see_through(mention: Mention, thread: ThreadId) -> None:
    """Make one move after the other, until the answer is with the agent that submits it."""
    news = News(mention, thread)
    await news.read()
    acting = Acting(mention, thread, news)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(news.follow(), name="threadbus.anemoi.follow")
            await _play(acting, news)
            following.cancel()
    except BaseExceptionGroup as failed:
        # One of the two ended the other: its own error is what the asker is told.
        raise failed.exceptions[0] from failed


async def _play(acting: Acting, news: News) -> None:
    while True:
        news.take()
        moves = next_moves(news.board, time.time_ns())
        if isinstance(moves, Finished):
            return
        if isinstance(moves, Wait):
            await news.wait(moves.until)
            continue
        for move in moves:
            await acting.make(move)


async def _end_failed(mention: Mention) -> None:
    data = mention.event.data
    error = data.error if isinstance(data, AssignmentFailed | MentionDeadLettered) else None
    reason = "" if error is None else f"{error.kind}: {error.message}"
    await mention.bus.tasks.close(
        mention.task,
        TaskStatus.FAILED,
        summary=clean_text(f"the answer was not submitted: {reason}", 1_000),
        cause=mention.event.id,
        event_id=derive_event_id(mention.event.id, mention.agent, "not-submitted"),
    )
