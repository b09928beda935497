#!/opt/threadbus/bin/python

"""Makes the streams and the exporter's bucket, as the operator: nobody else may."""

from __future__ import annotations

import asyncio
import sys

from threadbus.bus import BusError, connect


async def main() -> None:
    """Connect once: that makes the streams."""
    async with connect(name="operator") as bus, bus.consuming("exporter"):
        pass


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except BusError as error:
        sys.exit(f"compose-streams: {error}")
