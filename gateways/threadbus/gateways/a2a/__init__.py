"""A2A: every bus agent is an A2A agent, every A2A agent can join the bus."""

import os

# The library looks at it once, when it is imported. It would make dozens of empty spans of each
# request; the spans of a task are computed from the log.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
