"""Who calls a gateway: a bearer token is one principal, and a principal is one agent.

The tokens are in a file that only its owner may read::

    {"tokens": [
      {"token": "…at least 32 characters…", "agent": "ada"},
      {"sha256": "…hash of the token…", "agent": "bob", "principal": "bob@example.org"}
    ]}

Two tokens may name the same agent, so that a token can be changed without a gap; one token never
names two. A file that has changed is read again. While it cannot be read the last good one counts,
and the log says so.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Annotated, Final

import msgspec

from threadbus.bus import SteadyLog, access
from threadbus.gateways.errors import TokensFileError
from threadbus.schemas import AgentName, InvalidNameError, parse_agent_name, shorten

MIN_TOKEN_CHARS: Final = 32
"""Characters of a token: fewer can be guessed."""

MAX_TOKEN_CHARS: Final = 1024
MAX_TOKENS: Final = 10_000
_MAX_BYTES: Final = 4 * 1024 * 1024
_SHA256: Final = r"^[0-9a-f]{64}\Z"
_MAKE_ONE: Final = "`bus gateway token AGENT --tokens FILE` writes one"
_log: Final = SteadyLog("threadbus.gateways")


class Principal(msgspec.Struct, frozen=True):
    """Whoever is behind a token."""

    name: str
    """The principal, for logs and for what belongs to somebody; the agent's name when not given."""
    agent: AgentName
    """Under which name it is on the bus."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    agent: str
    token: str = ""
    sha256: Annotated[str, msgspec.Meta(pattern=_SHA256)] | None = None
    principal: Annotated[str, msgspec.Meta(max_length=256)] = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: Annotated[list[_Entry], msgspec.Meta(max_length=MAX_TOKENS)]


class Principals:
    """The principals of a gateway."""

    def __init__(self, path: Path) -> None:
        """Prepare; nothing is read before :meth:`load` or :meth:`find`.

        Args:
            path: the tokens file.
        """
        self._path = path
        self._known: dict[bytes, Principal] = {}
        self._version: tuple[int, ...] = ()

    @property
    def agents(self) -> frozenset[AgentName]:
        """The agents that tokens stand for, as of the last reading."""
        return frozenset(principal.agent for principal in self._known.values())

    def load(self) -> None:
        """Read the file.

        Raises:
            TokensFileError: it cannot be used; says what is wrong and never a token.
        """
        version, body = _read(self._path)
        self._known = _parse(self._path, body)
        self._version = version

    def find(self, token: str) -> Principal | None:
        """Return whose *token* it is, None where it is nobody's.

        The time it takes does not tell how much of a token was right.
        """
        self._refresh()
        if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_CHARS:
            return None
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found: Principal | None = None
        for known, principal in self._known.items():
            if hmac.compare_digest(known, digest):
                found = principal
        return found

    def _refresh(self) -> None:
        try:
            if _version(self._path.stat()) == self._version:
                return
            self.load()
        except TokensFileError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{self._path}: {error.strerror}"
        else:
            return
        _log.error("the tokens file is not usable, the last good one counts", reason=problem)


def add_token(path: Path, agent: str, principal: str = "") -> str:
    """Make a token for *agent*, add its hash to the file, and return the token.

    Args:
        path: the tokens file; made, readable by its owner only, where it does not exist.
        agent: the agent's canonical name.
        principal: who it is, where that is more than the agent's name.

    Raises:
        InvalidNameError: the agent's name is outside the grammar.
        TokensFileError: the file cannot be used or written.
    """
    name = parse_agent_name(agent)
    entries: list[_Entry] = []
    if path.exists():
        _, body = _read(path)
        _parse(path, body)
        entries = msgspec.json.decode(body, type=_File).tokens
    token = secrets.token_urlsafe(32)
    entries.append(
        _Entry(agent=name, sha256=hashlib.sha256(token.encode()).hexdigest(), principal=principal)
    )
    written = msgspec.json.format(msgspec.json.encode(_File(entries)), indent=2)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(written + b"\n")
        beside.replace(path)
    except OSError as error:
        raise TokensFileError(
            str(path), f"cannot be written ({error.strerror})", "choose another path"
        ) from error
    return token


def _read(path: Path) -> tuple[tuple[int, ...], bytes]:
    try:
        with path.open("rb") as file:
            # The file that is open is looked at, not whatever has the path a moment later.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise TokensFileError(str(path), "is not a file", _MAKE_ONE)
            if access.others_may_use(file.fileno()):
                raise TokensFileError(
                    str(path),
                    f"others may use it (mode {stat.S_IMODE(status.st_mode):04o})",
                    f"`chmod 600 {path}`, and change its tokens if others could read them",
                )
            body = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise TokensFileError(str(path), f"cannot be read ({error.strerror})", _MAKE_ONE) from error
    if len(body) > _MAX_BYTES:
        raise TokensFileError(str(path), f"has more than {_MAX_BYTES:,} bytes", "remove old tokens")
    return _version(status), body


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def _parse(path: Path, body: bytes) -> dict[bytes, Principal]:
    try:
        entries = msgspec.json.decode(body, type=_File).tokens
    except (msgspec.DecodeError, RecursionError) as error:
        # Messages of msgspec name places and types, and no values.
        raise TokensFileError(str(path), f"is not valid ({error})", _MAKE_ONE) from None
    if not entries:
        raise TokensFileError(str(path), "holds no token", _MAKE_ONE)
    known: dict[bytes, Principal] = {}
    for number, entry in enumerate(entries):
        where = f"tokens[{number}]"
        try:
            agent = parse_agent_name(entry.agent)
        except InvalidNameError as error:
            raise TokensFileError(str(path), f"{where}: {error}", "correct the name") from None
        digest = _digest(path, where, entry)
        principal = Principal(shorten(entry.principal, 256) or agent, agent)
        if digest in known:
            raise TokensFileError(
                str(path), f"{where}: the same token stands there twice", "one token, one agent"
            )
        known[digest] = principal
    return known


def _digest(path: Path, where: str, entry: _Entry) -> bytes:
    if bool(entry.token) == (entry.sha256 is not None):
        raise TokensFileError(
            str(path), f"{where}: needs either token or sha256", "leave one of them out"
        )
    if entry.sha256 is not None:
        return bytes.fromhex(entry.sha256)
    if not MIN_TOKEN_CHARS <= len(entry.token) <= MAX_TOKEN_CHARS:
        raise TokensFileError(
            str(path),
            f"{where}: a token of {len(entry.token)} characters",
            f"a token has {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS:,}; {_MAKE_ONE}",
        )
    return hashlib.sha256(entry.token.encode("utf-8", "surrogatepass")).digest()
