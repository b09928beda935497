"""What a form needs to know beside the run."""

from __future__ import annotations

import shlex

import msgspec

from threadbus.replay.selection import Selection
from threadbus.replay.story import Timeline


class FormOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a form needs to know beside the run."""

    selection: Selection = Selection()
    """The part of the run that is shown."""
    now: int = 0
    """Nanoseconds since the epoch, for the age of what is open."""

    def part(self) -> str:
        """Return which part of the run is shown, for a person; empty where it is all of it."""
        return self.selection.words()

    def command(self, timeline: Timeline, form: str) -> str:
        """Return the command that shows the same part of *timeline* in another form."""
        words = ["busreplay", timeline.task or "TASK"]
        words += self.selection.arguments()
        if form != "tree":
            words += ("--format", form)
        return shlex.join(words)
