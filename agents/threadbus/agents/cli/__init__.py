"""The command ``bus``: everything that acts on a bus, for a person at a terminal.

:mod:`.app` holds the command tree and the flags that every command takes, one module each the
commands; :mod:`.live` shows a conversation, for all commands that follow one. What a command
prints with ``--json`` is a struct in :mod:`.results`. docs/cli.md is generated from all of it.
"""

from threadbus.agents.cli.tree import main

__all__ = ["main"]
