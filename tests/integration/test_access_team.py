"""A whole team under the permissions of its roles: everything that agents do still works."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.access import secured
from tests.support.bus_env import soon, take
from tests.support.cli import environment, line_with, process
from tests.support.running_agents import running
from tests.support.tree import ROOT
from threadbus.agents import Agent, AgentLimits, Mention
from threadbus.agents.model import PLAYBOOK
from threadbus.agents.model.playbook import PlaybookServer
from threadbus.agents.teams.script import load_team
from threadbus.bus import MentionFailedError, PermissionDeniedError, access
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    HandlingFailed,
    InputRequested,
    MentionDeadLettered,
    Recorded,
    TextPart,
    text_of,
)


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_the_demo_team_answers_with_a_key_each(tmp_path: Path, apart: bool) -> None:
    """Four agents as processes and whoever asks: none of them may more than its role."""
    script = load_team("report")
    async with (
        secured(tmp_path, "user", *script.agents, apart=apart) as made,
        PlaybookServer(script.playbook) as playbook,
        AsyncExitStack() as stack,
    ):
        for name, target in script.agents.items():
            env = environment(
                tmp_path / "home",
                {
                    "BUS_URL": made.server.url,
                    "BUS_NKEY": str(made.folder.key_path(name)),
                    "BUS_MODEL": PLAYBOOK,
                    "BUS_DRAIN_TIMEOUT": "2",
                    "OPENAI_BASE_URL": playbook.base_url,
                    "OPENAI_API_KEY": "none",
                    **(script.environ or {}),
                },
            )
            agent = await stack.enter_async_context(
                process("run", "--json", target, env=env, cwd=ROOT)
            )
            await line_with(agent, name)
        async with made.bus("user") as user:
            answer = await soon(
                user.ask(script.question(), to=script.to, participants=script.participants)
            )
            print(answer.text, file=sys.stderr)

    assert answer.text


def make_helper() -> Agent:
    """An agent that does, fails, and answers quick questions."""
    helper = Agent("helper", limits=AgentLimits(max_attempts=1))

    @helper.on_mention
    async def handle(mention: Mention) -> str:
        if "fail" in mention.text:
            raise ValueError("as asked")
        await mention.progress("half", 0.5)
        await mention.save("notes", TextPart("n" * 200_000))
        return f"done: {mention.text}"

    @helper.on_quick
    async def quick(mention: Mention) -> str:
        return "half way"

    return helper


def make_lead() -> Agent:
    """An agent that uses all that a mention offers."""
    lead = Agent("lead")

    @lead.on_mention
    async def handle(mention: Mention) -> str | None:
        done = await mention.assign("helper", "count")
        thread = await mention.open_thread("Side", participants=["helper"])
        said = await mention.ask("helper", "look", thread=thread)
        quick = await mention.ask("helper", "how far?", quick=True)
        failed = ""
        try:
            await mention.ask("helper", "fail")
        except MentionFailedError as error:
            failed = type(error).__name__
        await mention.bus.publish_live(mention.task, MAIN_THREAD, {"delta": "x"})
        wanted = await mention.request_input("Which?")
        return " | ".join((text_of(done.parts), said, quick, failed, wanted))

    return lead


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_an_agent_may_do_all_that_agents_do(tmp_path: Path, apart: bool) -> None:
    """Assign, ask, threads, artifacts, quick questions, dead letters, input, live, follow, wait."""
    async with (
        secured(tmp_path, "lead", "helper", "user", apart=apart) as made,
        made.bus("lead") as lead,
        made.bus("helper") as helper,
        made.bus("user") as user,
        running(make_lead(), lead),
        running(make_helper(), helper),
    ):
        await user.registry.register(AgentCard(name="user"), holder="test")
        opened = await user.tasks.open("Do it.", to=["lead"], participants=["helper"])
        task = opened.event.task
        async for entry in user.follow(task):
            if isinstance(entry, Recorded) and isinstance(entry.event.data, InputRequested):
                await user.tasks.give_input(task, "This one.", request=entry.event.id)
                break
        answer = await soon(user.waits.for_answer(task))
        events = [entry.event async for entry in user.read(task) if isinstance(entry, Recorded)]

    assert answer.text == "done: count | done: look | half way | MentionFailedError | This one."
    kinds = {type(event.data) for event in events}
    assert {HandlingFailed, MentionDeadLettered} & kinds


async def test_a_gateway_acts_for_those_it_is_for(tmp_path: Path) -> None:
    """It speaks, is woken and registers as them, and as nobody else."""
    async with secured(tmp_path, "web") as made:
        await made.add("desk", role=access.Role.GATEWAY, acts_for=("ann", "bob"))
        task = await made.task("ann", "web")
        async with made.bus("desk") as desk:
            ann = desk.acting_as("ann")
            await ann.registry.register(AgentCard(name="ann"), holder="desk", takeover=True)
            async with ann.inbox() as inbox:
                delivery = await soon(inbox.next())
                await ann.send(task, MAIN_THREAD, "As Ann.", cause=delivery.event.id)
                await delivery.ack()
            web = desk.acting_as("web")
            with pytest.raises(PermissionDeniedError, match="only web, or a gateway"):
                await soon(web.send(task, MAIN_THREAD, "As web."))


async def test_an_observer_reads_and_writes_nothing(tmp_path: Path) -> None:
    """It follows super-tasks and the registry; what it says is refused, and who may say it told."""
    async with secured(tmp_path, "web") as made:
        await made.add("eye", role=access.Role.OBSERVER)
        await made.add("exporter", role=access.Role.OBSERVER, can=(access.Extra.POSITIONS,))
        task = await made.task("web")
        async with made.bus("eye") as eye:
            assert await take(eye.follow(task), 1)
            assert len(await eye.registry.agents()) == 2
            with pytest.raises(PermissionDeniedError, match="add-agent eye"):
                await soon(eye.tasks.open("Mine.", to=["web"]))
        async with made.bus("operator") as operator, operator.consuming("made-once"):
            pass
        async with made.bus("exporter") as exporter:
            async with exporter.consuming("exporter") as consumer:
                entry = await soon(consumer.__anext__())
                await consumer.commit(entry.seq)
            async with exporter.consuming("other") as consumer:
                with pytest.raises(PermissionDeniedError, match="--can positions"):
                    await soon(consumer.commit(1))
