"""The live feed: one line for each thing that happens, as it happens, for ``--follow``."""

from __future__ import annotations

from typing import Final

from threadbus.replay.layout import Row, write_row
from threadbus.replay.paint import Painter, Span, agent_style
from threadbus.replay.source import LogItem
from threadbus.replay.story import AnyStep, Entry, Timeline, ToolStep, Turn
from threadbus.replay.text import duration, first_line, offset
from threadbus.replay.words import call, thread_name, tokens, words_of
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AssignmentMade,
    HandlingEnded,
    HandlingStarted,
    InputRequested,
    MentionReceived,
    MentionStored,
    ProposalMade,
    Recorded,
    Rejected,
    ThreadId,
    ToolCalled,
)

_ASKING: Final = frozenset({AssignmentMade.TYPE, InputRequested.TYPE, ProposalMade.TYPE})


class FeedRenderer:
    """Writes a line for each entry of the log, right after the fold took it.

    Args:
        painter: where the lines go.
        timeline: the fold's timeline.
    """

    def __init__(self, painter: Painter, timeline: Timeline) -> None:
        self._painter = painter
        self._timeline = timeline
        self._styles: dict[AgentName, str] = {}

    def write(self, item: LogItem, entry: Entry | None) -> None:
        """Write the line for *item*, whose *entry* the fold returned; some things need none."""
        if isinstance(item, Rejected):
            reason = self._painter.clean(first_line(item.reason, 300))
            report = Row([Span("not readable", "bad")], text=reason, text_style="bad", wraps=True)
            write_row(self._painter, "", "", "", report)
            return
        if entry is None:
            return
        event = item.event
        row: Row | None
        if isinstance(entry, Turn):
            row = self._turn_row(item, entry)
        else:
            row = self._step_row(item, entry)
        if row is None:
            return
        start = self._timeline.opened_at or self._timeline.first_at
        time = offset((item.stored_at or event.at) - start)
        write_row(self._painter, time, "", "", row)

    def _step_row(self, item: Recorded, step: AnyStep) -> Row:
        event, clean = item.event, self._painter.clean
        head = self._head(event.sender, event.thread)
        if isinstance(event.data, ToolCalled) and isinstance(step, ToolStep):
            return Row([*head, Span(clean(f"runs tool {call(step)}"), "dim")])
        words = words_of(step, self._timeline)
        is_bad = words.mood == "bad"
        # That what was asked for this moment is open still goes without saying.
        facts = () if event.type in _ASKING else words.facts
        return Row(
            [*head, Span(clean(words.verb), words.mood)],
            [Span(clean(fact), "dim") for fact in facts],
            clean(words.text),
            words.lead,
            "bad" if is_bad else "plain",
            wraps=is_bad or words.wraps,
        )

    def _turn_row(self, item: Recorded, turn: Turn) -> Row | None:
        head = self._head(turn.agent, item.event.thread)
        match item.event.data:
            case HandlingStarted() as data:
                again = [Span(f"attempt {data.attempt:,}", "warn")] if data.attempt > 1 else []
                return Row([*head, Span("begins", "dim")], again)
            case HandlingEnded():
                facts = [
                    Span(f"waited {duration(turn.waited_ns or 0)}", "dim"),
                    Span(f"worked {duration(turn.worked_ns or 0)}", "dim"),
                ]
                if turn.input_tokens or turn.output_tokens:
                    facts.append(Span(tokens(turn.input_tokens, turn.output_tokens), "dim"))
                return Row([*head, Span("✓ is done", "good")], facts)
            case MentionReceived():
                busy = self._painter.clean(first_line(turn.busy_with, 80))
                with_what = f" with {busy}" if busy else ""
                return Row([*head, Span(f"is busy{with_what}; the mention waits", "warn")])
            case MentionStored():
                return Row([*head, Span("is not running; the mention waits", "warn")])
            case _:
                return None

    def _head(self, agent: AgentName, thread: ThreadId) -> list[Span]:
        style = self._styles.setdefault(agent, agent_style(len(self._styles)))
        head = [Span(agent, style), Span(" ")]
        if thread != MAIN_THREAD:
            title = self._painter.clean(first_line(thread_name(self._timeline, thread), 40))
            head.insert(0, Span(f"[{title}] ", "dim"))
        return head
