"""What the checker says: counts, and each thing that must not be."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

MAX_KEPT: Final = 200
"""Findings whose text is kept; all are counted."""


class Breach(StrEnum):
    """What must hold of every log, whatever was killed, cut, filled up or stopped."""

    LOST = "lost"
    """An event that was acknowledged is not in the log."""
    DOUBLED = "doubled"
    """One event id is in the log more than once."""
    GHOST = "ghost"
    """An event is in the log of which the writer was told that it is not."""
    INVENTED = "invented"
    """A writer whose history is complete never sent it."""
    MOVED = "moved"
    """The log has it elsewhere than the acknowledgement said."""
    REORDERED = "reordered"
    """It was sent after another one was acknowledged, and stands before that one."""
    UNHANDLED = "unhandled"
    """A mention was neither handled nor dead-lettered."""
    ANSWERED_TWICE = "answered-twice"
    """One agent answered one mention with two answers."""
    STRANDED = "stranded"
    """A super-task that has not ended, and that nobody is to go on with."""
    INCOMPLETE = "incomplete"
    """The replay lacks events, has turns that never end, or could not read something."""
    UNSOUND = "unsound"
    """The log breaks a rule that `busreplay verify` checks."""


class Finding(msgspec.Struct, frozen=True):
    """One breach."""

    breach: Breach
    text: str
    task: str = ""


class Verdict(msgspec.Struct, kw_only=True):
    """Everything that was counted and found."""

    sent: int = 0
    """Appends that the histories tell of."""
    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    """Appends whose outcome nobody was told."""
    unknown_found: int = 0
    """Those of them that are in the log after all: each may be, once."""
    found: int = 0
    """Acknowledged events that are in the log exactly once."""
    doubled: int = 0
    events: int = 0
    """Different events in the log."""
    mentions: int = 0
    handled: int = 0
    dead_lettered: int = 0
    ended_badly: int = 0
    """Mentions whose last attempt failed because nobody could be answered any more."""
    tasks: int = 0
    ended: int = 0
    resumable: int = 0
    replayed: int = 0
    """Super-tasks whose replay is complete."""
    breaches: int = 0
    findings: list[Finding] = []

    def add(self, breach: Breach, text: str, task: str = "") -> None:
        """Count a breach, and keep its text if there is room."""
        self.breaches += 1
        if len(self.findings) < MAX_KEPT:
            self.findings.append(Finding(breach, text, task))

    @property
    def kinds(self) -> set[Breach]:
        """Which kinds of breaches there are."""
        return {finding.breach for finding in self.findings}
