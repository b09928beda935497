"""The York team inside a test: its four agents on a bus in memory, with a playbook of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from tests.support.model_servers import playing, settings_for
from tests.support.running_agents import log_of, ready, user_in_memory
from threadbus.agents import AgentRunner
from threadbus.agents.model import Model
from threadbus.agents.teams.york import collaboration, semantic, solution, syntax
from threadbus.bus import Answer, Bus
from threadbus.schemas import Event, TaskId

AGENTS = (collaboration.agent, solution.agent, syntax.agent, semantic.agent)
NAMES = tuple(agent.name for agent in AGENTS)
WAIT = timedelta(seconds=30)

RIGHT = "package zoo; class Animal { attr String[1] name; }"
WRONG_FORM = "package zoo; class Animal { attr Strin[1] name; }"
WRONG_MEANING = "package zoo; class Animal { attr int name; }"

JUDGE = """
[[play]]
agent = "semantics"
step = 1
when = 'attr int name'
[[play.call]]
tool = "judge"
arguments = { verdict = "uncertain", reasons = ["A name is a text."] }

[[play]]
agent = "semantics"
step = 1
[[play.call]]
tool = "judge"
arguments = { verdict = "accept", reasons = ["All is there."] }

[[play]]
agent = "semantics"
text = "Judged."
"""


def attempts(*texts: str) -> str:
    """Return a playbook in which the solution writes these texts; the last one from then on."""
    plays = [
        f"[[play]]\nagent = \"solution\"\nwhen = '^Attempt {number}\\.'\n"
        f"text = '''\n```emfatic\n{text}\n```\n'''\n"
        for number, text in enumerate(texts, 1)
    ]
    last = f"[[play]]\nagent = \"solution\"\ntext = '''{texts[-1]}'''\n"
    return "\n".join([*plays, last, JUDGE])


@dataclass
class Team:
    """The team at work."""

    user: Bus

    async def ask(self, request: str) -> TaskId:
        """Put a request to the collaboration."""
        opened = await self.user.tasks.open(request, to=["collaboration"], participants=NAMES[1:])
        return opened.event.task

    async def answer(self, task: TaskId) -> Answer:
        """Wait for the answer."""
        return await self.user.waits.for_answer(task, timeout=WAIT)

    async def log(self, task: TaskId) -> list[Event]:
        """Return what was said."""
        return await log_of(self.user, task)


@asynccontextmanager
async def york_team(playbook: str) -> AsyncGenerator[Team]:
    """Run the team until the end of the context."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(playing(playbook))
        user = await stack.enter_async_context(user_in_memory())
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for agent in AGENTS:
            settings = settings_for(server.base_url)
            model = await stack.enter_async_context(Model(settings, agent=agent.name))
            runner = AgentRunner(agent, user.acting_as(agent.name), model=model)
            work = tasks.create_task(runner.run(), name=f"test.{agent.name}")
            stack.callback(runner.stop)
            await ready(runner, work)
        yield Team(user)
