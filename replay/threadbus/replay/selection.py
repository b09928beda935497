"""A part of a run: a thread, an agent, kinds of events, a stretch, what says a text; or several.

A :class:`Selection` says which part; a :class:`Sieve` takes it out of one run. All that is asked
for must be true of an entry. Totals stay those of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from threadbus.replay.bounds import Bound
from threadbus.replay.errors import UnknownFilterError
from threadbus.replay.grep import Grep
from threadbus.replay.source import LogItem
from threadbus.replay.story import Entry, SaidStep, ThreadStory, Timeline, Turn
from threadbus.replay.text import offset, plural
from threadbus.schemas import AgentName, EventId, Recorded

MAX_KINDS: Final = 50
"""Kinds that one selection names at most."""

_MAX_KNOWN_SHOWN: Final = 20
_MAX_TYPES: Final = 200


class Selection(msgspec.Struct, frozen=True):
    """What to show of a run; everything where all of it is empty."""

    thread: str = ""
    agent: str = ""
    kinds: tuple[str, ...] = ()
    """Types of events, or families of types: ``message.posted``, ``message``."""
    start: Bound | None = None
    """From here on, this one included."""
    end: Bound | None = None
    """To here, this one included."""
    grep: str = ""
    """A text that the event must say, capitals aside."""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()

    def arguments(self) -> list[str]:
        """Return the options of the command that ask for the same part."""
        given = [("--thread", self.thread), ("--agent", self.agent)]
        given += [("--kind", kind) for kind in self.kinds]
        given += [
            ("--from", self.start.text if self.start else ""),
            ("--to", self.end.text if self.end else ""),
            ("--grep", self.grep),
        ]
        return [word for option, value in given if value for word in (option, value)]

    def words(self) -> str:
        """Return what was asked for, for a person."""
        named = [
            f"thread {self.thread}" if self.thread else "",
            f"agent {self.agent}" if self.agent else "",
            f"kind {' or '.join(self.kinds)}" if self.kinds else "",
            f"from {self.start.text}" if self.start else "",
            f"to {self.end.text}" if self.end else "",
            f"saying {self.grep!r}" if self.grep else "",
        ]
        return ", ".join([name for name in named if name])


class Sieve:
    """Takes what a selection asks for out of one run, entry by entry, then out of its story.

    Args:
        selection: what is asked for.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.taken = 0
        """Entries of the log so far that belong to the part."""
        self._grep = Grep(selection.grep) if selection.grep else None
        self._start = 0
        self._types: dict[str, None] = {}
        self._by_entry = bool(selection.kinds or selection.start or selection.end or selection.grep)
        self._seqs: set[int] = set()
        self._turns: set[tuple[EventId, AgentName]] = set()

    def takes(self, item: LogItem) -> bool:
        """Whether the next entry of the log belongs to the part.

        Of an agent that is what it says and what mentions it. What cannot be read has a place in
        the log, but neither thread, agent, kind nor words.
        """
        is_taken = self._takes(item)
        self.taken += is_taken
        return is_taken

    def note(self, item: LogItem, entry: Entry | None) -> None:
        """Note what became in the story of an entry that was taken, when the fold has it."""
        if not self._by_entry or entry is None:
            return
        self._seqs.add(item.seq)
        if isinstance(entry, Turn):
            self._turns.add((entry.mention, entry.agent))
        else:
            self._seqs.add(entry.seq)

    def check(self, timeline: Timeline) -> None:
        """Check that the run has what is asked for.

        Raises:
            UnknownFilterError: it has no such thread, agent or kind.
        """
        wanted = self.selection
        if wanted.thread and wanted.thread not in timeline.threads:
            raise UnknownFilterError("thread", wanted.thread, _some(timeline.threads))
        if wanted.agent and wanted.agent not in timeline.agents:
            raise UnknownFilterError("agent", wanted.agent, _some(timeline.agents))
        for kind in wanted.kinds:
            if not any(_is_kind(name, kind) for name in self._types):
                raise UnknownFilterError("kind", kind, _some(sorted(self._types)))

    def of(self, timeline: Timeline) -> Timeline:
        """Return *timeline* with these threads and entries only; its totals are the whole run's.

        Raises:
            UnknownFilterError: the run has no such thread, agent or kind.
        """
        self.check(timeline)
        wanted = self.selection
        if not wanted.thread and not wanted.agent and not self._by_entry:
            return timeline
        threads: dict[str, ThreadStory] = {}
        for name, story in timeline.threads.items():
            if wanted.thread and name != wanted.thread:
                continue
            if not wanted.agent and not self._by_entry:
                threads[name] = story
                continue
            kept = [entry for one in story.entries if (entry := self._part(one)) is not None]
            if kept:
                threads[name] = msgspec.structs.replace(story, entries=kept, left_out_at=0)
        return msgspec.structs.replace(timeline, threads=threads)

    def note_for_person(self, timeline: Timeline) -> str:
        """Return what is shown and what is not, or nothing where all is."""
        if self.selection.is_all:
            return ""
        words = self.selection.words()
        if not self.taken:
            span = offset(timeline.last_at - (timeline.opened_at or timeline.first_at))
            return (
                f"nothing in this run is of {words}; it has sequences up to "
                f"{timeline.last_seq:,}, and lasted {span}"
            )
        whole = timeline.totals.events
        return f"only {words}: {self.taken:,} of {plural(whole, 'event')}; totals are of all"

    def _takes(self, item: LogItem) -> bool:
        wanted = self.selection
        at = item.stored_at
        if isinstance(item, Recorded):
            at = at or item.event.at
            self._start = self._start or at
            if wanted.kinds and len(self._types) < _MAX_TYPES:
                self._types[item.event.type] = None
        if wanted.start is not None and wanted.start.place(item.seq, at, self._start) < 0:
            return False
        if wanted.end is not None and wanted.end.place(item.seq, at, self._start) > 0:
            return False
        if not isinstance(item, Recorded):
            return not (wanted.thread or wanted.agent or wanted.kinds or wanted.grep)
        event = item.event
        if wanted.thread and event.thread != wanted.thread:
            return False
        if wanted.agent and wanted.agent != event.sender and wanted.agent not in event.addressees:
            return False
        if wanted.kinds and not any(_is_kind(event.type, kind) for kind in wanted.kinds):
            return False
        return self._grep is None or self._grep.finds(item)

    def _part(self, entry: Entry) -> Entry | None:
        agent = self.selection.agent
        if agent and entry.agent != agent:
            is_told = isinstance(entry, SaidStep) and agent in entry.to
            if not is_told:
                return None
        if not self._by_entry:
            return entry
        if not isinstance(entry, Turn):
            return entry if entry.seq in self._seqs else None
        steps = [step for step in entry.steps if step.seq in self._seqs]
        is_wanted = entry.seq in self._seqs or (entry.mention, entry.agent) in self._turns
        if not steps and not is_wanted:
            return None
        return msgspec.structs.replace(entry, steps=steps, left_out_steps=0)


def _is_kind(name: str, kind: str) -> bool:
    return name == kind or name.partition(".")[0] == kind


def _some(known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(known)
    hidden = len(names) - _MAX_KNOWN_SHOWN
    return names if hidden <= 0 else (*names[:_MAX_KNOWN_SHOWN], f"and {hidden:,} more")
