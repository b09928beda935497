"""The York team: a model at once, refined by form and by meaning, or failed with what was wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.running_agents import find
from tests.support.york import (
    RIGHT,
    WRONG_FORM,
    WRONG_MEANING,
    Team,
    attempts,
    york_team,
)
from threadbus.agents import InvalidSettingError, Mention
from threadbus.agents.model import Tool, make_tool
from threadbus.agents.teams.york import collaboration, solution
from threadbus.agents.teams.york.attempts import MOST_ATTEMPTS, Attempt, model_text, prompt_for
from threadbus.agents.teams.york.collaboration import RECORD, VARIABLE, attempts_allowed
from threadbus.bus import TaskFailedError
from threadbus.schemas import (
    ArtifactAdded,
    AssignmentMade,
    CritiqueGiven,
    FilePart,
    InputRequested,
    TaskId,
    text_of,
)

REQUEST = "Animals with a name."


async def assigned(team: Team, task: TaskId) -> list[str]:
    """Return who was given work, in order."""
    data = [event.data for event in await team.log(task)]
    return [one.assignee for one in data if isinstance(one, AssignmentMade)]


async def prompts(team: Team, task: TaskId) -> list[str]:
    """Return what the solution was asked."""
    data = [event.data for event in await team.log(task)]
    return [
        text_of(one.parts)
        for one in data
        if isinstance(one, AssignmentMade) and one.assignee == "solution"
    ]


async def test_a_model_that_is_right_at_once_is_handed_over_in_three_forms() -> None:
    """One attempt, one check, one judgement; the files are in the answer and artifacts."""
    async with york_team(attempts(RIGHT)) as team:
        task = await team.ask(REQUEST)
        answer = await team.answer(task)
        who = await assigned(team, task)
        state = await team.user.tasks.state(task)

    assert who == ["solution", "syntax", "semantics"]
    assert "valid in form and meaning after attempt 1" in answer.text
    files = [part for part in answer.parts if isinstance(part, FilePart)]
    assert [file.name for file in files] == ["zoo.emf", "zoo.ecore", "zoo.mmd"]
    assert b'name="Animal"' in files[1].content
    names = [event.data.name for event in state.artifacts if isinstance(event.data, ArtifactAdded)]
    assert names == ["zoo.emf", "zoo.ecore", "zoo.mmd"]


async def test_what_is_wrong_in_form_refines_the_next_attempt() -> None:
    """The place and the words of the problem are in the prompt; meaning is not judged before."""
    async with york_team(attempts(WRONG_FORM, RIGHT)) as team:
        task = await team.ask(REQUEST)
        answer = await team.answer(task)
        who = await assigned(team, task)
        _, second = await prompts(team, task)

    assert who == ["solution", "syntax", "solution", "syntax", "semantics"]
    assert "line 1, column 34: there is no type 'Strin'; did you mean String?" in second
    assert WRONG_FORM in second
    assert REQUEST in second
    assert "attempt 1, syntax" in answer.text


async def test_what_is_wrong_in_meaning_refines_the_next_attempt() -> None:
    """The reasons of the judge are in the prompt, and its verdicts are on record."""
    async with york_team(attempts(WRONG_MEANING, RIGHT)) as team:
        task = await team.ask(REQUEST)
        await team.answer(task)
        _, second = await prompts(team, task)
        events = await team.log(task)

    critiques = [event.data for event in events if isinstance(event.data, CritiqueGiven)]
    assert [critique.verdict.value for critique in critiques] == ["uncertain", "accept"]
    assert {critique.of for critique in critiques} <= {event.id for event in events}
    assert "A name is a text." in second
    assert "It was wrong by its semantics" in second


async def test_a_failure_carries_the_feedback_of_every_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the last attempt the super-task fails; each attempt is told and kept whole."""
    monkeypatch.setenv(VARIABLE, "3")
    async with york_team(attempts(WRONG_FORM, WRONG_MEANING, WRONG_FORM)) as team:
        task = await team.ask(REQUEST)
        with pytest.raises(TaskFailedError) as failed:
            await team.answer(task)
        state = await team.user.tasks.state(task)

    said = str(failed.value)
    assert "no valid model after 3 attempts" in said
    assert "attempt 1, syntax: line 1, column 34: there is no type 'Strin'" in said
    assert "attempt 2, semantics: A name is a text." in said
    assert "attempt 3, syntax" in said
    (record,) = [event.data for event in state.artifacts if isinstance(event.data, ArtifactAdded)]
    assert record.name == RECORD
    assert isinstance(record.part, FilePart)
    kept = msgspec.json.decode(record.part.content, type=list[Attempt])
    assert [attempt.by for attempt in kept] == ["syntax", "semantics", "syntax"]
    assert kept[1].text == WRONG_MEANING


