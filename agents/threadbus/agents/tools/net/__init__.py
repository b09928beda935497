"""Addresses of the network that somebody else chose: which are public, and how to reach them."""

from threadbus.agents.tools.net.addresses import Ip, Network, is_public, unwrapped
from threadbus.agents.tools.net.targets import MAX_URL_CHARS, Address, resolve, take_apart

__all__ = [
    "MAX_URL_CHARS",
    "Address",
    "Ip",
    "Network",
    "is_public",
    "resolve",
    "take_apart",
    "unwrapped",
]
