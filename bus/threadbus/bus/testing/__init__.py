"""A twin of the bus in memory, for the unit tests of those who build on the bus.

``async with connect_in_memory("web", backend=backend) as bus`` gives a bus that behaves as the
real one: one contract suite runs on both. No server is needed, and time passes only by
:meth:`InMemoryBackend.advance`.
"""

from threadbus.bus.testing.backend import (
    InMemoryBackend,
    connect_in_memory,
)

__all__ = [
    "InMemoryBackend",
    "connect_in_memory",
]
