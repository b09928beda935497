"""``bus backup`` and ``bus restore``: everything that is stored, in a folder and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results_operating import BackupDone
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import plural
from threadbus.bus import backup


@command("backup", panel="Set up")
async def backup_(
    shell: Shell,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Is made; must not be there.")],
) -> None:
    """Write everything that is stored into a folder, while agents go on.

    As the operator. One that is interrupted is FOLDER.partial, and never taken for a whole one.
    """
    manifest = await backup.backup(
        shell.settings(), folder, on_stream=lambda done: _note(shell, "saved", done)
    )
    _tell(shell, "backed up", folder, manifest)


@command("restore", panel="Set up")
async def restore(
    shell: Shell,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made by `bus backup`.")],
    only_check: Annotated[
        bool, typer.Option("--check", help="Only read the files and compare their checksums.")
    ] = False,
) -> None:
    """Make everything in a backup again, on a server in which nothing was said yet.

    As the operator, before agents are started. Overwrites nothing. BUS_COPIES says how many servers
    keep each stream.
    """
    if only_check:
        manifest = await asyncio.to_thread(backup.check, folder)
    else:
        manifest = await backup.restore(
            shell.settings(), folder, on_stream=lambda done: _note(shell, "restored", done)
        )
    _tell(shell, "checked" if only_check else "restored", folder, manifest)


def _note(shell: Shell, what: str, stream: backup.BackedUp) -> None:
    if not shell.json:
        shell.note(f"{what} {stream.name}", "dim")


def _tell(shell: Shell, what: str, folder: Path, manifest: backup.Manifest) -> None:
    if shell.json:
        shell.result(BackupDone(folder=str(folder.resolve()), manifest=manifest))
        return
    made = table("stream", "messages", "bytes", right=("messages", "bytes"))
    for stream in manifest.streams:
        made.add_row(cell(stream.name), cell(f"{stream.messages:,}"), cell(f"{stream.bytes:,}"))
    shell.table(made)
    shell.say(f"{what} {plural(len(manifest.streams), 'stream')}, {folder}", "bold green")
