"""What a team that can be shown is: its agents, what it is asked, and what answers for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from threadbus.agents.errors import AgentError
from threadbus.schemas import FilePart, Part, nearest_names, shorten

TEAMS: Final[Mapping[str, str]] = {
    "ioa": "threadbus.agents.teams.ioa.script",
    "report": "threadbus.agents.teams.report.script",
    "anemoi": "threadbus.agents.teams.anemoi.script",
    "york": "threadbus.agents.teams.york.script",
}
"""Team → the module whose ``SCRIPT`` describes it; imported when it is named."""

DEFAULT_TEAM: Final = "report"


class DemoError(AgentError):
    """The demonstration did not come to its answer."""

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(what, detail)
        self.what = what
        self.detail = detail

    def __str__(self) -> str:
        return f"the demo failed: {self.what}" + (f"\n{self.detail}" if self.detail else "")


class UnknownTeamError(AgentError, ValueError):
    """There is no team of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        near = nearest_names(self.name, list(TEAMS))
        meant = f"; did you mean {near[0]}?" if near and len(TEAMS) > 1 else ""
        return f"there is no team {shorten(self.name)!r}, there are {', '.join(TEAMS)}{meant}"


@dataclass(frozen=True, kw_only=True)
class TeamScript:
    """A team and one question to it."""

    about: str
    """A sentence for a person: who these are and what they do."""
    agents: Mapping[str, str]
    """Agent → ``module:attribute``, each to run as a process of its own."""
    to: Sequence[str]
    """Who is asked."""
    question: Callable[[], list[Part]]
    """Returns what is asked, with its files. May raise :class:`DemoError`."""
    playbook: Path
    """What answers where there is no model."""
    is_real: str
    """What is real although a playbook says the words, as ``the numbers are computed``."""
    environ: Mapping[str, str] | None = None
    """Further variables for the agents."""
    replies: Sequence[str] = ()
    """What the person answers who is asked for input, in this order."""

    @property
    def participants(self) -> list[str]:
        """The agents that are not asked but take part."""
        return [name for name in self.agents if name not in self.to]


def load_team(name: str) -> TeamScript:
    """Return the team of this name.

    Raises:
        UnknownTeamError: there is none.
    """
    if name not in TEAMS:
        raise UnknownTeamError(name)
    script: TeamScript = import_module(TEAMS[name]).SCRIPT
    return script


def example_folder(example: Path, files: Sequence[str]) -> Path:
    """Return the folder with the files of an example.

    Args:
        example: where it is in a checkout.
        files: what must be in it.

    Raises:
        DemoError: it is neither below the working folder or one above it, nor in the repository.
    """
    working = Path.cwd()
    for root in (working, *working.parents, Path(__file__).parents[4]):
        folder = root / example
        if all((folder / name).is_file() for name in files):
            return folder
    raise DemoError(f"there is no {example} here; run it in a checkout of the repository")


def read_files(folder: Path, files: Mapping[str, str]) -> list[Part]:
    """Return files as parts.

    Args:
        folder: where they are.
        files: name → media type.

    Raises:
        DemoError: a file cannot be read.
    """
    parts: list[Part] = []
    for name, media_type in files.items():
        try:
            parts.append(FilePart((folder / name).read_bytes(), name, media_type))
        except OSError as error:
            raise DemoError(f"{folder / name}: {error.strerror}") from error
    return parts
