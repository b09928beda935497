"""The Anemoi team on one question: a page with a correction, a table and minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threadbus.agents.teams.anemoi.names import ANSWER, CRITIQUE, PLANNER, WORKERS
from threadbus.agents.teams.anemoi.site import serve
from threadbus.agents.teams.script import TeamScript
from threadbus.schemas import FilePart, Part, TextPart

_MINUTES: Final = """\
# Minutes of the harbour office, 6 July 2026

Captain Ruiz reports that the turnstile at the north pier jammed on 14 June. On that day 388
passengers were counted twice; they are still in the daily table and have to be taken off.

The new timetable was put off to September.
"""
_environ: Final[dict[str, str]] = {}


def _table() -> str:
    """Return the daily counts of the second quarter of 2026, 42,330 passengers in all."""
    lines = ["date,passengers"]
    lengths = {4: 30, 5: 31, 6: 30}
    days = [(month, day) for month, last in lengths.items() for day in range(1, last + 1)]
    for number, (month, day) in enumerate(days):
        count = 435 + (number * 37) % 61
        if (month, day) == (6, 30):
            count = 42_330 - sum(int(line.split(",")[1]) for line in lines[1:])
        lines.append(f"2026-{month:02}-{day:02},{count}")
    return "\n".join(lines) + "\n"


def _question() -> list[Part]:
    where = serve()
    # Only this site, of all that is not public, may be reached by the agents.
    _environ["BUS_WEB_ALLOW"] = where
    return [
        TextPart(
            "Does the town owe the ferry the subsidy for the second quarter of 2026? The rules "
            f"are at http://{where}/rules.html, the passengers of each day in passengers.csv, "
            "the minutes of the harbour office in minutes.md."
        ),
        FilePart(_table().encode(), "passengers.csv", "text/csv"),
        FilePart(_MINUTES.encode(), "minutes.md", "text/markdown"),
    ]


_MODULES: Final = {PLANNER: "planner", CRITIQUE: "critique", ANSWER: "answer_finding"}

SCRIPT: Final = TeamScript(
    about="Six agents, each a process of its own, plan together, judge, vote and answer.",
    agents={
        name: f"threadbus.agents.teams.anemoi.{_MODULES.get(name, name)}:agent"
        for name in (PLANNER, CRITIQUE, ANSWER, *WORKERS)
    },
    to=(PLANNER,),
    question=_question,
    playbook=Path(__file__).parent / "playbook.toml",
    is_real="the pages are fetched, the files read, the numbers computed",
    environ=_environ,
)
