"""Where a server that a person runs can be found by that person's other commands.

Each ``bus up`` writes ``server-<port>.json`` into the user's state folder. A file is believed only
while the lock of its data folder is held by the very process that it names: one that was left
behind by a crash or a power cut counts as none.
"""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from threadbus.bus.server.files import write_private
from threadbus.bus.server.lock import is_alive, lock_holder
from threadbus.bus.server.settings import DEFAULT_PORT
from threadbus.bus.server_errors import DataFolderError

_MAX_STATE_BYTES: Final = 64 * 1024
_MAX_STATE_FILES: Final = 1000


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a person runs."""

    url: str
    pid: int
    started_at: datetime
    data: Path
    version: str


def state_folder() -> Path:
    """Return the folder of threadbus for this user's state, which may not exist yet.

    It is ``$XDG_STATE_HOME/threadbus``, or ``~/.local/state/threadbus``.

    Raises:
        DataFolderError: The user has no home folder.
    """
    configured = os.environ.get("XDG_STATE_HOME", "")
    if Path(configured).is_absolute():
        return Path(configured) / "threadbus"
    try:
        return Path.home() / ".local" / "state" / "threadbus"
    except RuntimeError as error:
        reason = "this user has no home folder; set XDG_STATE_HOME"
        raise DataFolderError("~/.local/state/threadbus", reason) from error


def default_data_folder() -> Path:
    """Return the data folder of a server that a person runs without naming one."""
    return state_folder() / "server"


def read_state(port: int | None = None) -> ServerState | None:
    """Return a running server of this user.

    Args:
        port: None takes the one on the default port, else the one that was started last.

    Returns:
        None if there is none. A file of a server that is gone, or that cannot be read, is none.

    Raises:
        DataFolderError: The user has no home folder.
    """
    folder = state_folder()
    state = _read_living(_state_file(folder, DEFAULT_PORT if port is None else port))
    if state is not None or port is not None:
        return state
    return max(living_servers(), key=lambda state: state.started_at, default=None)


def living_servers() -> list[ServerState]:
    """Return every running server of this user.

    Raises:
        DataFolderError: The user has no home folder.
    """
    files = sorted(state_folder().glob("server-*.json"))[:_MAX_STATE_FILES]
    return [state for state in map(_read_living, files) if state is not None]


def write_state(state: ServerState, port: int) -> None:
    """Make a running server known.

    Raises:
        DataFolderError: The user's state folder is not writable.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(_state_file(folder, port), msgspec.json.encode(state, enc_hook=str) + b"\n")
    except OSError as error:
        raise DataFolderError(str(folder), error.strerror or str(error)) from error


def forget_state(state: ServerState, port: int) -> None:
    """Remove what :func:`write_state` wrote, unless another server has replaced it."""
    path = _state_file(state_folder(), port)
    if _read(path) == state:
        with contextlib.suppress(OSError):
            path.unlink()


def _state_file(folder: Path, port: int) -> Path:
    return folder / f"server-{port}.json"


def _read_living(path: Path) -> ServerState | None:
    state = _read(path)
    if state is None or not is_alive(state.pid):
        return None
    holder = lock_holder(state.data)
    return state if holder is not None and holder.server == state.pid else None


def _to_path(kind: type, value: object) -> Path:
    if kind is not Path or not isinstance(value, str):
        raise TypeError
    return Path(value)


def _read(path: Path) -> ServerState | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_STATE_BYTES)
        return msgspec.json.decode(content, type=ServerState, dec_hook=_to_path)
    except (OSError, msgspec.DecodeError):
        return None
