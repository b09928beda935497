"""The tool that reads a file of the task, for every worker that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.mention import Mention
from threadbus.agents.model import Tool, make_tool
from threadbus.agents.tools import NamedBytes, read_document

READ_TIMEOUT: Final = timedelta(minutes=30)
"""How long reading may take: longer than its own limits, which say what was too much."""


class FileName(msgspec.Struct):
    """What read_file takes."""

    name: str


def read_file_tool(
    mention: Mention, names: Callable[[], Iterable[str]], content: Callable[[str], bytes | None]
) -> Tool:
    """Make the tool that reads a document or spreadsheet by its name.

    Args:
        mention: whose progress it tells.
        names: which files there are now.
        content: the bytes of one; None where there is no such file.
    """

    async def read_file(argument: FileName) -> str:
        found = content(argument.name)
        if found is None:
            there = ", ".join(names()) or "none"
            return f"There is no file {argument.name!r}; there are {there}."
        await mention.progress(f"reading {argument.name[:200]}")
        document = await read_document(NamedBytes(argument.name, found))
        return document.render()

    return make_tool(
        "read_file",
        "Read a file: the text, sheets and tables of a document, the text in an image or scan, "
        "what a recording or film says.",
        FileName,
        read_file,
        timeout=READ_TIMEOUT,
    )
