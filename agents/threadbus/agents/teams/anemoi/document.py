"""The document worker: reads the files of the task and quotes what they say."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.prompts import DOCUMENT_PROMPT
from threadbus.agents.teams.report.files import list_files_tool, task_files
from threadbus.agents.tools import NamedBytes, read_document
from threadbus.schemas import FilePart, Skill

_ROUNDS: Final = 12

agent = Agent(
    "document",
    display_name="Document reader",
    description="Reads PDF, Office, web and text files, images and tables, and quotes them.",
    skills=[
        Skill(
            id="read",
            name="Read documents",
            description="Extracts text and tables from files and quotes them.",
            tags=("documents", "pdf", "docx", "xlsx", "pptx"),
        )
    ],
)


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
            "read_file", "Read a document: its text and its tables.", FileName, read_file
        ),
    }


async def _work(mention: Mention) -> Reply:
    asked = await asked_in(mention)
    files = await task_files(mention)
    run = await mention.thinking.run(
        [ChatMessage.system(DOCUMENT_PROMPT), ChatMessage.user(asked)],
        _tools(mention, files),
        max_rounds=_ROUNDS,
    )
    return run.text


member(agent, DOCUMENT_PROMPT, _work)
