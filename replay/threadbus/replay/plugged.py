"""What the commands of this folder share that are plugged into ``bus``: settings and exit codes."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import typer

from threadbus.replay.streams import note
from threadbus.schemas import ThreadbusError

if TYPE_CHECKING:
    from threadbus.bus import BusSettings

USAGE: Final = 2
INTERRUPTED: Final = 130
_FAILED, _NO_SERVER = 1, 4


def settings_of(typed: dict[str, str], url: str) -> BusSettings:
    """Return what counts: flags, variables, a running `bus up`, defaults."""
    from threadbus.bus import BusError, BusSettings, server

    overrides: dict[str, str | None] = dict(typed)
    if url:
        overrides["url"] = url
    if "url" not in overrides and not os.environ.get("BUS_URL"):
        with suppress(BusError):
            state = server.read_state()
            if state is not None:
                overrides["url"] = state.url
    return BusSettings.from_env(None, **overrides)


@contextmanager
def telling(*usage: type[ThreadbusError]) -> Generator[None]:
    """End the command with a line and an exit code where something goes wrong inside.

    Args:
        usage: errors that are the caller's, besides settings that cannot be taken.
    """
    from threadbus.bus import ConnectError, InvalidSettingError

    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ThreadbusError, BaseExceptionGroup) as raised:
        error = _first(raised)
        note(f"bus: {error}")
        if isinstance(error, ConnectError):
            raise typer.Exit(_NO_SERVER) from None
        is_usage = isinstance(error, (InvalidSettingError, *usage))
        raise typer.Exit(USAGE if is_usage else _FAILED) from None


def _first(raised: BaseException) -> ThreadbusError:
    """Return what is for a person in *raised*, also where a group of tasks ended with it."""
    found = raised
    while isinstance(found, BaseExceptionGroup):
        found = cast("BaseExceptionGroup[BaseException]", found).exceptions[0]
    if not isinstance(found, ThreadbusError):
        raise raised
    return found
