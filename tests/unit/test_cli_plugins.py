"""Commands that are plugged into `bus` by entry points."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from threadbus.agents.cli import Shell, command, command_group, plugins
from threadbus.agents.cli.tree import app


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug in one group that works, and one that cannot be imported."""
    module = types.ModuleType("plugged_module")
    group = command_group("extra", "More commands.")

    @command("greet", group=group)
    def greet(shell: Shell, who: str) -> None:
        """Say hello."""
        shell.say(f"hello {who} at {shell.settings().url}")

    # A group of one command would be that command itself.
    @command("part", group=group)
    def part(shell: Shell) -> None:
        """Say goodbye."""
        shell.say("goodbye")

    module.group = group  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "plugged_module", module)
    found = (
        EntryPoint("extra", "plugged_module:group", plugins.ENTRY_POINTS),
        EntryPoint("broken", "no_such_module_at_all:group", plugins.ENTRY_POINTS),
        EntryPoint("ask", "plugged_module:group", plugins.ENTRY_POINTS),
    )

    def fake_entry_points(group: str) -> tuple[EntryPoint, ...]:
        return found if group == plugins.ENTRY_POINTS else ()

    monkeypatch.setattr(plugins, "entry_points", fake_entry_points)


@pytest.mark.usefixtures("plugged")
def test_a_plugged_command_runs_with_the_flags_of_every_command() -> None:
    """Flags may stand before the group or after its command, as with every other command."""
    runner = CliRunner()
    before = runner.invoke(app, ["--url", "nats://one:1", "extra", "greet", "you"])
    after = runner.invoke(app, ["extra", "greet", "you", "--url", "nats://two:2"])
    assert before.output.strip() == "hello you at nats://one:1"
    assert after.output.strip() == "hello you at nats://two:2"


@pytest.mark.usefixtures("plugged")
def test_a_plugged_command_that_cannot_be_imported_leaves_the_rest() -> None:
    """The help lists what works, and typing the broken one says that there is no such command."""
    runner = CliRunner()
    listed = runner.invoke(app, ["--help"])
    assert listed.exit_code == 0
    assert "extra" in listed.output
    assert "bus broken is not available" in listed.stderr
    assert "broken" not in listed.stdout
    assert runner.invoke(app, ["broken"]).exit_code == 2


@pytest.mark.usefixtures("plugged")
def test_a_plugged_command_cannot_replace_one_of_our_own() -> None:
    """A name that the tree has stays what it is."""
    assert "QUESTION" in CliRunner().invoke(app, ["ask", "--help"]).output.upper()
