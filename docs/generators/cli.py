"""The page of the command `bus`: commands, settings, exit codes, keys of the JSON output.

All of it comes from the command tree itself, so the page and `bus --help` cannot differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import typer.main

from threadbus.agents.cli.exits import MEANINGS
from threadbus.agents.cli.results import OF_COMMAND
from threadbus.agents.cli.settings import MODEL_VARIABLES, OTHER_VARIABLES
from threadbus.agents.cli.tree import app
from threadbus.bus import SETTINGS, BusSettings

HEAD = """\
# The command `bus`

Generated from the command tree by `make docs`; do not edit.

`bus` is everything that acts on a bus; [`busreplay`](../replay/README.md) is everything that reads
the past. Begin with `bus demo`, or with `bus up` in one terminal and `bus init` in another.

- A super-task is named by its id or by a beginning of it that no other one has.
- Results go to standard output; the conversation, hints and errors go to standard error.
- Ctrl-C during `ask` or `attach` leaves the super-task running.
- What others wrote is shown with control characters and escape sequences made visible.
- Piped, there are no colours and no control codes, and each row of a table is one line.

"""
SETTINGS_HEAD = """\
## Settings

Each is a flag, which may stand before or after the command, and a variable. What was given as a
flag counts more than a variable. Where no URL is given, commands use the server that `bus up` of
the same user runs, and the default otherwise. `bus config` shows what counts and why.

| Flag | Variable | Default | Meaning |
|---|---|---|---|
"""
JSON_HEAD = """\
## JSON output

`--json` prints one line of JSON with the keys below; `bus watch --json` prints one line for each
entry of the log, which `busreplay --file` reads. Times are nanoseconds since the epoch, ages and
durations nanoseconds. A key may be added; none is renamed or taken away. Errors go to standard
error as text; the exit code says what kind they are.

"""


def files() -> Mapping[str, str]:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    shared = {option for param in group.params for option in param.opts}
    commands = dict(_commands(group))
    text = (
        HEAD
        + _overview(commands)
        + "".join(_command(name, command, shared) for name, command in sorted(commands.items()))
    )
    return {"docs/cli.md": text + _settings() + _exit_codes() + _json()}


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by what is typed, those of plugged-in groups too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def _overview(commands: Mapping[str, Any]) -> str:
    rows = "".join(
        f"| [`bus {name}`](#bus-{name.replace(' ', '-')}) | {_help(command).splitlines()[0]} |\n"
        for name, command in sorted(commands.items())
    )
    return f"## Commands\n\n| Command | What it does |\n|---|---|\n{rows}\n"


def _command(name: str, command: Any, shared: set[str]) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [
        p
        for p in command.params
        if p.param_type_name == "option" and not p.hidden and not shared & set(p.opts)
    ]
    usage = " ".join(["bus", name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"### bus {name}\n\n{_help(command)}\n\n```text\n{usage}\n```\n\n"]
    rows = [*(_row(f"`{_metavar(p)}`", p) for p in arguments)]
    rows += [_row(", ".join(f"`{opt}`" for opt in p.opts), p) for p in options]
    if rows:
        lines.append("| Argument or flag | Default | Meaning |\n|---|---|---|\n")
        lines += [*rows, "\n"]
    return "".join(lines)


def _help(command: Any) -> str:
    return inspect.cleandoc(command.help or "")


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.removesuffix("_")).upper()


def _usage(param: Any) -> str:
    return _metavar(param) if param.required else f"[{_metavar(param)}]"


def _row(name: str, param: Any) -> str:
    default = param.default
    empty = default in (None, "", False, []) or callable(default)
    return f"| {name} | {'' if empty else f'`{default}`'} | {_cell(param.help or '')} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _settings() -> str:
    defaults = BusSettings().shown()
    rows = "".join(
        f"| `{info.flag}` | `{info.env}` | {_code(defaults[info.attribute])} | {info.help} |\n"
        for info in SETTINGS
    )
    others = "".join(
        f"| | `{name}` | | {about} |\n"
        for name, about in {**MODEL_VARIABLES, **OTHER_VARIABLES}.items()
    )
    return SETTINGS_HEAD + rows + others + "\nTimes are in seconds.\n\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _exit_codes() -> str:
    rows = "".join(f"| {code.value} | {meaning} |\n" for code, meaning in MEANINGS.items())
    return f"## Exit codes\n\n| Code | Meaning |\n|---|---|\n{rows}\n"


def _json() -> str:
    sections = [
        f"### bus {name} --json\n\n| Key | Meaning |\n|---|---|\n{''.join(_keys(kind))}\n"
        for name, kind in sorted(OF_COMMAND.items())
    ]
    return (JSON_HEAD + "".join(sections)).rstrip() + "\n"


def _keys(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        about, inner = _about(field.type)
        yield f"| `{prefix}{field.encode_name}` | {about} |\n"
        if inner is not None:
            yield from _keys(inner, f"{prefix}{field.encode_name}[].")


def _description(found: Any) -> str:
    extra: Any = found.extra_json_schema
    return "" if extra is None else str(extra.get("description", ""))


def _about(annotation: Any) -> tuple[str, type[msgspec.Struct] | None]:
    """Return what a key means, and the struct in its list, if it is a list of our own."""
    found = msgspec.inspect.type_info(annotation)
    text = ""
    if isinstance(found, msgspec.inspect.Metadata):
        text = _description(found)
        found = found.type
    if isinstance(found, msgspec.inspect.ListType):
        item = found.item_type
        if isinstance(item, msgspec.inspect.StructType) and item.cls.__module__.endswith("results"):
            return text, item.cls
    return text, None
