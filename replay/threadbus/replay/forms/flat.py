"""A run as one list: each step once, in log order, with the turn that it belongs to."""

from __future__ import annotations

from typing import NamedTuple

from threadbus.replay.finding import Finding, Suspect
from threadbus.replay.selection import Selection
from threadbus.replay.story import AnyStep, SaidStep, Timeline, Turn
from threadbus.replay.text import first_line, plural
from threadbus.schemas import AgentName, EventId


class Act(NamedTuple):
    """One step, and the turn in which it was taken."""

    step: AnyStep
    turn: Turn | None


class Flat:
    """The steps and turns of a timeline by log order, and what refers to them.

    Args:
        timeline: the run, or a part of it.
        selection: which part; findings elsewhere are left out.
    """

    def __init__(self, timeline: Timeline, selection: Selection | None = None) -> None:
        self.timeline = timeline
        self.turns: list[Turn] = []
        by_seq: dict[tuple[int, EventId], Act] = {}
        for thread in timeline.threads.values():
            for entry in thread.entries:
                if isinstance(entry, Turn):
                    self.turns.append(entry)
                    for step in entry.steps:
                        by_seq[step.seq, step.id] = Act(step, entry)
                else:
                    by_seq.setdefault((entry.seq, entry.id), Act(entry, None))
        self.turns.sort(key=lambda turn: turn.seq)
        self.acts = [by_seq[key] for key in sorted(by_seq)]
        self.start = timeline.opened_at or timeline.first_at
        chosen = selection or Selection()
        self.suspects = [one for one in timeline.suspects if _is_in(one, chosen)]
        self.findings = sorted(
            (one for one in timeline.findings if _is_in(one, chosen)), key=lambda one: one.seq
        )

    def agents(self) -> list[AgentName]:
        """Return who takes part, in order of appearance."""
        found: dict[AgentName, None] = {}
        for act in self.acts:
            found.setdefault(act.step.agent)
            if isinstance(act.step, SaidStep):
                for name in act.step.to:
                    found.setdefault(name)
        for turn in self.turns:
            found.setdefault(turn.agent)
        return list(found)

    def findings_by_seq(self) -> dict[int, list[Finding]]:
        """Return the findings at the step that is shown for them: theirs, or the next one."""
        found: dict[int, list[Finding]] = {}
        places = [act.step.seq for act in self.acts]
        index = 0
        for finding in self.findings:
            while index < len(places) - 1 and places[index] < finding.seq:
                index += 1
            if places:
                found.setdefault(places[index], []).append(finding)
        return found


def _is_in(one: Finding | Suspect, selection: Selection) -> bool:
    """Whether a finding belongs to the part; one that names no thread or agent does."""
    return (not selection.thread or one.thread in (None, selection.thread)) and (
        not selection.agent or one.agent in (None, selection.agent)
    )


def start_of(turn: Turn) -> int:
    """Return when the work began by the clock of the server; when it was asked, where none has."""
    if turn.asked_at and turn.waited_ns is not None:
        return turn.asked_at + turn.waited_ns
    return turn.asked_at or turn.started_at or 0


def end_of(turn: Turn, timeline: Timeline) -> int:
    """Return when a turn ended; the end of the log for one that is not known to have ended."""
    start = start_of(turn)
    if turn.worked_ns is not None and turn.started_at is not None:
        end = start + turn.worked_ns
    elif turn.replied_at is not None:
        end = turn.replied_at
    else:
        end = timeline.closed_at or timeline.last_at
    return max([start, end, *[step.at for step in turn.steps]])


def limits_of(timeline: Timeline) -> list[str]:
    """Return sentences about what is missing from *timeline*, or not as it was."""
    notes: list[str] = []
    if not timeline.is_complete:
        notes.append(f"Only the first {plural(timeline.totals.events, 'event')} were read.")
    if timeline.redacted:
        notes.append(f"Redacted ({timeline.redacted}): this is not all that was said.")
    if timeline.left_out:
        notes.append(
            f"A very long run: {timeline.left_out:,} turns and steps of its middle are counted "
            "and not shown."
        )
    if timeline.totals.playbook_calls:
        which = plural(timeline.totals.model_calls, "model call")
        notes.append(
            f"A playbook, not a model, answered {timeline.totals.playbook_calls:,} of {which}."
        )
    if timeline.unpriced:
        names = ", ".join([first_line(name, 60) or "(no name)" for name in timeline.unpriced])
        notes.append(f"Without a price, and so not in the costs: {names}.")
    return notes
