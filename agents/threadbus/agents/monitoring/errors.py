"""What can go wrong with metrics.

AgentError
└── MonitoringError
    ├── MetricsMissingError     the extra ``metrics`` is not installed
    ├── CountsFileError         the file of --state cannot be used
    └── CannotListenError       the address of --http cannot be listened on
"""

from __future__ import annotations

from threadbus.agents.errors import AgentError


class MonitoringError(AgentError):
    """Metrics cannot be had."""


class MetricsMissingError(MonitoringError):
    """The library that writes the format of Prometheus is not installed."""

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module

    def __str__(self) -> str:
        return (
            f"{self.module} is not installed; install the extra: pip install 'threadbus[metrics]'"
        )


class CountsFileError(MonitoringError, OSError):
    """The file that keeps the counters cannot be read or written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the counters in {self.path} cannot be used ({self.reason}); name another file with "
            "--state, or take it away: the log is then counted anew"
        )


class CannotListenError(MonitoringError, OSError):
    """Nothing can be served at the address."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot serve metrics at {self.address} ({self.reason}); give another --http"
