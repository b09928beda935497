"""nkeys: Ed25519 key pairs in the form that NATS has for them."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any, Final

import nkeys  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from threadbus.bus.access.privacy import others_may_use
from threadbus.bus.access_errors import KeyFileError
from threadbus.bus.server.files import write_private
from threadbus.bus.settings import without_seed

_SEED_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 256 * 1024
_CREDENTIALS: Final = b"-----BEGIN NATS USER JWT-----"
_keys: Any = nkeys


class KeyKind(Enum):
    """Whose a key is; NATS writes it into the key."""

    USER = _keys.PREFIX_BYTE_USER
    ACCOUNT = _keys.PREFIX_BYTE_ACCOUNT
    OPERATOR = _keys.PREFIX_BYTE_OPERATOR


def make_key(kind: KeyKind = KeyKind.USER) -> tuple[bytes, str]:
    """Make a key pair; return its seed, which is secret, and its public key."""
    seed: bytes = _keys.encode_seed(os.urandom(_SEED_BYTES), kind.value)
    return seed, public_key(seed)


def public_key(seed: bytes) -> str:
    """Return the public key of a seed."""
    pair = _keys.from_seed(bytearray(seed))
    try:
        return str(pair.public_key.decode())
    finally:
        pair.wipe()


def read_key(path: Path) -> bytes:
    """Return the seed in a file.

    Raises:
        KeyFileError: it cannot be read, or others can read it too.
    """
    try:
        with path.open("rb") as file:
            if others_may_use(file.fileno()):
                raise KeyFileError(str(path), f"others can read it; `chmod 600 {path}`")
            return file.read(_MAX_FILE_BYTES).strip()
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error


def write_key(path: Path, seed: bytes) -> None:
    """Write a seed, or credentials, to a file that only its owner can read (mode 0600)."""
    try:
        # Not parents=True: that makes those above with the usual mode.
        path.parent.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(path, seed + b"\n")
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error


def is_credentials(path: str) -> bool:
    """Whether a file holds credentials of operator mode: a token and the seed."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_CREDENTIALS)) == _CREDENTIALS
    except (OSError, ValueError):
        return False


def check_key_file(path: str) -> None:
    """Check that a file holds the seed of a user and that only its owner can read it.

    Of credentials only the mode of the file is looked at: the server looks at the rest.

    Raises:
        KeyFileError: it does not; says nothing of what it holds.
    """
    shown = without_seed(path)
    try:
        with Path(path).open("rb") as file:
            is_open = others_may_use(file.fileno())
            seed = file.read(_MAX_FILE_BYTES).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise KeyFileError(shown, reason or "no such path") from None
    if is_open:
        raise KeyFileError(shown, f"others can read it; `chmod 600 {shown}`")
    if seed.startswith(_CREDENTIALS):
        return
    if not seed.startswith(b"SU"):
        raise KeyFileError(shown, "it is not the nkey seed of a user, which begins with SU")
    try:
        public_key(seed)
    except Exception:
        # What the library says of it might quote it.
        raise KeyFileError(shown, "it is not a whole nkey seed") from None
