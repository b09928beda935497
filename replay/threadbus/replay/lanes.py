"""The timeline: a lane for each agent, time from left to right, arrows where one wakes another.

    user      ┬                             ▲
    planner   ▼┄──███┬──────────────▲──███──┴
    coder            ▼┄──███─▒▒─███─┴

A long run is written in several bands, one below the other. Stretches in which nothing happened
for long take one column, and are told below the band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from threadbus.replay.paint import Painter, Span, agent_style
from threadbus.replay.scale import Gap, Scale
from threadbus.replay.story import (
    AnyStep,
    FailureStep,
    ModelStep,
    SaidStep,
    Timeline,
    ToolStep,
    Turn,
    TurnOutcome,
)
from threadbus.replay.text import duration, offset
from threadbus.schemas import AgentName

MAX_LANES: Final = 60
"""Agents that have a lane; how many more there are is said."""

MAX_BANDS: Final = 40
"""Bands of one timeline; of a longer run each column is a longer time."""

MAX_GAPS_TOLD: Final = 5
"""Long pauses that are told below one band."""

_PIPE_WIDTH: Final = 80
_MAX_NAME: Final = 16
_MIN_BAR: Final = 24
_FIGURES: Final = 20
"""Columns for the figures at the right."""
_FIGURES_FROM: Final = 70
_COLUMNS_OF_TURN: Final = 6
_TICK: Final = 16

_IDLE, _WAIT, _WORK, _TOOL, _MODEL, _FAILED, _LINE, _GAP = range(8)
_SENDS, _TAKES_DOWN, _TAKES_UP = range(8, 11)
_SIGNS: Final = (" ", "┄", "─", "▒", "█", "✗", "│", "┊", "┬", "▼", "▲")
_ASCII: Final = (" ", ".", "=", "t", "M", "x", "|", ":", "o", "v", "^")
_DIM: Final = frozenset({_WAIT, _LINE, _GAP})


class _Bar(NamedTuple):
    start: int
    end: int
    cell: int


class _Arrow(NamedTuple):
    at: int
    sender: AgentName
    to: AgentName


class _Figures:
    """What the turns that begin in one band took."""

    def __init__(self) -> None:
        self.waited = 0
        self.worked = 0


class _Picture:
    """Everything that is drawn, in times."""

    def __init__(self, timeline: Timeline, now: int) -> None:
        self.bars: dict[AgentName, list[_Bar]] = {}
        self.arrows: list[_Arrow] = []
        self.turns: list[Turn] = []
        self._now = now
        seen: set[int] = set()
        if timeline.opened_by is not None:
            self._lane(timeline.opened_by)
        for story in timeline.threads.values():
            for entry in story.entries:
                if not isinstance(entry, Turn):
                    self._step(entry, None, seen)
                    continue
                if entry.steps or not timeline.is_outside(entry.agent):
                    self._turn(entry, timeline.last_at)
                for step in entry.steps:
                    self._step(step, entry, seen)

    def moments(self) -> list[int]:
        """Return when something happened, in order."""
        found = [arrow.at for arrow in self.arrows]
        for bars in self.bars.values():
            for bar in bars:
                found += (bar.start, bar.end)
        return sorted(set(found))

    def busy(self) -> list[tuple[int, int]]:
        """Return when a model or a tool was at work."""
        return sorted(
            (bar.start, bar.end)
            for bars in self.bars.values()
            for bar in bars
            if bar.cell in (_MODEL, _TOOL)
        )

    def _lane(self, agent: AgentName) -> list[_Bar]:
        return self.bars.setdefault(agent, [])

    def _turn(self, turn: Turn, last_at: int) -> None:
        self.turns.append(turn)
        lane = self._lane(turn.agent)
        asked = turn.asked_at or turn.started_at or 0
        if not asked:
            return
        is_over = turn.outcome in (TurnOutcome.REPLIED, TurnOutcome.FINISHED)
        last = turn.replied_at or max([step.at for step in turn.steps], default=asked)
        end = last if is_over or turn.outcome is TurnOutcome.DEAD_LETTERED else last_at
        if not turn.has_begun:
            lane.append(_Bar(asked, max(end, asked), _WAIT))
            return
        began = asked if turn.waited_ns is None else asked + turn.waited_ns
        if turn.worked_ns is not None:
            end = began + turn.worked_ns
        lane += (_Bar(asked, began, _WAIT), _Bar(began, max(end, began), _WORK))

    def _step(self, step: AnyStep, turn: Turn | None, seen: set[int]) -> None:
        if step.seq in seen:
            return
        seen.add(step.seq)
        lane = self._lane(step.agent)
        match step:
            case ModelStep():
                cell = _MODEL if step.error is None else _FAILED
                lane.append(_Bar(step.at - step.duration_ns, step.at, cell))
            case ToolStep():
                cell = _TOOL if step.error is None else _FAILED
                end = step.at + step.duration_ns if step.duration_ns is not None else self._now
                lane.append(_Bar(step.at, min(end, self._now), cell))
            case FailureStep():
                lane.append(_Bar(step.at, step.at, _FAILED))
            case SaidStep():
                to = step.to
                if not to and step.is_reply and turn is not None and turn.woken_by is not None:
                    to = (turn.woken_by,)
                for name in to:
                    self._lane(name)
                    self.arrows.append(_Arrow(step.at, step.agent, name))


def write_lanes(painter: Painter, timeline: Timeline, now: int) -> None:
    """Write a timeline as lanes.

    Args:
        painter: where to.
        timeline: the run, or a part of it.
        now: nanoseconds since the epoch, for what is still going on.
    """
    picture = _Picture(timeline, timeline.last_at or now)
    moments = picture.moments()
    painter.line()
    if not moments:
        painter.line([Span("nothing to draw: no turns, calls or mentions", "dim")])
        return
    _Drawing(painter, timeline, picture, moments).write()


class _Drawing:
    def __init__(
        self, painter: Painter, timeline: Timeline, picture: _Picture, moments: Sequence[int]
    ) -> None:
        self._painter = painter
        self._timeline = timeline
        self._picture = picture
        self._signs = _ASCII if painter.is_ascii else _SIGNS
        width = painter.width or _PIPE_WIDTH
        self._agents = list(picture.bars)[:MAX_LANES]
        self._hidden = len(picture.bars) - len(self._agents)
        longest = max(painter.cells(painter.clean(name)) for name in self._agents)
        self._name = min(longest, _MAX_NAME, width // 4)
        self._has_figures = width >= _FIGURES_FROM
        room = width - self._name - 1 - (_FIGURES if self._has_figures else 0)
        self._bar = max(room, _MIN_BAR)
        wanted = -(-_COLUMNS_OF_TURN * max(len(picture.turns), 1) // self._bar)
        bands = min(max(wanted, 1), MAX_BANDS)
        self._scale = Scale(moments, picture.busy(), max(bands * self._bar - 1, 1))
        columns = self._scale.columns
        self._cells = {name: bytearray(columns) for name in self._agents}
        self._figures: dict[tuple[int, AgentName], _Figures] = {}
        self._styles = {name: agent_style(i) for i, name in enumerate(timeline.agents)}

    def write(self) -> None:
        """Write the legend and every band."""
        self._fill()
        self._legend()
        for band in range(-(-self._scale.columns // self._bar)):
            self._band(band)

    def _fill(self) -> None:
        for name, cells in self._cells.items():
            for bar in self._picture.bars[name]:
                first, last = self._scale.column(bar.start), self._scale.column(bar.end)
                if bar.cell == _WAIT and first == last:
                    continue
                for column in range(first, last + 1):
                    cells[column] = max(cells[column], bar.cell)
        for gap in self._scale.gaps:
            for cells in self._cells.values():
                cells[gap.column] = _GAP
        rows = {name: row for row, name in enumerate(self._agents)}
        for arrow in self._picture.arrows:
            if arrow.sender in rows and arrow.to in rows and arrow.sender != arrow.to:
                self._arrow(self._scale.column(arrow.at), rows[arrow.sender], rows[arrow.to])
        for turn in self._picture.turns:
            band = self._scale.column(turn.asked_at or turn.started_at or 0) // self._bar
            figures = self._figures.setdefault((band, turn.agent), _Figures())
            figures.waited += turn.waited_ns or 0
            figures.worked += turn.worked_ns or 0

    def _arrow(self, column: int, sender: int, to: int) -> None:
        for row in range(min(sender, to) + 1, max(sender, to)):
            cells = self._cells[self._agents[row]]
            if cells[column] in (_IDLE, _WAIT):
                cells[column] = _LINE
        start, end = self._cells[self._agents[sender]], self._cells[self._agents[to]]
        if start[column] < _SENDS:
            start[column] = _SENDS
        end[column] = _TAKES_DOWN if to > sender else _TAKES_UP

    def _legend(self) -> None:
        signs = self._signs
        parts = [
            f"{signs[_WAIT]} waits",
            f"{signs[_WORK]} works",
            f"{signs[_MODEL]} model",
            f"{signs[_TOOL]} tool",
            f"{signs[_FAILED]} failure",
            f"{signs[_SENDS]} to {signs[_TAKES_DOWN]} or {signs[_TAKES_UP]} wakes",
        ]
        if self._scale.gaps:
            parts.append(f"{signs[_GAP]} long pause")
        parts.append(f"1 column is {duration(int(self._scale.per_column))}")
        line = ""
        for part in parts:
            width = self._painter.width or _PIPE_WIDTH
            if line and len(line) + len(part) + 3 > width:
                self._painter.line([Span(line, "dim")])
                line = ""
            line += f"   {part}" if line else part
        self._painter.line([Span(line, "dim")])
        if self._hidden:
            self._painter.line([Span(f"{self._hidden:,} more agents have no lane", "warn")])

    def _band(self, band: int) -> None:
        first = band * self._bar
        end = min(first + self._bar, self._scale.columns)
        shown = [name for name in self._agents if any(self._with_marks(name, first, end))]
        if not shown:
            return
        painter = self._painter
        painter.line()
        figures = f"{'waited':>{_FIGURES // 2}}{'worked':>{_FIGURES // 2}}"
        axis = f"{'':{self._name + 1}}{self._axis(first, end):{self._bar}}"
        painter.line([Span(axis + (figures if self._has_figures else ""), "dim")])
        for name in shown:
            spans = [Span(self._label(name), self._styles.get(name, "plain")), Span(" ")]
            spans += self._spans(name, first, end)
            if self._has_figures:
                spans.append(Span(" " * (self._bar - (end - first)) + self._numbers(band, name)))
            painter.line(spans)
        self._tell_gaps([gap for gap in self._scale.gaps if first <= gap.column < end])

    def _with_marks(self, name: AgentName, first: int, end: int) -> Iterator[bool]:
        return (cell not in (_IDLE, _LINE, _GAP) for cell in self._cells[name][first:end])

    def _label(self, name: AgentName) -> str:
        text = self._painter.fit(self._painter.clean(name), self._name)
        return text + " " * (self._name - self._painter.cells(text))

    def _spans(self, name: AgentName, first: int, end: int) -> Iterator[Span]:
        style = self._styles.get(name, "plain")
        for cell, run in groupby(self._cells[name][first:end]):
            text = self._signs[cell] * len(list(run))
            if cell == _FAILED:
                yield Span(text, "bad")
            elif cell in _DIM:
                yield Span(text, "dim")
            else:
                yield Span(text, style if cell >= _WORK else "plain")

    def _numbers(self, band: int, name: AgentName) -> str:
        figures = self._figures.get((band, name))
        if figures is None:
            return ""
        half = _FIGURES // 2
        return f"{duration(figures.waited):>{half}}{duration(figures.worked):>{half}}"

    def _axis(self, first: int, end: int) -> str:
        start = self._timeline.opened_at or self._timeline.first_at
        line = ""
        for column in range(first, end, _TICK):
            label = offset(self._scale.time(column) - start)
            if column - first + len(label) <= self._bar:
                line = line.ljust(column - first) + label
        return line

    def _tell_gaps(self, gaps: Sequence[Gap]) -> None:
        start = self._timeline.opened_at or self._timeline.first_at
        sign = self._signs[_GAP]
        for gap in gaps[:MAX_GAPS_TOLD]:
            since = offset(gap.start - start)
            text = f"{sign} nothing happened for {duration(gap.end - gap.start)} from {since} on"
            self._gap_line(text)
        if len(gaps) > MAX_GAPS_TOLD:
            hidden = len(gaps) - MAX_GAPS_TOLD
            self._gap_line(f"{sign} and {hidden:,} more pauses")

    def _gap_line(self, text: str) -> None:
        width = self._painter.width or _PIPE_WIDTH
        indent = " " * (self._name + 1)
        for line in self._painter.wrap(text, width - len(indent)):
            self._painter.line([Span(indent + line, "dim")])
