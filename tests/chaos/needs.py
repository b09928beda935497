"""What a scenario needs of the machine."""

from __future__ import annotations

from threadbus.schemas import ThreadbusError


class MissingError(ThreadbusError):
    """The machine lacks what a scenario needs."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this machine has no {self.what}"
