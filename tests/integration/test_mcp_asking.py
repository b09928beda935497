"""MCP hosts ask agents of the bus through the gateway, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.subscriptions import ToolsListChanged

from tests.support.cli import echo, gated, living
from tests.support.mcp_hosts import ERAS, Era, Running, serving_gateway
from threadbus.agents import Agent, Mention
from threadbus.bus import Appended, TaskNotFoundError, Tasks, TaskState
from threadbus.schemas import FilePart, Part, TaskId, TextPart

both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
async def running(bus_url: str, tmp_path: Path) -> AsyncGenerator[Running]:
    """A gateway on the private server of the module."""
    async with serving_gateway(bus_url, tmp_path) as served:
        yield served


def names(era: str, *suffixes: str) -> list[str]:
    """Return agent names of a test's own."""
    return [f"{suffix}-{era}" for suffix in suffixes]


@both_eras
async def test_an_agent_is_asked_by_its_own_tool_and_tells_how_far_it_is(
    running: Running, era: Era
) -> None:
    """The tool of a living agent is announced; what it reports comes as progress."""
    (name,) = names(era, "gate")
    gate = asyncio.Event()
    told: list[str] = []

    async def on_progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")
        if "waiting at the gate" in told[-1]:
            gate.set()

    async with running.host(f"asker-{era}", era) as ada:
        async with living(running.bus_url, gated(name, gate)):
            listed = {tool.name for tool in (await ada.client.list_tools()).tools}
            assert f"ask_{name}" in listed
            result = await ada.result(
                f"ask_{name}", {"question": "open"}, progress_callback=on_progress
            )
        assert result.structured_content is not None
        assert result.structured_content["text"] == "after the gate: open"
        assert result.structured_content["by"] == name


async def test_a_question_that_is_slow_to_open_is_waited_for(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway looks for what the super-task wants to know before the server has stored it."""
    looked = asyncio.Event()
    opens, states = Tasks.open, Tasks.state

    async def slow(self: Tasks, *args: Any, **more: Any) -> Appended:
        async with asyncio.timeout(30):
            await looked.wait()
        return await opens(self, *args, **more)

    async def looking(self: Tasks, task: TaskId) -> TaskState:
        try:
            return await states(self, task)
        except TaskNotFoundError:
            looked.set()
            raise

    async with running.host("slow-asker") as ada, living(running.bus_url, echo("slow-parrot")):
        monkeypatch.setattr(Tasks, "open", slow)
        monkeypatch.setattr(Tasks, "state", looking)
        answered = await ada.call("ask", agent="slow-parrot", question="hi", timeout_s=20)

    assert looked.is_set()
    assert answered["text"] == "echo: hi"


@both_eras
async def test_a_change_of_the_tools_is_announced(running: Running, era: Era) -> None:
    """A host hears that an agent has come, and looks again."""
    (name,) = names(era, "late")
    async with running.host(f"lister-{era}", era) as ada:
        await ada.client.list_tools()
        if era == "legacy":
            async with living(running.bus_url, echo(name)):
                while True:
                    await ada.change(types.ToolListChangedNotification)
                    tools = (await ada.client.list_tools()).tools
                    if f"ask_{name}" in {tool.name for tool in tools}:
                        break
            return
        async with (
            asyncio.timeout(30),
            ada.client.listen(tools_list_changed=True) as events,
            living(running.bus_url, echo(name)),
        ):
            async for event in events:
                assert isinstance(event, ToolsListChanged)
                tools = (await ada.client.list_tools()).tools
                if f"ask_{name}" in {tool.name for tool in tools}:
                    break


def asking(name: str) -> Agent:
    """Make an agent that needs to know a colour."""
    agent = Agent(name, description="Paints.")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return f"painted {await mention.request_input('Which colour?')}"

    return agent


@both_eras
async def test_the_person_behind_a_host_is_asked_where_that_is_possible(
    running: Running, era: Era
) -> None:
    """The question of the agent becomes a form; its answer reaches the agent in the same call."""
    (name,) = names(era, "painter")
    questions: list[str] = []

    async def answers(question: str) -> str:
        questions.append(question)
        return "blue"

    async with (
        living(running.bus_url, asking(name)),
        running.host(f"elicits-{era}", era, answers=answers) as ada,
    ):
        answered = await ada.call("ask", agent=name, question="paint")

        assert (answered["status"], answered["text"]) == ("answered", "painted blue")
        assert questions == ["Which colour?"]


@both_eras
async def test_a_host_that_cannot_ask_its_person_answers_by_itself(
    running: Running, era: Era
) -> None:
    """The result says what is asked, and how to answer and wait on."""
    (name,) = names(era, "painter-two")
    async with (
        living(running.bus_url, asking(name)),
        running.host(f"silent-{era}", era) as ada,
    ):
        asked = await ada.call("ask", agent=name, question="paint")
        assert (asked["status"], asked["text"]) == ("input_required", "Which colour?")
        await ada.call(
            "reply", thread_id=asked["thread_id"], message_id=asked["message_id"], content="red"
        )
        answered = await ada.call("ask", task_id=asked["task_id"])

        assert answered["text"] == "painted red"


@both_eras
async def test_a_person_who_will_not_answer_ends_the_call_and_not_the_work(
    running: Running, era: Era
) -> None:
    """The model hears of it and may answer in place of its person."""
    (name,) = names(era, "painter-three")

    async def refuses(_: str) -> None:
        return None

    async with (
        living(running.bus_url, asking(name)),
        running.host(f"refuses-{era}", era, answers=refuses) as ada,
    ):
        asked = await ada.call("ask", agent=name, question="paint")

        assert asked["status"] == "input_required"
        assert "would not answer" in asked["note"]
        await ada.call(
            "close_thread", thread_id=asked["thread_id"], summary="no", outcome="cancelled"
        )


async def test_a_slow_answer_is_waited_for_in_several_calls(running: Running) -> None:
    """The first call ends with a task id in time, a later one brings the answer."""
    gate = asyncio.Event()
    async with (
        living(running.bus_url, gated("slow", gate)),
        running.host("patient") as ada,
    ):
        begun = await ada.call("ask", agent="slow", question="go", timeout_s=0.2)
        assert begun["status"] == "working"
        assert begun["task_id"] in begun["note"]
        gate.set()
        answered = await ada.call("ask", task_id=begun["task_id"])
        assert answered["text"] == "after the gate: go"


async def test_files_of_an_answer_are_handed_over(running: Running) -> None:
    """A small image comes as an image, and large text is read from the object store."""
    agent = Agent("artist", description="Draws.")
    long = "ä" * 60_000

    @agent.on_mention
    async def handle(mention: Mention) -> list[Part]:
        return [TextPart(long), FilePart(b"\x89PNG", "a.png", "image/png")]

    async with living(running.bus_url, agent), running.host("viewer") as ada:
        result = await ada.result("ask", {"agent": "artist", "question": "draw"})

        assert result.structured_content is not None
        assert result.structured_content["text"] == long
        assert [block.type for block in result.content] == ["text", "image"]
