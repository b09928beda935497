"""Gateways that turn other protocols into events of the bus and back."""

from threadbus.gateways.errors import GatewayError

__all__ = ["GatewayError"]
