"""Addresses of the network that somebody else chose: which of them are public."""

from threadbus.agents.tools.net.addresses import Ip, Network, is_public, unwrapped

__all__ = ["Ip", "Network", "is_public", "unwrapped"]
