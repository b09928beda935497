"""What stands above a run: whose it is, how it went, and what of it is not shown."""

from __future__ import annotations

from typing import Final

from threadbus.replay.kept import Fork
from threadbus.replay.paint import Painter, Span
from threadbus.replay.story import Timeline
from threadbus.replay.text import duration, first_line, moment, money, plural
from threadbus.replay.words import tokens
from threadbus.schemas import TaskId

_STATUS_STYLES: Final = {
    "completed": "good",
    "failed": "bad",
    "cancelled": "bad",
    "input_required": "warn",
    "paused": "warn",
}


class Heading:
    """Writes the lines above a tree, lanes or a feed.

    Args:
        painter: where the lines go.
        timeline: the run.
        now: nanoseconds since the epoch, for the age of what is open; the last event's time when
            absent.
    """

    def __init__(self, painter: Painter, timeline: Timeline, now: int | None = None) -> None:
        self._painter = painter
        self._timeline = timeline
        self._now = max(now or 0, timeline.last_at)
        self._start = timeline.opened_at or timeline.first_at

    def opening(self) -> None:
        """Write what the first event says: title, id, who opened it and when."""
        timeline, painter = self._timeline, self._painter
        title = painter.clean(timeline.title) or "(no title: the opening is not in this log)"
        for line in painter.wrap(title, painter.width or 0):
            painter.line([Span(line, "bold")])
        painter.line([Span("task ", "dim"), Span(timeline.task or "unknown")])
        who = f"opened by {timeline.opened_by}, " if timeline.opened_by else "first seen "
        painter.line([Span(f"{who}{moment(self._start)}", "dim")])

    def overview(self, note: str = "") -> None:
        """Write how the whole run went, in one paragraph.

        Args:
            note: what of it is shown, where that is not all.
        """
        timeline, totals = self._timeline, self._timeline.totals
        state = timeline.status.replace("_", " ")
        if timeline.closed_at is not None:
            state = f"{state} after {duration(timeline.duration_ns)}"
        else:
            state = f"{state} for {duration(self._now - self._start)}"
        agents = timeline.working_agents()
        turns = sum(agent.turns for agent in agents)
        facts = [
            Span(state, _STATUS_STYLES.get(timeline.status, "plain")),
            Span(f"{plural(len(agents), 'agent')}, {plural(turns, 'turn')}"),
        ]
        if totals.model_calls:
            facts.append(Span(plural(totals.model_calls, "model call")))
            facts.append(Span(f"tokens {tokens(totals.input_tokens, totals.output_tokens)}"))
            if timeline.currency:
                facts.append(Span(f"cost {money(totals.cost, timeline.currency)}"))
        if totals.tool_calls:
            facts.append(Span(plural(totals.tool_calls, "tool call")))
        facts.append(Span(plural(totals.events, "event")))
        self._paragraph(facts)
        if totals.playbook_calls:
            which = "every model call"
            if totals.playbook_calls < totals.model_calls:
                which = f"{totals.playbook_calls:,} of {totals.model_calls:,} model calls"
            self._note(f"answered by a playbook, not by a model: {which}")
        if timeline.is_imported:
            self._note(_import_note(timeline.labels))
        if timeline.fork is not None:
            self._note(_fork_note(timeline.fork, timeline.task))
        if not timeline.is_complete:
            self._note(f"only the first {plural(totals.events, 'event')} were read (--limit)")
        if timeline.redacted:
            self._note(f"redacted ({timeline.redacted}): this is not all that was said")
        if timeline.left_out:
            self._note(
                f"a very long run: {timeline.left_out:,} turns and steps of its middle are counted "
                "and not shown; the first, the newest, failed and open ones are (--format jsonl "
                "has all of it)"
            )
        if note:
            self._note(self._painter.clean(note))

    def _paragraph(self, facts: list[Span]) -> None:
        """Write facts from the left edge on."""
        painter = self._painter
        line: list[Span] = []
        used = 0
        for fact in facts:
            cells = painter.cells(fact.text) + 3
            if line and painter.width is not None and used + cells > painter.width:
                painter.line(line)
                line, used = [], 0
            if line:
                line.append(Span(" · ", "dim"))
            line.append(fact)
            used += cells
        painter.line(line)

    def _note(self, text: str) -> None:
        for line in self._painter.wrap(text, self._painter.width or 0):
            self._painter.line([Span(line, "warn")])


def _import_note(labels: dict[str, str]) -> str:
    made_up = ", its times are made up" if labels.get("import.times") == "synthetic" else ""
    return f"imported from {first_line(labels['import.format'], 40)}{made_up}"


def _fork_note(fork: Fork, task: TaskId | None) -> str:
    whence = f"a fork of {fork.task} at its entry {fork.seq:,}"
    if fork.forked_at is not None:
        return f"{whence}: {plural(fork.copies, 'event')} copied, then it goes its own way"
    so_far = f"{fork.copies:,} of {plural(fork.expected, 'event')}"
    return f"{whence}, not finished: {so_far} copied; busreplay fork --resume {task} goes on"
