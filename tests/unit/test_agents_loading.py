"""Finding an agent by its name, and refusing what is none with a reason."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_agents import running, user_in_memory
from threadbus.agents import (
    Agent,
    AgentLimits,
    AgentLoadError,
    InvalidSettingError,
    Mention,
    NotAHandlerError,
    from_callable,
    load_agent,
)
from threadbus.schemas import InvalidNameError

GOOD = """
from threadbus.agents import Agent
from neighbour import REPLY

agent = Agent("filed", description="in a file")
other = Agent("other")

@agent.on_mention
async def handle(mention):
    return REPLY

def run(task):
    \"\"\"Answer in capitals.\"\"\"
    return task.upper()

def pair(a, b):
    return a + b

class Team:
    lead = agent

NUMBER = 42
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of agents, named like a module of the standard library, with a neighbour."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour.py").write_text("REPLY = 'hello'\n")
    path = tmp_path / "json.py"
    path.write_text(GOOD)
    return path


def test_an_agent_is_found_in_a_file(file: Path) -> None:
    """By its name, by the usual name when none is given, and inside another object."""
    for target in (f"{file}:agent", f"{file}", f"{file}:Team.lead"):
        assert load_agent(target).card.description == "in a file"
    assert load_agent(f"{file}:other").name == "other"


def test_a_file_imports_from_the_working_folder(
    file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package beside which the command is run is found, after the file's own neighbours."""
    project = tmp_path_factory.mktemp("project")
    (project / "of_the_project.py").write_text("WORD = 'project'\n")
    (project / "neighbour.py").write_text("REPLY = 'another'\n")
    monkeypatch.chdir(project)
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    file.write_text(GOOD + "\nfrom of_the_project import WORD\nword = Agent(WORD)\n")
    assert load_agent(f"{file}:word").name == "project"
    assert sys.modules["neighbour"].REPLY == "hello"


def test_a_file_is_run_once_and_takes_no_name_of_others(file: Path) -> None:
    """Two agents of one file share its module, and ``json`` stays what it was."""
    assert load_agent(f"{file}:agent") is load_agent(f"{file}:agent")
    assert sys.modules["json"] is json


def test_an_agent_may_run_under_another_name(file: Path) -> None:
    """Its card is the same but for the name."""
    renamed = load_agent(f"{file}:agent", name="web-2")
    assert (renamed.name, renamed.card.description) == ("web-2", "in a file")
    with pytest.raises(InvalidNameError):
        load_agent(f"{file}:agent", name="Web 2")


async def test_a_plain_function_is_an_agent(file: Path) -> None:
    """It has its own name and docstring, and answers with what it returns."""
    agent = load_agent(f"{file}:run")
    assert (agent.name, agent.card.description) == ("run", "Answer in capitals.")
    async with user_in_memory() as user, running(agent, user):
        assert (await user.ask("quiet", to=["run"])).text == "QUIET"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("{file}:missing", "has no 'missing'"),
        ("{file}:NUMBER", "'NUMBER' is a int, not an agent"),
        ("{file}:Team", "'Team' is a class, not an agent"),
        ("{file}:pair", "'pair' cannot be called with the description of a task alone"),
        ("{folder}/nowhere.py:agent", "there is no file"),
        ("{folder}:agent", "there is no file"),
        ("no_such_module_at_all:agent", "ModuleNotFoundError"),
        (":agent", "ValueError"),
        (".relative:agent", "TypeError"),
    ],
)
def test_what_is_no_agent_is_refused(file: Path, target: str, reason: str) -> None:
    """The error says what is there instead, and the form that is expected."""
    with pytest.raises(AgentLoadError) as refused:
        load_agent(target.format(file=file, folder=file.parent))
    assert reason in str(refused.value)
    assert "the form is module:name" in str(refused.value)


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "1 / 0", "agent = ("])
def test_a_file_that_cannot_be_run_is_refused_each_time(file: Path, code: str) -> None:
    """Whatever it raises is the reason; no half of the module stays behind."""
    broken = file.with_name("broken.py")
    broken.write_text(code)
    for _ in range(2):
        with pytest.raises(AgentLoadError, match=r"SystemExit|ZeroDivisionError|SyntaxError"):
            load_agent(f"{broken}:agent")


class Callable:
    """An object that handles mentions."""

    async def __call__(self, mention: Mention) -> str:
        return "called"

    async def method(self, mention: Mention) -> str:
        return "method"


async def _of_two(one: object, mention: Mention) -> str:
    return "partial"


async def _with_more(mention: Mention, *rest: object, **named: object) -> str:
    return "more"


@pytest.mark.parametrize(
    "handler",
    [Callable(), Callable().method, functools.partial(_of_two, 1), _with_more],
)
def test_whatever_can_be_called_with_a_mention_is_a_handler(handler: Any) -> None:
    """Objects, methods, partials and functions with more that may be left out."""
    agent = Agent("web")
    agent.on_mention(handler)
    assert agent.mention_handler is handler


async def _keyword(*, mention: Mention) -> str:
    return "no"


async def _nothing() -> str:
    return "no"


def _plain(mention: Mention) -> str:
    return "no"


@pytest.mark.parametrize("handler", [_keyword, _nothing, _plain, _of_two, 42, None, Callable])
@pytest.mark.parametrize("mark", ["on_mention", "on_quick", "on_dead_letter"])
def test_what_cannot_be_called_with_a_mention_is_no_handler(mark: str, handler: Any) -> None:
    """It is refused where it is marked, by its name."""
    with pytest.raises(NotAHandlerError, match="async def handle"):
        getattr(Agent("web"), mark)(handler)


NAMELESS: list[tuple[Any, str]] = [
    (functools.partial(_plain), "plain"),
    (Callable(), "callable"),
    (eval("lambda task: task"), "lambda-"),  # noqa: S307 - a lambda without a type
]


@pytest.mark.parametrize(("run", "name"), NAMELESS)
def test_a_callable_without_a_usable_name_gets_one(run: Any, name: str) -> None:
    """The name is inside the grammar and says what it is."""
    assert from_callable(run).name.startswith(name)


@pytest.mark.parametrize(
    "limits",
    [
        {"concurrency": 0},
        {"concurrency": 10_001},
        {"max_attempts": 0},
        {"first_retry": timedelta(seconds=-1)},
        {"longest_retry": timedelta(seconds=-1)},
        {"turn_timeout": timedelta(0)},
    ],
)
def test_limits_that_cannot_work_are_refused(limits: dict[str, Any]) -> None:
    """The error names the limit and its value."""
    with pytest.raises(InvalidSettingError, match=next(iter(limits))):
        AgentLimits(**limits)


def test_an_agent_that_asks_no_model_loads_no_sdk() -> None:
    """The SDKs of models, protocols and traces would be most of what it has in memory."""
    program = "import sys, threadbus.agents, threadbus.agents.tools; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(ran.stdout.decode().split())

    assert "nats" in loaded
    assert loaded.isdisjoint({"openai", "pydantic", "mcp", "a2a", "opentelemetry.sdk", "numpy"})
