"""The files that a super-task came with, for whoever works on it."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.agents.mention import Mention
from threadbus.agents.model import Tool, make_tool
from threadbus.schemas import FilePart, ReferencePart

_MAX_FILES: Final = 32


class NoArguments(msgspec.Struct):
    """A tool that needs to be told nothing."""


async def task_files(mention: Mention) -> dict[str, FilePart]:
    """Return the files of the question by name, their bytes loaded and checked."""
    state = await mention.bus.tasks.state(mention.task)
    found: dict[str, FilePart] = {}
    for part in state.question:
        if isinstance(part, FilePart | ReferencePart) and len(found) < _MAX_FILES:
            loaded = await mention.bus.artifacts.load(part)
            if isinstance(loaded, FilePart):
                found[loaded.name or f"file-{len(found) + 1}"] = loaded
    return found


def list_files_tool(files: dict[str, FilePart]) -> Tool:
    """Make the tool that tells a model which files there are."""

    async def run(_: NoArguments) -> str:
        lines = [f"{n}: {f.media_type}, {len(f.content)} bytes" for n, f in files.items()]
        return "\n".join(lines) or "There are no files."

    return make_tool("list_files", "List the files of the task.", NoArguments, run)
