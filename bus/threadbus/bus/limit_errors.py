"""What goes over a limit on how much one agent may say.

BusError
└── AppendError
    └── RateLimitedError                more events than the sender may append
"""

from __future__ import annotations

from threadbus.bus.errors import AppendError


class RateLimitedError(AppendError):
    """The sender appends more than its limit; it would have to wait too long."""

    def __init__(
        self, sender: str, rate: int, burst: int, wait_s: float, longest_s: float, set_by: str
    ) -> None:
        super().__init__(sender, rate, burst, wait_s, longest_s, set_by)
        self.sender = sender
        self.rate = rate
        """Events per second."""
        self.burst = burst
        self.wait_s = wait_s
        self.longest_s = longest_s
        self.set_by = set_by
        """Who set the limit; empty where it comes from the settings."""

    def __str__(self) -> str:
        who = f"set by {self.set_by}" if self.set_by else "from the settings"
        return (
            f"{self.sender} says more than {self.rate:,} events per second, {self.burst:,} at once "
            f"(the limit is {who}): this one would wait {self.wait_s:,.1f} s and "
            f"{self.longest_s:g} s are the most; say less or put several things into one event, "
            f"or have an operator raise it with `bus limits set {self.sender} --events N`"
        )
