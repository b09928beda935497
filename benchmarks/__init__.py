"""What threadbus costs, as ratios to plain nats-py measured in the same run.

    python -m benchmarks                 everything, one table
    python -m benchmarks.append          guarded appends against plain publishes
    python -m benchmarks.round_trip      ask an agent and be woken by its answer
    python -m benchmarks.reading         read a super-task out of a log
    python -m benchmarks.idle            what an idle agent costs

A ratio is taken within one round, where the two sides run one after the other, and the order of
the two changes from round to round; a table shows the median of the rounds, and the least and the
greatest. Each program starts a nats-server of its own and stops it at the end.
"""

import os

# By any measure a benchmark is an agent that runs away; its processes inherit this. Not 0, which
# would spare it what a limit costs.
for _limit in ("EVENTS_PER_SECOND", "BURST", "MENTIONS_PER_MINUTE", "EXCHANGE"):
    os.environ.setdefault(f"BUS_{_limit}", "1000000000")
