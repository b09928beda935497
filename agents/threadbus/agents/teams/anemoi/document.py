"""The document worker: reads the files of the task and quotes what they say."""

from __future__ import annotations

from typing import Final

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, Tool
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.prompts import DOCUMENT_PROMPT
from threadbus.agents.teams.anemoi.reading import read_file_tool
from threadbus.agents.teams.report.files import list_files_tool, task_files
from threadbus.schemas import FilePart, Skill

_ROUNDS: Final = 12

agent = Agent(
    "document",
    display_name="Document reader",
    description="Reads PDF, Office, web and text files, images and recordings, and quotes them.",
    skills=[
        Skill(
            id="read",
            name="Read documents",
            description="Extracts text and tables from files, also from images and recordings.",
            tags=("documents", "pdf", "docx", "xlsx", "pptx", "images", "audio", "video"),
        )
    ],
)


def _tools(mention: Mention, files: dict[str, FilePart]) -> dict[str, Tool]:
    def content(name: str) -> bytes | None:
        return files[name].content if name in files else None

    return {
        "list_files": list_files_tool(files),
        "read_file": read_file_tool(mention, lambda: files, content),
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
