"""The coder: computes with Python in a bounded process over the files of a task."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.report.files import list_files_tool, task_files
from threadbus.agents.tools import InputFile, run_python
from threadbus.schemas import FilePart, Skill

PROMPT: Final = """\
You answer questions about data by running Python. The files of the task are in the working folder;
the standard library is all there is. Print what you find. Report the numbers that the program
printed and how they were computed.
"""

agent = Agent(
    "coder",
    display_name="Coder",
    description="Runs Python over data files in a bounded process and reports what it printed.",
    skills=[
        Skill(
            id="compute",
            name="Compute with Python",
            description="Adds up, filters and compares data in CSV and other files.",
            tags=("python", "data", "csv"),
        )
    ],
)


class Program(msgspec.Struct):
    """What run_python takes."""

    code: str


def _tools(mention: Mention, files: dict[str, FilePart]) -> dict[str, Tool]:
    inputs = [InputFile(name, part.content) for name, part in files.items()]

    async def execute(program: Program) -> str:
        await mention.progress("running Python")
        result = await run_python(program.code, files=inputs)
        printed = result.stdout + (f"\n[stderr]\n{result.stderr}" if result.stderr else "")
        return printed if result.ok else f"{printed}\n{result.summary()}"

    return {
        "list_files": list_files_tool(files),
        "run_python": make_tool("run_python", "Run a Python program.", Program, execute),
    }


@agent.on_mention
async def compute(mention: Mention) -> str:
    """Do one computation."""
    files = await task_files(mention)
    run = await mention.thinking.run(
        [ChatMessage.system(PROMPT), ChatMessage.user(mention.text)], _tools(mention, files)
    )
    return run.text
