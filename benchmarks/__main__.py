"""Every benchmark, in one table."""

from __future__ import annotations

from benchmarks import append, idle, mcp_gateway, reading, round_trip
from benchmarks.options import main

if __name__ == "__main__":
    main(
        "Measure threadbus against plain nats-py.",
        [
            append.measure,
            round_trip.measure,
            reading.measure,
            idle.measure,
            mcp_gateway.measure,
        ],
    )
