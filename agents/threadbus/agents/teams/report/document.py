"""The document agent: reads the documents of a task and quotes what they say."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.report.files import list_files_tool, task_files
from threadbus.agents.tools import NamedBytes, read_document
from threadbus.schemas import FilePart, Skill

PROMPT: Final = """\
You read documents and report what they say. Use read_file; quote numbers exactly as they stand,
with the sentence or table they are in. Do not compute and do not judge.
"""

agent = Agent(
    "document",
    display_name="Document reader",
    description="Reads DOCX, PDF, spreadsheets and text, and quotes what they say.",
    skills=[
        Skill(
            id="read",
            name="Read documents",
            description="Extracts text and tables from files and quotes them.",
            tags=("documents", "docx", "pdf", "xlsx"),
        )
    ],
)


_READ_TIMEOUT: Final = timedelta(minutes=10)
"""Longer than the limits of reading, which say what was too much."""


class FileName(msgspec.Struct):
    """What read_file takes."""

    name: str


def _tools(mention: Mention, files: dict[str, FilePart]) -> dict[str, Tool]:
    async def read_file(argument: FileName) -> str:
        part = files.get(argument.name)
        if part is None:
            return f"There is no file {argument.name!r}; there are {', '.join(files) or 'none'}."
        await mention.progress(f"reading {argument.name}")
        document = await read_document(NamedBytes(argument.name, part.content))
        return document.render()

    return {
        "list_files": list_files_tool(files),
        "read_file": make_tool(
            "read_file",
            "Read a document: its text and its tables.",
            FileName,
            read_file,
            timeout=_READ_TIMEOUT,
        ),
    }


@agent.on_mention
async def read(mention: Mention) -> str:
    """Do one piece of reading."""
    files = await task_files(mention)
    run = await mention.thinking.run(
        [ChatMessage.system(PROMPT), ChatMessage.user(mention.text)], _tools(mention, files)
    )
    return run.text
