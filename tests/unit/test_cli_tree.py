"""The command tree as a whole: what every command has."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import typer.main

from threadbus.agents.cli.exits import MEANINGS, ExitCode, code_of
from threadbus.agents.cli.failures import CommandError, TaskLookupError, UsageError
from threadbus.agents.cli.results import OF_COMMAND
from threadbus.agents.cli.tree import app
from threadbus.agents.teams.script import DemoError
from threadbus.bus import SETTINGS, NoServerError, ThreadClosedError, WaitTimeoutError
from threadbus.schemas import ThreadbusError

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {
    f"{name} {inner}".strip(): command
    for name, group in GROUP.commands.items()
    for inner, command in getattr(group, "commands", {"": group}).items()
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_takes_every_setting_and_says_what_it_does(name: str) -> None:
    """A flag of the table works before and after the command."""
    flags = {option for param in COMMANDS[name].params for option in param.opts}
    before = {option for param in GROUP.params for option in param.opts}

    for info in SETTINGS:
        assert info.flag in flags
        assert info.flag in before
    assert {"--json", "--no-color"} <= flags
    assert COMMANDS[name].help.strip()


def test_every_command_has_documented_json() -> None:
    """`watch` prints the log itself, `completion` a script; `cluster up` becomes a server."""
    assert set(COMMANDS) - set(OF_COMMAND) == {"watch", "completion", "cluster up"}
    assert set(OF_COMMAND) <= set(COMMANDS)


def test_every_exit_code_has_a_meaning() -> None:
    """The table of the documentation is whole."""
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("--limit", "0", "1 to 9"), ExitCode.USAGE),
        (TaskLookupError("x", (), ()), ExitCode.NOT_FOUND),
        (DemoError("no answer"), ExitCode.FAILED),
        (NoServerError("nats://x", "refused"), ExitCode.NO_SERVER),
        (ThreadClosedError("t", "main", "completed"), ExitCode.REFUSED),
        (WaitTimeoutError("an answer", 1.0), ExitCode.TIMEOUT),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_have_their_exit_codes(error: ThreadbusError, code: ExitCode) -> None:
    """The leaf decides, not its root."""
    assert code_of(error) is code


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UsageError("--limit", "0", "1 to 9"), ["--limit", "'0'", "1 to 9"]),
        (TaskLookupError("0a", ["0ab", "0ac"], ()), ["2 super-tasks", "0ab", "0ac"]),
        (TaskLookupError("zz", (), ["0ab"]), ["'zz'", "did you mean 0ab"]),
        (TaskLookupError("zz", (), ()), ["bus ask"]),
    ],
    ids=["usage", "several", "near", "none"],
)
def test_errors_of_the_command_say_what_to_do_and_survive_pickling(
    error: CommandError, words: list[str]
) -> None:
    """The value, the limit and the way out are in the message."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert str(copy) == str(error)
    for word in words:
        assert word in str(error)
