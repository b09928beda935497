#!/opt/threadbus/bin/python

"""Health check of an agent's container: 0 when NAME has a heartbeat that this host sent.

    agent-healthy NAME

The bus is that of the environment, as for the agent: BUS_URL, BUS_NKEY, ... The heartbeat of
another replica does not count.
"""

from __future__ import annotations

import asyncio
import socket
import sys

from threadbus.bus import BusError, connect


async def main(name: str) -> int:
    """Look once."""
    try:
        # Under the agent's name: its key is good for that one only.
        async with asyncio.timeout(8), connect(name=name) as bus:
            beats = await bus.registry.presence(name)
    except (BusError, TimeoutError) as error:
        sys.stdout.write(f"no look at the bus: {error}\n")
        return 1
    host = socket.gethostname()
    for beat in beats:
        if beat.host == host:
            sys.stdout.write(f"{name} is {beat.state}\n")
            return 0
    sys.stdout.write(f"{name} has no heartbeat from {host}; {len(beats)} from others\n")
    return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
