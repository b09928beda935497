"""Secrets of clients, which may not stand in a log that agents read: sealed with a key of the
gateways."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from threadbus.bus import access
from threadbus.gateways.errors import SealError

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Seal:
    """Seals small JSON objects; only who has the key can open them."""

    def __init__(self, path: Path) -> None:
        """Prepare; nothing is read before :meth:`load`.

        Args:
            path: the key file; made where it does not exist.
        """
        self._path = path
        self._cipher: AESGCM | None = None
        self.name = ""
        """Another one for each key, which it does not tell."""

    def load(self) -> None:
        """Read the key, or make one.

        Raises:
            SealError: the file cannot be used.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                self._make()
            with self._path.open("rb") as file:
                is_open = access.others_may_use(file.fileno())
                key = file.read(_KEY_BYTES + 1)
        except OSError as error:
            raise SealError(str(self._path), error.strerror or str(error)) from error
        if is_open:
            raise SealError(str(self._path), "others may use it")
        if len(key) != _KEY_BYTES:
            raise SealError(str(self._path), f"it has {len(key)} bytes")
        self._cipher = AESGCM(key)
        self.name = hashlib.sha256(b"threadbus.a2a.push" + key).hexdigest()[:8]

    @property
    def path(self) -> str:
        """The key file."""
        return str(self._path)

    def _make(self) -> None:
        """Make a key, whole or not at all; the first of several gateways that start makes it."""
        beside = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            with contextlib.suppress(FileExistsError):
                self._path.hardlink_to(beside)
        finally:
            beside.unlink()

    def seal(self, value: dict[str, Any], about: str) -> str:
        """Return *value* so that nobody else can read it, bound to what it is *about*."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._key.encrypt(nonce, json.dumps(value).encode(), about.encode())
        return base64.b64encode(nonce + sealed).decode()

    def open(self, sealed: str, about: str) -> dict[str, Any]:
        """Return what was sealed.

        Raises:
            SealError: it was sealed with another key, for something else, or was changed.
        """
        try:
            raw = base64.b64decode(sealed, validate=True)
            body = self._key.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], about.encode())
        except (InvalidTag, ValueError) as error:
            raise SealError(str(self._path), "it does not open what was sealed") from error
        return cast("dict[str, Any]", json.loads(body))

    @property
    def _key(self) -> AESGCM:
        if self._cipher is None:
            raise SealError(str(self._path), "it was not read")
        return self._cipher
