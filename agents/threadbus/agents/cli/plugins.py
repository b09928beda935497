"""Commands that other folders and packages add to ``bus``, found by entry points.

A distribution names them under the entry point group ``threadbus.commands``: the name is what is
typed, the value a ``typer.Typer`` (a group of commands made by :func:`.app.command_group`). Nothing
of it is imported before it is named or listed, so what is heavy must not be imported at its top.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
import typer.core
import typer.main

ENTRY_POINTS: Final = "threadbus.commands"


class PluggedGroup(typer.core.TyperGroup):
    """The commands of the tree, and those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands: own ones in their order, then plugged ones."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in sorted(_plugged()) if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one that cannot be imported is told and left out."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _plugged().get(cmd_name)
        if entry is None:
            return None
        try:
            return typer.main.get_command(entry.load())
        except Exception as error:
            # What somebody else installed must not keep the rest from working.
            typer.echo(f"bus {cmd_name} is not available: {entry.value}: {error!r}", err=True)
            return None


def _plugged() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
