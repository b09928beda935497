"""Every setting of the bus in one table: a flag, an environment variable and a default each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self, TypeAlias

from threadbus.bus.errors import BusError
from threadbus.schemas import MAX_PART_BYTES_INLINE, MAX_PARTITIONS, parse_agent_name, shorten

Parser: TypeAlias = Callable[[str], Any]


class InvalidSettingError(BusError, ValueError):
    """A setting has a value that it cannot take."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        super().__init__(name, value, expected)
        self.name = name
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.name}={shorten(self.value)!r} is not valid: {self.expected}"


def _seconds(text: str) -> timedelta:
    value = float(text)
    if not 0 < value <= 86_400 * 365:
        raise ValueError(text)
    return timedelta(seconds=value)


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError(text)
    return value


def _limit(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 2**53:
        raise ValueError(text)
    return value


def _spread(text: str) -> int:
    value = int(text)
    if not 0 <= value <= MAX_PARTITIONS:
        raise ValueError(text)
    return value


_TIME: Final[tuple[Parser, str]] = (_seconds, "a number of seconds above 0")
_COUNT: Final[tuple[Parser, str]] = (_positive, "a whole number above 0")
_LIMIT: Final[tuple[Parser, str]] = (_limit, "a whole number; 0 for no limit")
_SPREAD: Final[tuple[Parser, str]] = (_spread, f"a whole number up to {MAX_PARTITIONS}")
_MAX_APPEND_TIMEOUT: Final = timedelta(seconds=100)


@dataclass(frozen=True)
class SettingInfo:
    """One line of the table."""

    attribute: str
    flag: str
    help: str
    parse: Parser = str
    expected: str = "text"

    @property
    def env(self) -> str:
        """The environment variable: the flag in capitals after ``BUS_``."""
        return "BUS_" + self.flag.removeprefix("--").replace("-", "_").upper()


_NAME: Final = (
    "an agent name is 1 to 63 characters, a-z, 0-9, '_' and '-', starting with a letter or digit"
)

SETTINGS: Final = (
    SettingInfo("url", "--url", "Where the NATS server is."),
    SettingInfo("name", "--as", "Who speaks: an agent name.", parse_agent_name, _NAME),
    SettingInfo("credentials", "--creds", "File with NATS credentials (JWT and nkey)."),
    SettingInfo("nkey", "--nkey", "File with a NATS nkey seed, or with credentials."),
    SettingInfo("tls_ca", "--tls-ca", "File of certificates (PEM) that vouch for the server."),
    SettingInfo("tls_cert", "--tls-cert", "File with the client's own certificate (PEM)."),
    SettingInfo("tls_key", "--tls-key", "File with the key of --tls-cert (PEM)."),
    SettingInfo("connect_timeout", "--connect-timeout", "Time for a server to answer.", *_TIME),
    SettingInfo(
        "append_timeout",
        "--append-timeout",
        "Time for an append to be acknowledged, over all its retries; at most 100 s.",
        *_TIME,
    ),
    SettingInfo(
        "drain_timeout", "--drain-timeout", "Time that unfinished work gets at a stop.", *_TIME
    ),
    SettingInfo(
        "ack_wait",
        "--ack-wait",
        "Time after which the mention of a dead agent goes to another replica.",
        *_TIME,
    ),
    SettingInfo(
        "presence_ttl",
        "--presence-ttl",
        "Time without a heartbeat after which an agent counts as gone.",
        *_TIME,
    ),
    SettingInfo("replicas", "--copies", "Servers that keep a copy of each new stream.", *_COUNT),
    SettingInfo(
        "partitions",
        "--partitions",
        "Streams that the log of a new bus is spread over; 0 takes it as it is.",
        *_SPREAD,
    ),
    SettingInfo(
        "inboxes",
        "--inboxes",
        "Streams that the inboxes of a new bus are spread over; 0 takes them as they are.",
        *_SPREAD,
    ),
    SettingInfo(
        "part_max_bytes",
        "--part-max-bytes",
        "Bytes of one part kept in the event; a larger one goes to the object store.",
        *_COUNT,
    ),
    SettingInfo("artifact_max_bytes", "--artifact-max-bytes", "Bytes of one artifact.", *_COUNT),
    SettingInfo("pending_max", "--pending-max", "Appends that may await their answer.", *_COUNT),
    SettingInfo(
        "events_per_second",
        "--events-per-second",
        "Events that one sender may append, on average; more of them wait. 0: no limit.",
        *_LIMIT,
    ),
    SettingInfo(
        "burst", "--burst", "Events that it may append at once after a quiet time.", *_COUNT
    ),
    SettingInfo(
        "mentions_per_minute",
        "--mentions-per-minute",
        "Mentions by one sender in one super-task that an agent answers. 0: no limit.",
        *_LIMIT,
    ),
    SettingInfo(
        "exchange",
        "--exchange",
        "Messages between two agents before anything else has to come of it. 0: no limit.",
        *_LIMIT,
    ),
)
"""Every setting: its attribute, flag, environment variable and meaning."""


@dataclass(frozen=True, kw_only=True)
class BusSettings:
    """How to reach the server, and the bounds that the client keeps."""

    url: str = "nats://127.0.0.1:4222"
    name: str = "user"
    credentials: str = ""
    nkey: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    connect_timeout: timedelta = timedelta(seconds=3)
    append_timeout: timedelta = timedelta(seconds=30)
    drain_timeout: timedelta = timedelta(seconds=10)
    ack_wait: timedelta = timedelta(seconds=30)
    presence_ttl: timedelta = timedelta(seconds=15)
    replicas: int = 1
    partitions: int = 0
    """Streams of the log; 0 takes them as they are, and makes one."""
    inboxes: int = 0
    """Streams of the inboxes; 0 takes them as they are, and makes one."""
    part_max_bytes: int = MAX_PART_BYTES_INLINE
    artifact_max_bytes: int = 256 * 1024 * 1024
    pending_max: int = 4096
    events_per_second: int = 200
    burst: int = 10_000
    mentions_per_minute: int = 6_000
    exchange: int = 100

    def __post_init__(self) -> None:
        for name in ("partitions", "inboxes"):
            value = getattr(self, name)
            if not 0 <= value <= MAX_PARTITIONS:
                raise InvalidSettingError(name, str(value), _SPREAD[1])
        # A retry after the server has forgotten the id would be stored a second time.
        if self.append_timeout > _MAX_APPEND_TIMEOUT:
            raise InvalidSettingError(
                "append_timeout", _show(self.append_timeout), "at most 100 seconds"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: str | None) -> Self:
        """Build settings from ``BUS_…`` variables and, above them, from *overrides*.

        Args:
            environ: the environment; the process's own when absent.
            overrides: attribute names with the text a person typed; ``None`` means not given.

        Raises:
            InvalidSettingError: a value cannot be taken; names it and what is expected.
        """
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for info in SETTINGS:
            text, name = overrides.get(info.attribute), info.flag
            if text is None:
                text, name = source.get(info.env), info.env
            if text is None or text == "":
                continue
            try:
                values[info.attribute] = info.parse(text)
            except ValueError as error:
                raise InvalidSettingError(name, text, info.expected) from error
        return cls(**values)

    def shown(self) -> dict[str, str]:
        """Return each setting as text for a person, durations in seconds."""
        return {info.attribute: _show(getattr(self, info.attribute)) for info in SETTINGS}


def without_seed(text: str) -> str:
    """Return *text* without nkey seeds: somebody gives one where its file was meant."""
    return re.sub(r"S[A-Z][A-Z2-7]{40,}", "S…", text)


def shown_url(url: str) -> str:
    """Return a URL, or a list of them, without what may be a password or a token."""
    return re.sub(r"(^|,|//)[^/,@]*@", r"\1…@", url)


def _show(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    return without_seed(str(value))
