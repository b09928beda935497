"""Two releases at once: replicas are replaced one by one while questions are asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from nats.aio.client import Client

from tests.support.agent_process import AgentProcess, agent_process
from tests.support.bus_env import events_of
from tests.support.busreplay import busreplay
from tests.support.running_agents import running as running_agent
from threadbus.agents import Agent, Mention
from threadbus.bus import Bus, connect
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AnswerSubmitted,
    MentionDeadLettered,
    OpaqueData,
    TaskId,
    new_event_id,
    new_task_id,
    text_of,
)

_SUPPORT = Path(__file__).parent.parent / "support"
_OLD = f"{_SUPPORT / 'replica_agent.py'}:agent"
_NEW = f"{_SUPPORT / 'newer_agent.py'}:agent"
_LATER_TYPE = "estimate.given"
"""Of tests/support/newer_agent.py, which is not imported: this process is the old release."""
_TASKS = 100
_REPLICAS = 3
_DEADLINE_S = 100.0


async def _open_as_a_later_release(client: Client, question: str) -> TaskId:
    """Open a super-task as a later release would: with fields that this one does not know."""
    task, key = new_task_id(), new_event_id()
    said = {
        "v": 1,
        "id": key,
        "type": "task.opened",
        "task": task,
        "thread": MAIN_THREAD,
        "sender": "user",
        "at": time.time_ns(),
        "mentions": ["many"],
        "urgency": {"level": 3},
        "data": {
            "title": question,
            "parts": [{"kind": "text", "text": question}],
            "participants": ["user", "many", "checker"],
            "tone": "friendly",
        },
    }
    last = "Nats-Expected-Last-Subject-Sequence"
    subject = f"bus.{task}.{MAIN_THREAD}.ctl"
    headers = {"Nats-Msg-Id": key, last: "0", f"{last}-Subject": f"{subject}.>"}
    answer = await client.request(
        f"{subject}.user.many", json.dumps(said).encode(), timeout=30, headers=headers
    )
    assert "error" not in json.loads(answer.data), answer.data
    return task


async def test_every_task_is_answered_once_while_replicas_are_replaced(
    bus_url: str, tmp_path: Path
) -> None:
    """Old and later replicas share the work; an agent of the old release reads what both say."""
    environ = {
        "BUS_URL": bus_url,
        "REPLICA_FOLDER": str(tmp_path),
        "BUS_ACK_WAIT": "5",
        "THREADBUS_HOLDER": "upgrade",
        "THREADBUS_REPLICAS": str(_REPLICAS),
    }
    checker = Agent("checker")

    @checker.on_mention
    async def check(mention: Mention) -> str:
        return "checked"

    async with (
        asyncio.timeout(_DEADLINE_S),
        connect(bus_url, name="user") as user,
        AsyncExitStack() as stack,
    ):
        await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
        await stack.enter_async_context(running_agent(checker, user))
        client = Client()
        await client.connect(bus_url)
        stack.push_async_callback(client.close)

        async def replica(target: str) -> AgentProcess:
            return await stack.enter_async_context(agent_process(target, environ))

        replicas = [await replica(_OLD) for _ in range(_REPLICAS)]
        answers: dict[TaskId, str] = {}

        async def ask(number: int) -> None:
            question = f"Question {number}"
            if number % 2:
                opened = await user.tasks.open(question, to=["many"], participants=["checker"])
                task = opened.event.task
            else:
                task = await _open_as_a_later_release(client, question)
            answers[task] = (await user.waits.for_answer(task)).text

        due = asyncio.Semaphore(25)

        async def ask_when_due(number: int) -> None:
            async with asyncio.timeout(_DEADLINE_S):
                await due.acquire()
            await ask(number)

        def let_ask(count: int) -> None:
            for _ in range(count):
                due.release()

        async with asyncio.TaskGroup() as group:
            for number in range(_TASKS):
                group.create_task(ask_when_due(number))
            for old in replicas:
                # Some while the later replica starts, some while the old one stops.
                let_ask(10)
                await replica(_NEW)
                let_ask(15)
                assert await old.terminate() == 0
        await _check(user, answers)
        (last,) = list(answers)[-1:]
        verified = await asyncio.to_thread(busreplay, "verify", last, "--url", bus_url)
    assert verified.returncode == 0, verified.stdout + verified.stderr


async def _check(user: Bus, answers: dict[TaskId, str]) -> None:
    counts: Counter[str] = Counter()
    for task, answer in answers.items():
        events = await events_of(user, task)
        said = [text_of(e.data.parts) for e in events if isinstance(e.data, AnswerSubmitted)]
        assert said == [answer]
        assert not [event for event in events if isinstance(event.data, MentionDeadLettered)]
        opaque = [event for event in events if isinstance(event.data, OpaqueData)]
        is_new = answer.endswith("checked, by a later release")
        assert {event.type for event in opaque} == ({_LATER_TYPE} if is_new else set())
        counts["later" if is_new else "old"] += 1
    print(dict(counts))
    assert counts.total() == _TASKS
    assert min(counts["later"], counts["old"]) >= 10
