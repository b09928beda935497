"""What can go wrong in a gateway.

ThreadbusError                  the root of every error of this project
└── GatewayError                a gateway cannot do what was asked of it
"""

from __future__ import annotations

from threadbus.schemas import ThreadbusError


class GatewayError(ThreadbusError):
    """A gateway cannot do what was asked of it."""
