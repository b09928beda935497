"""The command ``bus``: everything that acts on a bus, for a person at a terminal.

:mod:`.app` holds the command tree and the flags that every command takes, one module each the
commands; :mod:`.live` shows a conversation, for all commands that follow one. What a command
prints with ``--json`` is a struct in :mod:`.results`. docs/cli.md is generated from all of it.
"""

from threadbus.agents.cli.app import command, command_group
from threadbus.agents.cli.exits import ExitCode, exit_with
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.tree import main

__all__ = ["ExitCode", "Shell", "UsageError", "command", "command_group", "exit_with", "main"]
