"""The tree: a run as lines for a person, from a finished or a partial timeline."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from threadbus.replay.findings.shown import Marks
from threadbus.replay.layout import GUTTER, Row, write_row
from threadbus.replay.paint import Painter, Span, agent_style
from threadbus.replay.story import (
    AnyStep,
    Entry,
    FailureStep,
    ModelStep,
    ThreadStory,
    Timeline,
    ToolStep,
    Turn,
    TurnOutcome,
)
from threadbus.replay.text import duration, first_line, money, offset, plural
from threadbus.replay.words import (
    MAX_ARGUMENTS_CHARS,
    MAX_LINE_CHARS,
    names,
    thread_name,
    tokens,
    words_of,
)
from threadbus.schemas import MAIN_THREAD, AgentName, ThreadId

MAX_DEPTH: Final = 5
"""Levels of threads in threads that are drawn inside one another; deeper ones stand beside."""

_MIN_BODY_CELLS: Final = 20


class TreeRenderer:
    """Writes a timeline as a tree.

    Args:
        painter: where the lines go.
        timeline: the run.
        now: nanoseconds since the epoch, for the age of what is open; the last event's time when
            absent.
        shows_asked: whether a turn repeats what its agent was asked, for a tree that leaves out
            who asked.
        full: whether texts are written in full, on lines of their own where one does not do.
    """

    def __init__(
        self,
        painter: Painter,
        timeline: Timeline,
        now: int | None = None,
        *,
        shows_asked: bool = False,
        full: bool = False,
    ) -> None:
        self._painter = painter
        self._shows_asked = shows_asked
        self._full = full
        self._timeline = timeline
        self._now = max(now or 0, timeline.last_at)
        self._start = timeline.opened_at or timeline.first_at
        self._marks = Marks(painter, timeline, full=full)
        self._styles = {name: agent_style(i) for i, name in enumerate(timeline.agents)}

    def tree(self) -> None:
        """Write the threads with their turns."""
        children = _thread_tree(self._timeline)
        for root in children.get(None, ()):
            self._painter.line()
            write_row(self._painter, "", "", "", self._thread_row(self._timeline.threads[root]))
            self._branch(root, "", children)

    def _branch(
        self, thread: ThreadId, prefix: str, children: dict[ThreadId | None, list[ThreadId]]
    ) -> None:
        story = self._timeline.threads[thread]
        entries = [entry for entry in story.entries if self._is_shown(entry)]
        below = children.get(thread, [])
        last = len(entries) + len(below) - 1
        gap = self._gap(story, entries)
        for index, entry in enumerate(entries):
            if index == gap:
                self._left_out(prefix + "┆  ", story.left_out_turns, story.left_out_steps)
            self._entry(entry, prefix, is_last=index == last)
        if gap == len(entries):
            self._left_out(prefix + "┆  ", story.left_out_turns, story.left_out_steps)
        for index, child in enumerate(below, len(entries)):
            corner, bar = _branches(is_last=index == last)
            nested = self._timeline.threads[child]
            hanging = prefix + bar + ("│ " if nested.entries or child in children else "  ")
            row = self._thread_row(nested)
            write_row(self._painter, self._time(nested.opened_at), prefix + corner, hanging, row)
            self._branch(child, prefix + bar, children)

    def _entry(self, entry: Entry, prefix: str, *, is_last: bool) -> None:
        corner, bar = _branches(is_last=is_last)
        first, rest = prefix + corner, prefix + bar
        if not isinstance(entry, Turn):
            self._step(entry, first, rest, entry.agent)
            return
        hanging = rest + ("│ " if entry.steps else "  ")
        write_row(self._painter, self._time(entry.asked_at), first, hanging, self._turn_row(entry))
        written = 0
        gap = entry.left_out_at if entry.left_out_steps else None
        if gap == 0:
            self._left_out(rest + "┆  ", 0, entry.left_out_steps)
        groups = [list(group) for _, group in groupby(entry.steps, lambda step: step.thread)]
        for number, group in enumerate(groups, 1):
            is_here = group[0].thread == entry.thread
            for step in group if is_here else group[:1]:
                is_last = number == len(groups) and (step is group[-1] or not is_here)
                corner, bar = _branches(is_last=is_last)
                if is_here:
                    self._step(step, rest + corner, rest + bar)
                else:
                    row = self._elsewhere_row(group)
                    write_row(self._painter, self._step_time(step), rest + corner, rest + bar, row)
                written += 1 if is_here else len(group)
                if written == gap:
                    self._left_out(rest + "┆  ", 0, entry.left_out_steps)

    def _step(self, step: AnyStep, first: str, rest: str, who: AgentName | None = None) -> None:
        row = self._step_row(step, who)
        body = self._body(step)
        if body:
            row = row._replace(text="")
        write_row(self._painter, self._step_time(step), first, rest, row)
        indent = f"{'':{GUTTER}}{rest}  "
        width = self._painter.width
        for line in body:
            room = 0 if width is None else max(width - len(indent), _MIN_BODY_CELLS)
            for piece in self._painter.wrap(self._painter.clean(line), room):
                self._painter.line([Span(indent, "dim"), Span(piece)])
        self._marks.write(step.seq, rest)

    def _body(self, step: AnyStep) -> list[str]:
        """Return the lines of a text that has more than the row can show."""
        if not self._full or isinstance(step, FailureStep):
            return []
        text = step.text.strip()
        if isinstance(step, ToolStep) and len(step.arguments) > MAX_ARGUMENTS_CHARS:
            text = f"({step.arguments})\n{text}"
        if not isinstance(step, ModelStep) and "\n" not in text and len(text) <= MAX_LINE_CHARS:
            return []
        lines = text.splitlines()
        if step.chars > len(step.text):
            lines.append(f"… {step.chars - len(step.text):,} more characters (--format jsonl)")
        return lines

    def _gap(self, story: ThreadStory, shown: list[Entry]) -> int | None:
        """Return before which of the shown entries something was left out."""
        if not story.left_out_turns and not story.left_out_steps:
            return None
        before = sum([self._is_shown(entry) for entry in story.entries[: story.left_out_at]])
        return min(before, len(shown))

    def _left_out(self, prefix: str, turns: int, steps: int) -> None:
        counts = [plural(turns, "turn")] if turns else []
        counts += [plural(steps, "step")] if steps else []
        text = f"{' and '.join(counts)} left out here"
        self._painter.line([Span(f"{'':{GUTTER}}{prefix}", "dim"), Span(text, "warn")])

    def _is_shown(self, entry: Entry) -> bool:
        # A person who is told something has no turn to speak of until they answer.
        return not isinstance(entry, Turn) or bool(
            entry.steps or not self._timeline.is_outside(entry.agent)
        )

    def _thread_row(self, story: ThreadStory) -> Row:
        head = [Span("thread ", "dim"), Span(self._painter.clean(story.thread), "bold")]
        if story.title and story.thread != MAIN_THREAD:
            head = [Span("thread ", "dim"), Span(self._painter.clean(story.title), "bold")]
            head.append(Span(f" ({story.thread})", "dim"))
        members = tuple(name for name, is_in in story.participants.items() if is_in)
        facts = [Span(names(members), "dim")] if members else []
        if story.opened_by is None:
            facts.append(Span("its opening is not in this log", "warn"))
        if story.outcome:
            took = duration((story.closed_at or 0) - story.opened_at) if story.opened_at else ""
            style = "bad" if story.outcome == "failed" else "dim"
            facts.append(Span(f"{story.outcome} after {took}" if took else story.outcome, style))
        summary = self._painter.clean(first_line(story.summary, 200))
        return Row(head, facts, summary)

    def _turn_row(self, turn: Turn) -> Row:
        waker = turn.woken_by or "a mention that is not in this log"
        head = [
            Span(turn.agent, self._styles.get(turn.agent, "plain")),
            Span(" ← ", "dim"),
            Span(waker, self._styles.get(AgentName(waker), "dim")),
        ]
        facts: list[Span] = []
        if turn.was_stored:
            facts.append(Span("was not running when asked", "warn"))
        if turn.queue_depth is not None:
            busy = self._painter.clean(first_line(turn.busy_with, 80))
            facts.append(Span(f"was busy with {busy}" if busy else "was busy", "warn"))
        if turn.waited_ns is not None:
            facts.append(Span(f"waited {duration(turn.waited_ns)}"))
        if turn.worked_ns is not None:
            facts.append(Span(f"worked {duration(turn.worked_ns)}"))
        elif turn.outcome is TurnOutcome.REPLIED and turn.replied_at and turn.asked_at:
            facts.append(Span(f"answered after {duration(turn.replied_at - turn.asked_at)}"))
        if sum([isinstance(step, ModelStep) for step in turn.steps]) > 1:
            facts.append(Span(tokens(turn.input_tokens, turn.output_tokens)))
            if turn.cost:
                facts.append(Span(money(turn.cost, self._timeline.currency)))
        if turn.attempt > 1:
            facts.append(Span(f"attempt {turn.attempt:,}", "warn"))
        facts.append(self._outcome(turn))
        asked = first_line(turn.asked, 120) if self._shows_asked else ""
        return Row(head, facts, self._painter.clean(asked))

    def _outcome(self, turn: Turn) -> Span:
        match turn.outcome:
            case TurnOutcome.REPLIED:
                return Span("✓ replied", "good")
            case TurnOutcome.FINISHED:
                return Span("✓ done", "good")
            case TurnOutcome.FAILED:
                return Span("✗ failed", "bad")
            case TurnOutcome.DEAD_LETTERED:
                return Span("✗ given up", "bad")
            case TurnOutcome.OPEN:
                return Span(self._age(turn), "warn")

    def _age(self, turn: Turn) -> str:
        since = turn.started_at or turn.asked_at
        age = duration(self._now - since) if since else "an unknown time"
        if turn.has_begun:
            return f"has worked for {age}, not finished"
        return f"no answer for {age}"

    def _step_row(self, step: AnyStep, who: AgentName | None = None) -> Row:
        words = words_of(step, self._timeline)
        clean = self._painter.clean
        head: list[Span] = []
        if who is not None:
            head += (Span(who, self._styles.get(who, "plain")), Span(" "))
        head.append(Span(clean(words.verb), words.mood))
        facts = [Span(clean(fact), "dim") for fact in words.facts]
        is_bad = words.mood == "bad"
        style = "bad" if is_bad else "plain"
        return Row(
            head,
            facts,
            clean(words.text),
            words.lead,
            style,
            wraps=words.wraps or is_bad or self._full,
        )

    def _elsewhere_row(self, steps: list[AnyStep]) -> Row:
        """Point to what the agent did in another thread, where it is shown in full."""
        thread = steps[0].thread
        where = self._painter.clean(first_line(thread_name(self._timeline, thread), 60))
        return Row([Span(f"{plural(len(steps), 'step')} in thread ", "dim"), Span(where, "bold")])

    def _step_time(self, step: AnyStep) -> str:
        return self._time(step.at - (step.duration_ns if isinstance(step, ModelStep) else 0))

    def _time(self, at: int) -> str:
        return offset(at - self._start) if at else ""


def _branches(*, is_last: bool) -> tuple[str, str]:
    return ("└─ ", "   ") if is_last else ("├─ ", "│  ")


def _thread_tree(timeline: Timeline) -> dict[ThreadId | None, list[ThreadId]]:
    """Return the threads below each thread; below ``None`` those that stand by themselves.

    Every thread comes up once, whatever the log claims of parents: unknown ones, circles, chains
    of any length.
    """
    threads = timeline.threads
    claimed: dict[ThreadId, list[ThreadId]] = {}
    roots: list[ThreadId] = []
    for name, story in threads.items():
        if story.parent is None or story.parent not in threads or story.parent == name:
            roots.append(name)
        else:
            claimed.setdefault(story.parent, []).append(name)
    tree: dict[ThreadId | None, list[ThreadId]] = {None: []}
    placed: dict[ThreadId, tuple[ThreadId | None, int]] = {}
    for start in (*roots, *threads):
        if start in placed:
            continue
        placed[start] = (None, 0)
        tree[None].append(start)
        queue = [start]
        for parent in queue:
            above, depth = placed[parent]
            for child in claimed.get(parent, ()):
                if child in placed:
                    continue
                is_deep = depth >= MAX_DEPTH
                placed[child] = (above, depth) if is_deep else (parent, depth + 1)
                tree.setdefault(placed[child][0], []).append(child)
                queue.append(child)
    return tree
