"""The command tree's root, and the flags that every command takes.

The flags come from :data:`threadbus.bus.SETTINGS`, so a setting that is added there has its flag,
its variable and its line in docs/cli.md at once. They may stand before the command or after it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, NoReturn, cast

import structlog
import typer

from threadbus.agents.cli.exits import MEANINGS, ExitCode, code_of
from threadbus.agents.cli.plugins import PluggedGroup
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.streams import let_go, open_missing
from threadbus.bus import SETTINGS, SettingInfo
from threadbus.schemas import ThreadbusError

app: Final = typer.Typer(
    name="bus",
    cls=PluggedGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_COMPLETING: Final = "_BUS_COMPLETE"
_PREFIX: Final = "setting_"
_SHOWN: Final = frozenset({"url", "name"})
"""Settings that the help of each command shows; that of `bus` itself shows all."""


def command_group(name: str, about: str) -> typer.Typer:
    """Return a group of commands, for the entry point that plugs it into ``bus``.

    Args:
        name: what is typed.
        about: what its commands are for, a line for the help.
    """
    return typer.Typer(
        name=name,
        help=about,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def command(
    name: str, *, panel: str = "", log_level: str = "warning", group: typer.Typer = app
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a command: a function, plain or async, whose first parameter is the Shell.

    Args:
        name: what is typed.
        panel: the group in the help.
        log_level: the least level of the log that goes to standard error.
        group: where it belongs; ``bus`` itself by default.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        group.command(name, rich_help_panel=panel or None)(_with_flags(function, log_level))
        return function

    return register


def _with_flags(function: Callable[..., Any], log_level: str) -> Callable[..., None]:
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = _shared_flags(every=False)
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(function)
    def run(ctx: typer.Context, **values: Any) -> None:
        shell = _shell(ctx, values)
        _log_to_stderr(log_level)
        _run(shell, function, values)

    parameters = [
        context,
        *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own),
        *shared,
    ]
    _describe(run, parameters)
    return run


def _describe(function: Any, parameters: list[inspect.Parameter]) -> None:
    """Tell typer what *function* takes."""
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    # Otherwise typer would look at the function below, which has no flags.
    function.__dict__.pop("__wrapped__", None)


def _shared_flags(*, every: bool) -> list[inspect.Parameter]:
    flags = [
        _setting_flag(info, hidden=not every and info.attribute not in _SHOWN) for info in SETTINGS
    ]
    flags.append(
        _flag("json", bool, typer.Option("--json", help="Print JSON, see docs/cli.md."), False)
    )
    flags.append(
        _flag(
            "no_color",
            bool,
            typer.Option("--no-color", help="No colours, as with NO_COLOR.", hidden=not every),
            False,
        )
    )
    return flags


def _setting_flag(info: SettingInfo, *, hidden: bool) -> inspect.Parameter:
    option = typer.Option(info.flag, help=f"{info.help} [{info.env}]", hidden=hidden)
    return _flag(f"{_PREFIX}{info.attribute}", str | None, option, None)


def _flag(name: str, kind: Any, option: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def _shell(ctx: typer.Context, values: dict[str, Any]) -> Shell:
    """Take the shared flags out of *values*; those after the command count more."""
    before: dict[str, Any] = ctx.obj or {}
    typed = {**before.get("typed", {}), **_take_settings(values)}
    json: bool = values.pop("json") or before.get("json", False)
    no_color: bool = values.pop("no_color") or before.get("no_color", False)
    return Shell(typed, json=json, color=not no_color)


def _take_settings(values: dict[str, Any]) -> dict[str, str]:
    names = [name for name in values if name.startswith(_PREFIX)]
    given = {name.removeprefix(_PREFIX): values.pop(name) for name in names}
    return {attribute: text for attribute, text in given.items() if text is not None}


def _run(shell: Shell, function: Callable[..., Any], values: dict[str, Any]) -> None:
    try:
        outcome = function(shell, **values)
        if inspect.iscoroutine(outcome):
            outcome = asyncio.run(outcome)
        sys.stdout.flush()
    except KeyboardInterrupt:
        shell.note(shell.detach_hint or "interrupted")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read has gone; writing what is left to nowhere keeps Python from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.OK) from None
    except ThreadbusError as error:
        _fail(shell, error)
    except BaseExceptionGroup as group:
        _fail(shell, _first(group))
    if isinstance(outcome, ExitCode) and outcome is not ExitCode.OK:
        raise typer.Exit(outcome)


def _first(group: BaseExceptionGroup[BaseException]) -> ThreadbusError:
    """Return what a group of tasks ended with, where it is an error for a person."""
    found = group.exceptions[0]
    if isinstance(found, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", found))
    if not isinstance(found, ThreadbusError):
        raise group
    return found


def _fail(shell: Shell, error: ThreadbusError) -> NoReturn:
    shell.error(str(error))
    raise typer.Exit(code_of(error)) from None


def _log_to_stderr(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _root(ctx: typer.Context, **values: Any) -> None:
    if values.pop("version"):
        from importlib.metadata import version

        typer.echo(f"threadbus {version('threadbus')}")
        raise typer.Exit
    ctx.obj = {
        "typed": _take_settings(values),
        "json": values.pop("json"),
        "no_color": values.pop("no_color"),
    }


_root.__doc__ = (
    "Ask teams of agents, watch them work, and run agents of your own.\n\n"
    "Begin with `bus demo`, or with `bus up` in one terminal and `bus init` in another. "
    "`busreplay TASK` shows what a team did.\n\n\b\nExit codes:\n"
    + "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
)
_describe(
    _root,
    [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        _flag("version", bool, typer.Option("--version", help="Print the version."), False),
        *_shared_flags(every=True),
    ],
)
app.callback(invoke_without_command=True)(_root)


def main() -> None:
    """Run the command; the console script ``bus``."""
    if _COMPLETING in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    open_missing()
    try:
        app(prog_name="bus")
    finally:
        let_go()
