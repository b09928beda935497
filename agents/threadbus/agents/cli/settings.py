"""``bus config`` and ``bus completion``: what is set, and how the shell can help."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results import Config, SettingRow
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import safe_url
from threadbus.bus import SETTINGS

MODEL_VARIABLES: Final = {
    "BUS_MODEL": "The model that agents think with; BUS_MODEL_<AGENT> for one of them.",
    "OPENAI_API_KEY": "The key of the model's server.",
    "OPENAI_BASE_URL": "An OpenAI-compatible server other than OpenAI's own.",
    "BUS_COMPLETION_TIMEOUT": "Seconds for one attempt at an answer of a model.",
    "BUS_COMPLETION_DEADLINE": "Seconds for one answer with all its attempts.",
    "BUS_COMPLETION_RETRIES": "Attempts after the first.",
    "BUS_COMPLETION_MAX_TOKENS": "Tokens that one answer may have.",
}
OTHER_VARIABLES: Final = {
    "THREADBUS_NATS_SERVER": "The nats-server to start instead of the installed one.",
    "XDG_STATE_HOME": "Where `bus up` and `bus demo` keep their data.",
    "NO_COLOR": "No colours, as with --no-color.",
}
_SECRETS: Final = frozenset({"OPENAI_API_KEY"})


class ShellName(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command("config", panel="Set up")
def config(shell: Shell) -> None:
    """Show every setting: its value, where that comes from, its flag and its variable."""
    shown = shell.settings().shown()
    rows = [
        SettingRow(
            setting=info.attribute,
            value=safe_url(shown[info.attribute]),
            source=shell.source_of(info.attribute),
            flag=info.flag,
            env=info.env,
            help=info.help,
        )
        for info in SETTINGS
    ]
    for name, about in {**MODEL_VARIABLES, **OTHER_VARIABLES}.items():
        value = os.environ.get(name, "")
        rows.append(
            SettingRow(
                setting=name.lower(),
                value="(hidden)" if value and name in _SECRETS else safe_url(value),
                source="environment" if value else "default",
                flag="",
                env=name,
                help=about,
            )
        )
    if shell.json:
        shell.result(Config(settings=rows))
        return
    made = table("variable", "flag", "value", "from")
    for column in made.columns[:2]:
        column.no_wrap = True
    for row in rows:
        is_default = row.source == "default"
        made.add_row(
            row.env,
            row.flag or "-",
            cell(row.value or "-", "" if is_default else "bold"),
            Text(row.source, "dim" if is_default else "green"),
        )
    shell.table(made)


@command("completion", panel="Set up")
def completion(
    shell: Shell,
    name: Annotated[ShellName, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion script for a shell; `source` it from its start-up file.

    For bash: bus completion bash >> ~/.bashrc
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    shell.out.out(
        get_completion_script(prog_name="bus", complete_var="_BUS_COMPLETE", shell=name.value),
        highlight=False,
    )
