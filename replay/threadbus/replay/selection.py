"""A part of a run: one thread, or one agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from threadbus.replay.errors import UnknownFilterError
from threadbus.replay.source import LogItem
from threadbus.replay.story import Entry, SaidStep, Timeline
from threadbus.schemas import Recorded

_MAX_KNOWN_SHOWN: Final = 20


class Selection(msgspec.Struct, frozen=True):
    """What to show of a run; everything where both are empty."""

    thread: str = ""
    agent: str = ""

    def takes(self, item: LogItem) -> bool:
        """Whether an entry of the log belongs to the part.

        Of an agent that is what it says and what mentions it. What cannot be read belongs to the
        whole run only.
        """
        if not self.thread and not self.agent:
            return True
        if not isinstance(item, Recorded):
            return False
        event = item.event
        if self.thread and event.thread != self.thread:
            return False
        return not self.agent or self.agent == event.sender or self.agent in event.addressees

    def check(self, timeline: Timeline) -> None:
        """Check that the run has what is asked for.

        Raises:
            UnknownFilterError: it has no such thread, or no such agent.
        """
        if self.thread and self.thread not in timeline.threads:
            raise UnknownFilterError("thread", self.thread, _some(timeline.threads))
        if self.agent and self.agent not in timeline.agents:
            raise UnknownFilterError("agent", self.agent, _some(timeline.agents))

    def of(self, timeline: Timeline) -> Timeline:
        """Return *timeline* with these threads and entries only; its totals are the whole run's.

        Raises:
            UnknownFilterError: the run has no such thread, or no such agent.
        """
        self.check(timeline)
        if not self.thread and not self.agent:
            return timeline
        threads = {
            name: story
            for name, story in timeline.threads.items()
            if not self.thread or name == self.thread
        }
        if self.agent:
            threads = {
                name: msgspec.structs.replace(story, entries=kept)
                for name, story in threads.items()
                if (kept := [entry for entry in story.entries if self._is_of_agent(entry)])
            }
        return msgspec.structs.replace(timeline, threads=threads)

    def _is_of_agent(self, entry: Entry) -> bool:
        return entry.agent == self.agent or (isinstance(entry, SaidStep) and self.agent in entry.to)


def _some(known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(known)
    hidden = len(names) - _MAX_KNOWN_SHOWN
    return names if hidden <= 0 else (*names[:_MAX_KNOWN_SHOWN], f"and {hidden:,} more")
