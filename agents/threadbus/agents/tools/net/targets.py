"""An address taken apart, its name resolved once, and how a connection to a given IP is made.

What its name resolves to later does not matter (DNS rebinding). Whether it may be gone to is for
whoever asks: each has an allow list and errors of its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from threadbus.agents.tools.net.addresses import Ip

MAX_URL_CHARS: Final = 2_048
_PORTS: Final = {"http": 80, "https": 443}
_RESOLVE_S: Final = 5.0


class Address(NamedTuple):
    """Where an ``http`` or ``https`` address leads."""

    parts: SplitResult
    host: str
    """For the certificate, which has to be that of the name."""
    port: int

    def pinned(self, ip: Ip) -> str:
        """Return the same address with *ip* in place of the name."""
        text = f"[{ip}]" if ip.version == 6 else str(ip)
        parts = self.parts
        return urlunsplit((parts.scheme, f"{text}:{self.port}", parts.path or "/", parts.query, ""))

    @property
    def host_header(self) -> str:
        """What ``Host`` says: the name, and the port where it is not the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if _PORTS[self.parts.scheme] == self.port else f"{name}:{self.port}"


def take_apart(url: str, wanted: str, refused: Callable[[str, str], Exception]) -> Address:
    """Take an address apart.

    Args:
        url: the address.
        wanted: what it has to be, for a person, as ``https://HOST…``.
        refused: makes the error, of the address and the reason.

    Raises:
        Exception: what *refused* made.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise refused(url, "it is no URL") from None
    if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url:
        raise refused(url, f"it is not {MAX_URL_CHARS} printable characters at most")
    if parts.scheme not in _PORTS or not host:
        raise refused(url, f"it has to be {wanted}")
    if parts.username is not None or parts.password is not None:
        raise refused(url, "it must not hold a user or a password")
    return Address(parts, host, _PORTS[parts.scheme] if port is None else port)


async def resolve(url: str, address: Address, unknown: Callable[[str, str], Exception]) -> list[Ip]:
    """Return what the name of an address resolves to now, at least one IP.

    Raises:
        Exception: what *unknown* made of the address and the reason.

    Cancellation: safe.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise unknown(url, "its host is not known") from None
    # A zone would make another address of it.
    return [ipaddress.ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]
