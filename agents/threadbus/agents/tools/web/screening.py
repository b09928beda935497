"""Where an agent may go: an address is screened, and the connection goes to the IP that was.

The name is resolved once; what it resolves to later does not matter (DNS rebinding). Every redirect
is screened anew.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from threadbus.agents.tools.errors import AddressNotAllowedError, PageUnreachableError
from threadbus.agents.tools.net import Ip, is_public
from threadbus.agents.tools.web.settings import WebSettings, network_of

MAX_URL_CHARS: Final = 2_048
_PORTS: Final = {"http": 80, "https": 443}
_RESOLVE_S: Final = 5.0


class Target(NamedTuple):
    """An address that was screened, and how a connection to its IP is made."""

    url: str
    pinned: str
    """The same address with the IP in place of the name."""
    host_header: str
    host: str
    """For the certificate, which has to be that of the name."""


async def screen(url: str, settings: WebSettings) -> Target:
    """Screen an address.

    Raises:
        AddressNotAllowedError: an agent may not go there.
        PageUnreachableError: its name cannot be resolved.

    Cancellation: safe.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise AddressNotAllowedError(url, "it is no URL") from None
    if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url:
        raise AddressNotAllowedError(url, f"it is not {MAX_URL_CHARS} printable characters at most")
    if parts.scheme not in _PORTS or not host:
        raise AddressNotAllowedError(url, "it has to be http://HOST… or https://HOST…")
    if parts.username is not None or parts.password is not None:
        raise AddressNotAllowedError(url, "it must not hold a user or a password")
    port = _PORTS[parts.scheme] if port is None else port
    addresses = await _resolve(url, host, port)
    for ip in addresses:
        if not is_public(ip) and not _is_allowed(ip, host, port, settings):
            raise AddressNotAllowedError(
                url,
                "it leads into a network that is not public; "
                "BUS_WEB_ALLOW opens single hosts and networks",
            )
    ip_text = f"[{addresses[0]}]" if addresses[0].version == 6 else str(addresses[0])
    name = f"[{host}]" if ":" in host else host
    return Target(
        urlunsplit((parts.scheme, parts.netloc, parts.path or "/", parts.query, "")),
        urlunsplit((parts.scheme, f"{ip_text}:{port}", parts.path or "/", parts.query, "")),
        name if _PORTS[parts.scheme] == port else f"{name}:{port}",
        host,
    )


def _is_allowed(ip: Ip, host: str, port: int, settings: WebSettings) -> bool:
    for entry in settings.allow:
        network = network_of(entry)
        if network is None and entry.lower() in {host, f"{host}:{port}"}:
            return True
        if network is not None and ip in network:
            return True
    return False


async def _resolve(url: str, host: str, port: int) -> list[Ip]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise PageUnreachableError(url, "its host is not known") from None
    # A zone would make another address of it.
    return [ipaddress.ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]
