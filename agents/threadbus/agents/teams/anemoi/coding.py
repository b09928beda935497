"""The coding worker: computes with Python in a bounded process, its code and output on record."""

from __future__ import annotations

import mimetypes
from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.prompts import CODING_PROMPT
from threadbus.agents.teams.anemoi.reading import read_file_tool
from threadbus.agents.teams.report.files import list_files_tool, task_files
from threadbus.agents.tools import InputFile, run_python
from threadbus.schemas import FilePart, Skill, TextPart

_ROUNDS: Final = 12
_MAX_INPUTS: Final = 64
_MAX_HANDED_OVER: Final = 8

agent = Agent(
    "coding",
    display_name="Coding",
    description="Runs Python over the files of a task in a bounded process without network.",
    skills=[
        Skill(
            id="compute",
            name="Compute with Python",
            description="Adds up, filters, compares and converts data; writes files.",
            tags=("python", "data", "spreadsheets"),
        )
    ],
)


class Program(msgspec.Struct):
    """What run_python takes."""

    code: str


def _tools(
    mention: Mention, files: dict[str, FilePart], written: dict[str, bytes]
) -> dict[str, Tool]:
    inputs = {name: InputFile(name, part.content) for name, part in files.items()}

    async def execute(program: Program) -> str:
        await mention.progress("running Python")
        result = await run_python(program.code, files=list(inputs.values()))
        for file in result.files:
            if file.content is not None and len(inputs) < _MAX_INPUTS:
                # The next program finds what this one wrote.
                inputs[file.name] = InputFile(file.name, file.content)
                written[file.name] = file.content
        return result.render()

    def content(name: str) -> bytes | None:
        return inputs[name].content if name in inputs else None

    return {
        "list_files": list_files_tool(files),
        "read_file": read_file_tool(mention, lambda: inputs, content),
        "run_python": make_tool("run_python", "Run a Python program.", Program, execute),
    }


async def _work(mention: Mention) -> Reply:
    asked = await asked_in(mention)
    files = await task_files(mention)
    written: dict[str, bytes] = {}
    run = await mention.thinking.run(
        [ChatMessage.system(CODING_PROMPT), ChatMessage.user(asked)],
        _tools(mention, files, written),
        max_rounds=_ROUNDS,
    )
    handed_over = list(written.items())[-_MAX_HANDED_OVER:]
    return [
        TextPart(run.text),
        *(FilePart(content, name[-200:], _media_type(name)) for name, content in handed_over),
    ]


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


member(agent, CODING_PROMPT, _work)
