"""What can be set on an embedded server, and the configuration file that says so to it.

The file is JSON, which nats-server reads as its own format: nothing that comes from outside can
break out of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from threadbus.bus.server_errors import DataFolderError, InvalidServerSettingError

DEFAULT_PORT: Final = 4222
"""The port of a NATS server that a person runs."""

MAX_CONSUMERS: Final = 10_000
"""Consumers a stream; what nats-server 2.15 allows by itself is 1,000."""

_KIB: Final = 1024
_MAX_PORT: Final = 65_535
_MAX_PAYLOAD_BYTES: Final = 64 * _KIB * _KIB
_MAX_STORE_BYTES: Final = 1 << 60
_LOG_BYTES: Final = 16 * _KIB * _KIB
_LOG_FILES: Final = 3
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)
_WILDCARDS: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound

_Json: TypeAlias = "Mapping[str, _Json] | str | int"

ACCESS_LINK: Final = "access.conf"
"""The name under which a data folder has the accounts, a link to :attr:`ServerSettings.access`."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and options of an embedded server; ``None`` leaves the choice to nats-server.

    Raises:
        InvalidServerSettingError: A value is outside its bounds.
    """

    name: str = "threadbus"
    """The server's name, shown by clients and in the log."""
    monitor_port: int | None = None
    """Port of the HTTP monitoring page on the same host; 0 takes a free one, None has no page."""
    max_payload_bytes: int = _KIB * _KIB
    """Largest message, headers counted; 1 KiB to 64 MiB."""
    max_memory_store_bytes: int | None = None
    """What all streams in memory may take together."""
    max_file_store_bytes: int | None = None
    """What all streams on disk may take together; beyond it publishing is refused."""
    max_consumers: int = MAX_CONSUMERS
    """Consumers that one stream may have, so agents that may share one work queue."""
    sync_interval: timedelta | Literal["always"] | None = None
    """How often written data is forced to the disk: "always" is before each acknowledgement.

    None is the server's own default, two minutes in 2.15. A killed server loses nothing either
    way; this is about a machine that loses power.
    """
    access: Path | None = None
    """File of accounts (``AccessFolder.config``): only who has a key in it is let in."""
    tls_cert: Path | None = None
    """File with the server's certificate (PEM); with *tls_key* it takes TLS connections only."""
    tls_key: Path | None = None
    """File with the key of *tls_cert* (PEM)."""
    tls_ca: Path | None = None
    """File with certificates (PEM): a client must have one that they vouch for (mutual TLS)."""
    max_pending_bytes: int | None = None
    """Bytes that may wait for one client that does not read; beyond it is cut off."""
    max_subscriptions: int | None = None
    """Subscriptions of one connection."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidServerSettingError(
                "name", repr(self.name), "1 to 63 of A-Z, a-z, 0-9, '.', '_' and '-'"
            )
        if self.monitor_port is not None:
            _check("monitor_port", self.monitor_port, 0, _MAX_PORT)
        _check("max_payload_bytes", self.max_payload_bytes, _KIB, _MAX_PAYLOAD_BYTES)
        for setting, value in (
            ("max_memory_store_bytes", self.max_memory_store_bytes),
            ("max_file_store_bytes", self.max_file_store_bytes),
        ):
            if value is not None:
                _check(setting, value, 1, _MAX_STORE_BYTES)
        _check("max_consumers", self.max_consumers, 1, 1_000_000)
        if self.max_pending_bytes is not None:
            _check("max_pending_bytes", self.max_pending_bytes, _KIB, _MAX_STORE_BYTES)
        if self.max_subscriptions is not None:
            _check("max_subscriptions", self.max_subscriptions, 1, 100_000_000)
        if (self.tls_cert is None) != (self.tls_key is None) or (
            self.tls_ca is not None and self.tls_cert is None
        ):
            raise InvalidServerSettingError(
                "tls_cert", str(self.tls_cert), "given together with tls_key; tls_ca needs both"
            )
        if isinstance(self.sync_interval, timedelta) and not (
            timedelta(milliseconds=1) <= self.sync_interval <= timedelta(hours=1)
        ):
            raise InvalidServerSettingError(
                "sync_interval", str(self.sync_interval), "1 millisecond to 1 hour, or 'always'"
            )


def _check(setting: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidServerSettingError(setting, str(value), f"from {least:,} to {most:,}")


def check_address(host: str, port: int) -> None:
    """Raise InvalidServerSettingError unless *host* and *port* can be listened on."""
    if not _HOST.fullmatch(host):
        raise InvalidServerSettingError(
            "host", repr(host), "a host name or an address without brackets, as 127.0.0.1 or ::1"
        )
    _check("port", port, 0, _MAX_PORT)


def reachable_host(host: str) -> str:
    """Return the host to connect to for a server that listens on *host*."""
    return _WILDCARDS.get(host, host)


def server_url(host: str, port: int, scheme: str = "nats") -> str:
    """Return the URL to connect to for a server that listens on *host* and *port*."""
    reachable = reachable_host(host)
    bracketed = f"[{reachable}]" if ":" in reachable else reachable
    return f"{scheme}://{bracketed}:{port}"


def render_config(
    settings: ServerSettings, *, host: str, port: int, data: Path, log: Path, ports: Path
) -> bytes:
    """Return the configuration file of a server.

    Args:
        settings: Limits and options.
        host: Where to listen.
        port: Where to listen; 0 lets the server take a free port.
        data: Folder of the streams.
        log: The log file; turned over at 16 MiB, three are kept.
        ports: Folder where the server says which ports it took.

    Raises:
        DataFolderError: A path cannot be written down, as it is not UTF-8 or has control
            characters.
    """
    jetstream: dict[str, _Json] = {
        "store_dir": str(data),
        "limits": {"default_max_consumers": settings.max_consumers},
    }
    if settings.max_memory_store_bytes is not None:
        jetstream["max_memory_store"] = settings.max_memory_store_bytes
    if settings.max_file_store_bytes is not None:
        jetstream["max_file_store"] = settings.max_file_store_bytes
    if isinstance(settings.sync_interval, timedelta):
        jetstream["sync_interval"] = f"{settings.sync_interval // timedelta(milliseconds=1)}ms"
    elif settings.sync_interval is not None:
        jetstream["sync_interval"] = settings.sync_interval
    config: dict[str, _Json] = {
        "server_name": settings.name,
        "host": host,
        "port": port or -1,
        "max_payload": settings.max_payload_bytes,
        "log_file": str(log),
        "logfile_size_limit": _LOG_BYTES,
        "logfile_max_num": _LOG_FILES,
        "ports_file_dir": str(ports),
        # Subjects here hold ids: the server would seldom find one again among those that it
        # keeps, and looks through them all at each subscription. Measured on a round trip.
        "disable_sublist_cache": True,
        "jetstream": jetstream,
    }
    if settings.monitor_port is not None:
        bracketed = f"[{host}]" if ":" in host else host
        config["http"] = f"{bracketed}:{settings.monitor_port or -1}"
    if settings.max_pending_bytes is not None:
        config["max_pending"] = settings.max_pending_bytes
    if settings.max_subscriptions is not None:
        config["max_subscriptions"] = settings.max_subscriptions
    tls = {
        name: str(path.absolute())
        for name, path in (
            ("cert_file", settings.tls_cert),
            ("key_file", settings.tls_key),
            ("ca_file", settings.tls_ca),
        )
        if path is not None
    }
    if tls:
        config["tls"] = {**tls, "verify": settings.tls_ca is not None}
    for path in (str(data), *tls.values()):
        if not path.isprintable():
            raise DataFolderError(path, "its path has control characters or is not UTF-8")
    content = json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n"
    if settings.access is not None:
        content += b'include "%b"\n' % ACCESS_LINK.encode()
    return content
