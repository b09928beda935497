"""Addresses that somebody else chose: where the gateway may send to, and where never.

An address is screened when it is given, and again each time something is sent: what its name
resolves to may have changed. The connection then goes to the very IP that was screened, so that
nothing can change in between. Private, loopback, link-local, shared and metadata networks are out,
in every notation, also wrapped into IPv6; an allow list opens single hosts or networks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from threadbus.agents.tools.net import Address, Network, is_public, resolve, take_apart
from threadbus.gateways.errors import AddressRefusedError, AddressUnknownError, InvalidOptionError


class Target(NamedTuple):
    """An address that was screened, and the IP that a connection has to go to."""

    url: str
    host: str
    port: int
    ip: str

    @property
    def pinned(self) -> str:
        """The same address with the IP in place of the name."""
        address = Address(urlsplit(self.url), self.host, self.port)
        return address.pinned(ipaddress.ip_address(self.ip))


class Screen:
    """Says which addresses may be sent to."""

    def __init__(self, allowed: Sequence[str] = (), *, option: str = "--push-allow") -> None:
        """Prepare.

        Args:
            allowed: hosts (``hooks.example``, ``hooks.example:8080``) that may have any IP and
                may be reached over http; networks (``10.1.0.0/16``) that may be sent to.
            option: where an operator gives them.

        Raises:
            InvalidOptionError: one is neither.
        """
        self._hosts: set[str] = set()
        self._networks: list[Network] = []
        for entry in allowed:
            try:
                self._networks.append(ipaddress.ip_network(entry))
            except ValueError:
                if not entry or "/" in entry or entry != entry.strip():
                    raise InvalidOptionError(
                        option,
                        entry,
                        "it is a host, host:port, or a network (10.0.0.0/8)",
                    ) from None
                self._hosts.add(entry.lower())

    async def check(self, url: str) -> Target:
        """Screen an address, with what its name resolves to now.

        Raises:
            AddressRefusedError: nothing may be sent there; says why, not what it resolves to.
            AddressUnknownError: its name cannot be resolved now.

        Cancellation: safe.
        """
        address = take_apart(url, "https://HOST…", AddressRefusedError)
        host, port = address.host, address.port
        is_listed = host in self._hosts or f"{host}:{port}" in self._hosts
        addresses = await resolve(url, address, AddressUnknownError)
        for ip in addresses:
            is_open = is_listed or any(ip in network for network in self._networks)
            if not is_open and not is_public(ip):
                raise AddressRefusedError(url, "it leads into a network that is not public")
            if not is_open and address.parts.scheme != "https":
                raise AddressRefusedError(url, "it has to be https")
        return Target(url, host, port, str(addresses[0]))


async def post_pinned(
    http: httpx.AsyncClient, target: Target, body: bytes, headers: Mapping[str, str]
) -> int:
    """Post to the IP that was screened, under the name that was given; return the status.

    Nothing of the answer's body is read, and no redirect is followed.

    Raises:
        httpx.HTTPError: it could not be sent.
    """
    address = Address(urlsplit(target.url), target.host, target.port)
    request = http.build_request(
        "POST",
        target.pinned,
        content=body,
        headers={**headers, "Host": address.host_header},
        # The certificate has to be that of the name, not of the IP.
        extensions={"sni_hostname": target.host},
    )
    response = await http.send(request, stream=True, follow_redirects=False)
    await response.aclose()
    return response.status_code
