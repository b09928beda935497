"""The first team on real input: does a report agree with its data?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threadbus.agents.teams.script import TeamScript, example_folder, read_files
from threadbus.schemas import Part, TextPart

_FILES: Final = {
    "sales.csv": "text/csv",
    "report.docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}


def _question() -> list[Part]:
    folder = example_folder(Path("examples", "quarterly-report"), list(_FILES))
    return [TextPart("Does the report agree with the data?"), *read_files(folder, _FILES)]


SCRIPT: Final = TeamScript(
    about="A team of four agents, each a process of its own, reads real files.",
    agents={
        name: f"threadbus.agents.teams.report.{name}:agent"
        for name in ("planner", "document", "coder", "answer")
    },
    to=("planner",),
    question=_question,
    playbook=Path(__file__).parent / "playbook.toml",
    is_real="the numbers are read and computed",
)
