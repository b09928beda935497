"""What is found in a run, for its root span: the detectors of busreplay, fed entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from threadbus.replay.finding import Finding
from threadbus.replay.source import LogItem
from threadbus.replay.timeline import TimelineFold

MAX_EXAMINED_EVENTS: Final = 200_000
"""Entries of a run at most for findings to be looked for: they need the whole story in memory."""


class Examiner(Protocol):
    """Looks at one run."""

    def apply(self, item: LogItem) -> object:
        """Take the next entry of the log."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Say what was found; called once."""
        ...


Examine: TypeAlias = Callable[[], Examiner]
"""Makes an examiner, one for each run."""


class RunExaminer:
    """The detectors with their default settings."""

    def __init__(self) -> None:
        # They take a while to import, and a trace without them does not need them.
        from threadbus.replay.findings import Analyser

        self._story = TimelineFold()
        self._analyser = Analyser()

    def apply(self, item: LogItem) -> None:
        """Take the next entry of the log."""
        self._story.apply(item)
        self._analyser.apply(item)

    def findings(self) -> Sequence[Finding]:
        """Say what was found; what is open is as old as the last entry makes it."""
        timeline = self._story.timeline
        return self._analyser.finish(timeline, timeline.last_at).findings


class Bounded:
    """An examiner, or none, that gives a run up which is too long."""

    def __init__(self, examine: Examine | None) -> None:
        self._examiner = None if examine is None else examine()
        self._count = 0

    def apply(self, item: LogItem) -> None:
        """Take the next entry of the log."""
        self._count += 1
        if self._count > MAX_EXAMINED_EVENTS:
            self._examiner = None
        if self._examiner is not None:
            self._examiner.apply(item)

    def findings(self) -> Sequence[Finding]:
        """Say what was found; nothing where nobody looked to the end."""
        examiner, self._examiner = self._examiner, None
        return () if examiner is None else examiner.findings()
