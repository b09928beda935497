"""How the story of a very long run stays small: what is settled and old is counted, not kept.

When a story holds more than ``most`` turns and steps, it is cut to half of that. What is kept are
the first turns and steps, the newest, and, of those between, the turns that failed or are open,
with their failures. Every total goes on counting everything. Ids of what is gone are kept as
hashes, so that a repeated event still counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from threadbus.replay.story import (
    AnyStep,
    Entry,
    FailureStep,
    ThreadStory,
    Timeline,
    Turn,
    TurnOutcome,
)
from threadbus.replay.turns import TurnIndex
from threadbus.schemas import EventId

MAX_KEPT: Final = 150_000
"""Turns and steps that a story that is shown holds at most."""

FIRST_KEPT: Final = 2_000
"""Of these, the first ones of the run that stay."""

TROUBLE_KEPT: Final = 5_000
"""Failed and open turns between the first and the newest ones that stay."""

RECORDS_KEPT: Final = 5_000
"""Assignments, questions, proposals, artifacts and answers that stay, of each."""

_TURN_STEPS_KEPT: Final = 20
_OVER: Final = frozenset({"finished", "failed", "cancelled"})


class Condenser:
    """Keeps a timeline small.

    Args:
        timeline: the story, changed in place.
        index: what is known of its events; forgets what goes.
        most: turns and steps that are held at most; without it nothing is ever left out.
    """

    def __init__(self, timeline: Timeline, index: TurnIndex, most: int | None) -> None:
        self.held = 0
        """Turns and steps that the story holds; whoever adds one counts it here."""
        self._timeline = timeline
        self._index = index
        self._most = most
        self._first_seq: int | None = None
        self._trouble = 0

    @property
    def is_due(self) -> bool:
        """Whether the story holds too much."""
        return self._most is not None and self.held > self._most

    def condense(self) -> int:
        """Leave out what is old and settled.

        Returns:
            The sequence before which events are forgotten.
        """
        cutoff = self._cutoff((self._most or 0) // 2)
        self.held = 0
        self._trouble = 0
        for story in self._timeline.threads.values():
            self._condense_thread(story, cutoff)
        self._index.forget_before(cutoff)
        self._condense_records()
        return cutoff

    def _cutoff(self, target: int) -> int:
        seqs: list[int] = []
        for story in self._timeline.threads.values():
            for entry in story.entries:
                seqs.append(entry.seq)
                if isinstance(entry, Turn):
                    seqs.extend([step.seq for step in entry.steps])
        seqs.sort()
        if self._first_seq is None:
            self._first_seq = seqs[min(FIRST_KEPT, target // 2)]
        return max(seqs[-max(target - FIRST_KEPT, 1)], self._first_seq + 1)

    def _condense_thread(self, story: ThreadStory, cutoff: int) -> None:
        first_seq = self._first_seq or 0
        kept: list[Entry] = []
        first = 0
        for entry in story.entries:
            is_first = entry.seq <= first_seq
            if is_first or entry.seq >= cutoff or self._stays(entry, cutoff):
                if isinstance(entry, Turn):
                    self._condense_turn(entry, cutoff)
                    self.held += len(entry.steps)
                first += is_first
                kept.append(entry)
            else:
                self._leave_out(story, entry)
        if len(kept) < len(story.entries):
            story.left_out_at = first
        story.entries = kept
        self.held += len(kept)

    def _stays(self, entry: Entry, cutoff: int) -> bool:
        if not isinstance(entry, Turn):
            return False
        if entry.steps and entry.steps[-1].seq >= cutoff:
            return True
        if entry.outcome in (TurnOutcome.REPLIED, TurnOutcome.FINISHED):
            return False
        if self._timeline.is_outside(entry.agent):
            return False
        self._trouble += 1
        return self._trouble <= TROUBLE_KEPT

    def _condense_turn(self, turn: Turn, cutoff: int) -> None:
        if not turn.steps or turn.steps[0].seq >= cutoff:
            return
        first_seq = self._first_seq or 0
        steps: list[AnyStep] = []
        first = 0
        for number, step in enumerate(turn.steps):
            is_first = step.seq <= first_seq and number < _TURN_STEPS_KEPT
            is_failure = isinstance(step, FailureStep) and first + _TURN_STEPS_KEPT > len(steps)
            if is_first or is_failure or step.seq >= cutoff:
                steps.append(step)
                first += is_first
        gone = len(turn.steps) - len(steps)
        if gone:
            turn.left_out_steps += gone
            turn.left_out_at = first
            self._timeline.left_out += gone
            turn.steps = steps

    def _leave_out(self, story: ThreadStory, entry: Entry) -> None:
        if isinstance(entry, Turn):
            self._index.drop(entry)
            steps = len(entry.steps) + entry.left_out_steps
            story.left_out_turns += 1
            story.left_out_steps += steps
            self._timeline.left_out += 1 + len(entry.steps)
        else:
            story.left_out_steps += 1
            self._timeline.left_out += 1

    def _condense_records(self) -> None:
        timeline = self._timeline
        accepted = timeline.accepted_answer
        self._trim(timeline.requests, lambda one: one.answered_at is not None)
        self._trim(timeline.assignments, lambda one: one.state in _OVER)
        self._trim(timeline.proposals, lambda one: bool(one.result))
        self._trim(timeline.artifacts, lambda _: True)
        self._trim(timeline.answers, lambda one: one.id != accepted)

    def _trim(self, records: dict[EventId, Any], is_over: Callable[[Any], bool]) -> None:
        surplus = len(records) - RECORDS_KEPT
        if surplus <= 0:
            return
        over = [key for key, record in records.items() if is_over(record)][:surplus]
        _remove(records, over)
        _remove(records, list(records)[: len(records) - RECORDS_KEPT])
        self._timeline.left_out += surplus


def _remove(records: dict[EventId, Any], keys: Iterable[EventId]) -> None:
    for key in keys:
        del records[key]