async def test_the_requester_is_asked_in_the_middle_and_later_attempts_know_the_answer() -> None:
    """The task waits for input; what was answered is told to the model of the next attempt."""
    asking = r"""
[[play]]
agent = "solution"
step = 1
when = '^Attempt 1\.'
[[play.call]]
tool = "ask_requester"
arguments = { question = "Do animals have an age?" }

[[play]]
agent = "solution"
after_tool = "ask_requester"
text = "package zoo; class Animal { attr Strin name; }"

[[play]]
agent = "solution"
when = 'The requester has answered:\n- Do animals have an age\? Yes, in years\.'
text = "package zoo; class Animal { attr String[1] name; attr int age; }"
"""
    async with york_team(asking + attempts(RIGHT)) as team:
        task = await team.ask(REQUEST)
        (request,) = await find(team.user, task, InputRequested)
        waiting = await team.user.tasks.state(task)
        await team.user.tasks.give_input(task, "Yes, in years.", request=request.id)
        answer = await team.answer(task)

    assert waiting.status.value == "input_required"
    assert request.sender == "solution"
    assert "attr int age" in answer.text


async def test_a_person_may_take_a_day_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody in the team gives up before the bound of the question, and it is kept."""
    waited: list[timedelta] = []
    for owner, name in ((Mention, "request_input"), (Mention, "assign")):
        real = getattr(owner, name)

        async def noted(
            *arguments: object, real: Callable[..., Awaitable[object]] = real, **options: object
        ) -> object:
            if "solution" in arguments or real.__name__ == "request_input":
                timeout = options["timeout"]
                assert isinstance(timeout, timedelta)
                waited.append(timeout)
            return await real(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)
    tools: list[Tool] = []

    def made(*arguments: Any, **options: Any) -> Tool:
        tools.append(make_tool(*arguments, **options))
        return tools[-1]

    monkeypatch.setattr(solution, "make_tool", made)
    asking = r"""
[[play]]
agent = "solution"
step = 1
[[play.call]]
tool = "ask_requester"
arguments = { question = "Do animals have an age?" }
"""
    async with york_team(asking + attempts(RIGHT)) as team:
        task = await team.ask(REQUEST)
        (request,) = await find(team.user, task, InputRequested)
        await team.user.tasks.give_input(task, "No.", request=request.id)
        await team.answer(task)

    (tool,) = [one for one in tools if one.spec.name == "ask_requester"]
    assert tool.timeout > timedelta(days=1)
    attempt, answer = waited
    assert timedelta(days=1) == answer < attempt <= solution.agent.limits.turn_timeout
    assert attempt * MOST_ATTEMPTS <= collaboration.agent.limits.turn_timeout


async def test_a_judge_that_says_nothing_has_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that forgets its tool lets no model through."""
    monkeypatch.setenv(VARIABLE, "1")
    silent = '[[play]]\nagent = "semantics"\ntext = "Looks fine to me."\n'
    async with york_team(silent + attempts(RIGHT)) as team:
        task = await team.ask(REQUEST)
        with pytest.raises(TaskFailedError, match="attempt 1, semantics: Looks fine to me"):
            await team.answer(task)


async def test_a_long_request_and_a_long_model_reach_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is too long for an event travels by the object store and is read from there."""
    monkeypatch.setenv(VARIABLE, "1")
    long = "package zoo;\n" + "\n".join(
        f"class Animal{number} {{ attr String[1] name_of_{number}; }}" for number in range(500)
    )
    async with york_team(attempts(long)) as team:
        task = await team.ask(f"{REQUEST}\n{'Many of them. ' * 6_000}")
        answer = await team.answer(task)
        (prompt,) = await prompts(team, task)
        said = text_of([await team.user.artifacts.load(part) for part in answer.parts])

    assert REQUEST not in prompt  # a reference to the store
    assert "500 classes" in said


@pytest.mark.parametrize("value", ["0", "21", "-1", "many", "1.5", "٣", "9" * 5000])
def test_a_count_of_attempts_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """The message has the variable, the value and the range."""
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(InvalidSettingError, match="a number from 1 to 20"):
        attempts_allowed()


def test_the_model_is_the_last_fenced_block() -> None:
    """Words around it are left away; without a fence all of it counts."""
    assert model_text("First:\n```\na\n```\nbetter:\n```emfatic\nb\n```\nDone.") == "b"
    assert model_text("  package p;  ") == "package p;"


def test_a_prompt_is_bounded() -> None:
    """A huge last attempt is cut, and it says so; of each earlier one a line is left."""
    last = Attempt(2, "x" * 500_000, "syntax", tuple(f"problem {n}" for n in range(900)))
    prompt = prompt_for("R", [Attempt(1, "y" * 500_000, "syntax", ("first",)), last])
    assert len(prompt) < 50_000
    assert "(cut: 500,000 characters)" in prompt
    assert "attempt 1, syntax: first" in prompt
