"""Whether an IP is one of the public Internet, in every notation, also wrapped into IPv6. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_V4_COMPATIBLE: Final = ipaddress.ip_network("::/96")
# What some versions of Python take for global: assignments of protocols, where some clouds have
# their metadata, documentation, and what was once for sites.
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "64:ff9b:1::/48", "fec0::/10")
)

Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_public(ip: Ip) -> bool:
    """Whether an IP is one of the public Internet, also when it is wrapped into another."""
    inner = unwrapped(ip)
    if inner is not ip:
        return is_public(inner)
    if any(ip in network for network in _NOT_PUBLIC):
        return False
    return ip.is_global and not (
        ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_loopback or ip.is_link_local
    )


def unwrapped(ip: Ip) -> Ip:
    """Return the IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64 or (ip in _V4_COMPATIBLE and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip
