"""Gateways that turn other protocols into events of the bus and back."""

__all__: list[str] = []
