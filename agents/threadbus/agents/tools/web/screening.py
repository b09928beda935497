"""Where an agent may go: an address is screened, and the connection goes to the IP that was.

The name is resolved once; what it resolves to later does not matter (DNS rebinding). Every redirect
is screened anew.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlunsplit

from threadbus.agents.tools.net import Ip, is_public, resolve, take_apart
from threadbus.agents.tools.web.settings import WebSettings, network_of
from threadbus.agents.tools.web_errors import AddressNotAllowedError, PageUnreachableError


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
    address = take_apart(url, "http://HOST… or https://HOST…", AddressNotAllowedError)
    addresses = await resolve(url, address, PageUnreachableError)
    for ip in addresses:
        if not is_public(ip) and not _is_allowed(ip, address.host, address.port, settings):
            raise AddressNotAllowedError(
                url,
                "it leads into a network that is not public; "
                "BUS_WEB_ALLOW opens single hosts and networks",
            )
    parts = address.parts
    return Target(
        urlunsplit((parts.scheme, parts.netloc, parts.path or "/", parts.query, "")),
        address.pinned(addresses[0]),
        address.host_header,
        address.host,
    )


def _is_allowed(ip: Ip, host: str, port: int, settings: WebSettings) -> bool:
    for entry in settings.allow:
        network = network_of(entry)
        if network is None and entry.lower() in {host, f"{host}:{port}"}:
            return True
        if network is not None and ip in network:
            return True
    return False
