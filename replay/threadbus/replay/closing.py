"""The end of the tree: what deserves a look, who did how much, and the answer."""

from __future__ import annotations

from typing import Final

from threadbus.replay.findings.shown import write_findings
from threadbus.replay.paint import Painter, Span
from threadbus.replay.story import AgentTotals, Timeline, TurnOutcome
from threadbus.replay.text import duration, first_line, money, plural
from threadbus.replay.words import tokens

MAX_LISTED: Final = 20
"""Entries of each list; how many more there are is said."""

_INDENT: Final = "  "


def write_closing(painter: Painter, timeline: Timeline, now: int) -> None:
    """Write what stands below the tree.

    Args:
        painter: where to.
        timeline: the run.
        now: nanoseconds since the epoch, for the age of what is open.
    """
    _write_notes(painter, timeline, now)
    write_findings(
        timeline,
        lambda text, style: _heading(painter, text, style),
        lambda text, style: _text(painter, text, style),
    )
    _write_agents(painter, timeline)
    _write_answer(painter, timeline)


def _write_notes(painter: Painter, timeline: Timeline, now: int) -> None:
    notes = [*_open_notes(timeline, now), *_log_notes(timeline)]
    if not notes:
        return
    _heading(painter, "Worth a look")
    for text, style in notes:
        _text(painter, text, style)


def _open_notes(timeline: Timeline, now: int) -> list[tuple[str, str]]:
    notes: list[tuple[str, str]] = []
    for request in timeline.requests.values():
        if request.answered_at is None and timeline.closed_at is None:
            age = duration(now - request.asked_at)
            asked = first_line(request.text, 120)
            notes.append((f"{request.asked_by} has waited {age} for an answer: {asked}", "warn"))
    for turn in timeline.open_turns():
        who = f"{turn.agent} ← {turn.woken_by or 'unknown'}"
        asked = first_line(turn.asked, 100)
        about = f": {asked}" if asked else ""
        if turn.outcome is TurnOutcome.FAILED:
            notes.append((f"{who}: the last attempt failed{about}", "bad"))
        else:
            age = duration(now - turn.asked_at) if turn.asked_at else "an unknown time"
            what = "not finished" if turn.has_begun else "unanswered"
            notes.append((f"{who}: {what} for {age}{about}", "warn"))
    return _listed(notes)


def _log_notes(timeline: Timeline) -> list[tuple[str, str]]:
    totals = timeline.totals
    notes = [
        (
            f"not readable, at {entry.seq or 'an unknown place'}: {first_line(entry.reason, 300)}",
            "bad",
        )
        for entry in timeline.unreadable
    ]
    hidden = totals.unreadable - len(notes)
    notes = _listed(notes, hidden)
    if timeline.unpriced:
        counts = [f"{name or '(no name)'} ({count:,})" for name, count in timeline.unpriced.items()]
        notes.append((f"no price for {', '.join(counts[:MAX_LISTED])}: not in the cost", "warn"))
    if timeline.unknown_types:
        counts = [f"{name} ({count:,})" for name, count in timeline.unknown_types.items()]
        shown = ", ".join(counts[:MAX_LISTED])
        notes.append((f"types that this reader does not know: {shown}", "warn"))
    if totals.duplicates:
        repeated = plural(totals.duplicates, "repeated event")
        notes.append((f"{repeated} in the log, counted once each", "dim"))
    if totals.foreign:
        notes.append((f"{plural(totals.foreign, 'event')} of another task left out", "dim"))
    return notes


def _listed(notes: list[tuple[str, str]], hidden: int = 0) -> list[tuple[str, str]]:
    hidden += max(len(notes) - MAX_LISTED, 0)
    more = [(f"and {hidden:,} more", "dim")] if hidden else []
    return notes[:MAX_LISTED] + more


_COLUMNS: Final = (
    "agent",
    "turns",
    "waited",
    "worked",
    "model calls",
    "tokens",
    "cost",
    "tool calls",
    "failures",
)


def _write_agents(painter: Painter, timeline: Timeline) -> None:
    agents = timeline.working_agents()
    if not agents:
        return
    rows = [_COLUMNS, *[_agent_row(agent, timeline.currency) for agent in agents[:MAX_LISTED]]]
    if not timeline.currency:
        cost = _COLUMNS.index("cost")
        rows = [row[:cost] + row[cost + 1 :] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    painter.line()
    if painter.width is not None and sum(widths) + 2 * len(widths) > painter.width:
        for row in rows[1:]:
            named = zip(rows[0][1:], row[1:], strict=True)
            shown = "; ".join([f"{name} {cell}" for name, cell in named if cell != "-"])
            _text(painter, f"{row[0]}: {shown}", "plain")
    else:
        for number, row in enumerate(rows):
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            painter.line([Span(_INDENT + "  ".join(cells), "plain" if number else "dim")])
    if len(agents) > MAX_LISTED:
        painter.line([Span(f"{_INDENT}and {len(agents) - MAX_LISTED:,} more", "dim")])


def _agent_row(agent: AgentTotals, currency: str) -> tuple[str, ...]:
    return (
        agent.agent,
        f"{agent.turns:,}",
        duration(agent.waited_ns),
        duration(agent.worked_ns),
        f"{agent.model_calls:,}" if agent.model_calls else "-",
        tokens(agent.input_tokens, agent.output_tokens) if agent.model_calls else "-",
        money(agent.cost, currency) if agent.cost else "-",
        f"{agent.tool_calls:,}" if agent.tool_calls else "-",
        f"{agent.failures:,}" if agent.failures else "-",
    )


def _write_answer(painter: Painter, timeline: Timeline) -> None:
    answer = timeline.answer
    if answer is not None:
        accepted = "accepted" if timeline.accepted_answer == answer.id else "not accepted yet"
        _heading(painter, f"Answer by {answer.submitted_by}, {accepted}", "good")
        for line in answer.text.splitlines() or ["(empty)"]:
            _text(painter, line, "plain", to_first_line=False)
        if answer.chars > len(answer.text):
            rest = plural(answer.chars - len(answer.text), "more character")
            _text(painter, f"({rest}; --format jsonl has all of it)", "dim")
        for dissent in answer.dissent:
            _text(painter, f"dissent: {dissent}", "warn")
        return
    if timeline.closed_at is None:
        task = timeline.task or "TASK"
        _heading(painter, "No answer yet", "warn")
        _text(painter, f"busreplay {task} --follow waits for it", "dim")
        return
    style = "plain" if timeline.status == "completed" else "bad"
    _heading(painter, f"Ended as {timeline.status} without an answer", style)
    if timeline.summary:
        _text(painter, timeline.summary, style)


def _heading(painter: Painter, text: str, style: str = "bold") -> None:
    painter.line()
    painter.line([Span(painter.clean(text), style)])


def _text(painter: Painter, text: str, style: str, *, to_first_line: bool = True) -> None:
    shown = painter.clean(first_line(text, 400) if to_first_line else text)
    width = 0 if painter.width is None else painter.width - len(_INDENT)
    for line in painter.wrap(shown, width):
        painter.line([Span(f"{_INDENT}{line}", style)])
