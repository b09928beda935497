"""Where the card of a remote agent may lead: to the machine it came from, or to a public one.

A card is what somebody else says. Without a bound it could have us send requests to the services
of our own network, and the operator's token in the clear.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from threadbus.agents.tools.net import Address, Ip, resolve, take_apart
from threadbus.gateways.errors import AddressRefusedError, AddressUnknownError
from threadbus.gateways.web.ssrf import Screen, Target

_WANTED = "http://HOST… or https://HOST…"


class Reach:
    """Says where requests for one remote agent may go."""

    def __init__(self, url: str, allowed: Sequence[str] = ()) -> None:
        """Prepare.

        Args:
            url: where the operator says that the agent is.
            allowed: hosts and networks where it may be, too (see :class:`Screen`).

        Raises:
            AddressRefusedError: the address is none.
            InvalidOptionError: an entry is neither a host nor a network.
        """
        self._home = take_apart(url, _WANTED, AddressRefusedError)
        self._screen = Screen(allowed, option="--allow")

    async def check(self, url: str) -> Target | None:
        """Return where a connection has to go to; None where it is the host that was given.

        Raises:
            AddressRefusedError: nothing may be sent there.
            AddressUnknownError: its name cannot be resolved now.

        Cancellation: safe.
        """
        address = take_apart(url, _WANTED, AddressRefusedError)
        if self._home.parts.scheme == "https" and address.parts.scheme != "https":
            raise AddressRefusedError(url, "the agent was given as https")
        if address.host == self._home.host:
            return None
        try:
            return await self._screen.check(url)
        except AddressUnknownError:
            raise
        except AddressRefusedError:
            ip = await self._same_machine(url, address)
            if ip is None:
                raise
            return Target(url, address.host, address.port, str(ip))

    async def _same_machine(self, url: str, address: Address) -> Ip | None:
        """Return an IP of the address where all of them are of the host that was given."""
        theirs = await resolve(url, address, AddressUnknownError)
        home = await resolve(url, self._home, AddressUnknownError)
        # Some cards have the address that their server listens on.
        is_local = all(ip.is_loopback or ip.is_unspecified for ip in theirs)
        if is_local and all(ip.is_loopback for ip in home):
            return ipaddress.ip_address("127.0.0.1") if theirs[0].is_unspecified else theirs[0]
        return theirs[0] if set(theirs) <= set(home) else None
