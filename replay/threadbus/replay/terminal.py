"""What every command of ``busreplay`` shares: options, opening a source, exit codes, errors."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TextIO, TypeAlias

import msgspec
import typer
from rich.console import Console

from threadbus.replay.errors import (
    FilterValueError,
    NoLogError,
    PriceFileError,
    TaskLookupError,
)
from threadbus.replay.export import FileSource
from threadbus.replay.plugged import settings_of
from threadbus.replay.prices import Prices, load_prices
from threadbus.replay.redact import Redaction, Redactor
from threadbus.replay.source import BusSource, Source
from threadbus.replay.streams import note
from threadbus.schemas import ThreadbusError

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

    from threadbus.bus import Bus

_PROGRESS_FROM: Final = 5_000

FileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="Read an exported file (also gzipped), not a server."
    ),
]
UrlOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The NATS server [env BUS_URL; that of `bus up`]."),
]
CredsOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--creds", metavar="FILE", help="NATS credentials [env BUS_CREDS]."),
]
NkeyOption: TypeAlias = Annotated[
    str | None, typer.Option("--nkey", metavar="FILE", help="A NATS nkey seed [env BUS_NKEY].")
]
TimeoutOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--connect-timeout",
        metavar="SECONDS",
        help="How long a server may take to answer [env BUS_CONNECT_TIMEOUT].",
    ),
]
PricesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", help="What models cost (TOML or JSON) [env BUS_PRICES]."
    ),
]
RedactOption: TypeAlias = Annotated[
    Redaction | None,
    typer.Option(
        "--redact",
        metavar="LEVEL",
        help="Placeholders for secrets, for all texts, or for names, too: secrets, texts, names.",
    ),
]


class ExitCode(IntEnum):
    """How it went."""

    OK = 0
    """The run was shown, or the reader of a pipe had enough of it."""
    ERROR = 1
    """Something could not be read; the message says what."""
    USAGE = 2
    """The options are not right."""
    UNKNOWN_TASK = 3
    """The id names no super-task, or more than one."""
    NO_SERVER = 4
    """No usable server answers."""
    SYMPTOM = 10
    """With ``--exit-code``: symptoms were found, and nothing graver."""
    VIOLATION = 11
    """A log was checked and is not sound; with ``--exit-code`` also: a rule of the protocol was
    broken in the run."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are read from: a file, or else a server; the settings give what is absent."""

    file: Path | None = None
    url: str | None = None
    credentials: str | None = None
    nkey: str | None = None
    connect_timeout: str | None = None


def make_app(*, completes: bool = False) -> typer.Typer:
    """Return an app that looks and ends like all commands of ``busreplay``.

    Args:
        completes: whether it has the options that install completion; one for all is enough.
    """
    return typer.Typer(
        add_completion=completes,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(command: Coroutine[Any, Any, object], *, needs_server: bool = True) -> None:
    """Run a command; errors that are for a person become a line and an exit code.

    Args:
        command: what to do.
        needs_server: whether there will be a client of a server, whose troubles are told.
    """
    if needs_server:
        _tell_troubles()
    _be_ready_for_any_text(sys.stdout)
    try:
        asyncio.run(command)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read has gone; writing what is left to nowhere keeps Python from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.OK) from None
    except ThreadbusError as error:
        stop(str(error), _exit_code(error))


@asynccontextmanager
async def open_source(place: Place) -> AsyncGenerator[Source]:
    """Open the source of runs at *place*.

    Raises:
        ConnectError: no usable server answers there.
        NoLogError: it has no log of threadbus.
        InvalidSettingError: the settings are not right.
    """
    if place.file is not None:
        yield FileSource(place.file)
        return
    # A file is read without a client of the server, which takes a while to import.
    from threadbus.bus import connect

    given = {
        "credentials": place.credentials,
        "nkey": place.nkey,
        "connect_timeout": place.connect_timeout,
    }
    settings = settings_of(
        {name: text for name, text in given.items() if text is not None}, place.url or ""
    )
    # Who looks at the past makes no streams.
    async with connect(settings, ensure=False) as bus:
        await _check_log(bus)
        yield BusSource(bus)


async def _check_log(bus: Bus) -> None:
    from threadbus.bus import ReadError, StreamKind

    try:
        storage = await bus.storage()
    except ReadError:
        # Some may read and not look at the streams; reading tells.
        return
    if not all(stream.exists for stream in storage.streams if stream.kind is StreamKind.LOG):
        raise NoLogError(bus.settings.url)


def prices_at(file: Path | None) -> Prices | None:
    """Return what models cost by *file*, else by the one that ``BUS_PRICES`` names, if any does.

    Ends the command where the file is not right.
    """
    named = os.environ.get("BUS_PRICES", "")
    if file is None and not named:
        return None
    try:
        return load_prices(file or Path(named))
    except PriceFileError as error:
        stop(str(error), ExitCode.USAGE)


def redactor_for(level: Redaction) -> Redactor:
    """Return a redactor with the key that ``BUS_REDACT_KEY`` holds, if there is one."""
    return Redactor(level, redact_key())


def redact_key() -> bytes:
    """Return the key that makes hashes unlike those of others."""
    return os.environ.get("BUS_REDACT_KEY", "").encode("utf-8", "surrogateescape")


class Progress:
    """Says on a terminal how far reading is, once that takes longer than a moment."""

    def __init__(self, *, shown: bool) -> None:
        console = Console(stderr=True)
        self._status = console.status("", spinner="line") if shown and console.is_terminal else None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, count: int) -> None:
        if self._status is not None and count >= _PROGRESS_FROM:
            self._status.update(f"{count:,} entries read")
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


def stop(message: str, code: ExitCode) -> NoReturn:
    """End the command with a message for a person."""
    note(f"busreplay: {message}")
    raise typer.Exit(code)


def _exit_code(error: ThreadbusError) -> ExitCode:
    if isinstance(error, TaskLookupError):
        return ExitCode.UNKNOWN_TASK
    if isinstance(error, FilterValueError):
        return ExitCode.USAGE
    from threadbus.bus import ConnectError, InvalidSettingError

    if isinstance(error, ConnectError | NoLogError):
        return ExitCode.NO_SERVER
    return ExitCode.USAGE if isinstance(error, InvalidSettingError) else ExitCode.ERROR


def _tell_troubles() -> None:
    # It takes as long to import as all the rest.
    import structlog

    structlog.configure(
        processors=[_drop_what_is_shown, structlog.dev.ConsoleRenderer(colors=False)],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _drop_what_is_shown(_: WrappedLogger, level: str, event: EventDict) -> EventDict:
    """Keep the client's log to what this command does not show itself."""
    if level in {"debug", "info"} or "not an event" in str(event.get("event")):
        from structlog import DropEvent

        raise DropEvent
    return event


def _be_ready_for_any_text(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
