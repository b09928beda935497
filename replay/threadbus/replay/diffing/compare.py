"""What two runs have in common, where they first differ, and what that came to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from threadbus.replay.diffing.align import MAX_CELLS, align
from threadbus.replay.diffing.steps import ComparedStep, Run, steps_of
from threadbus.replay.findings import Analyser
from threadbus.replay.prices import Prices
from threadbus.replay.source import LogItem
from threadbus.replay.story import AnyStep, ModelStep, ToolStep
from threadbus.replay.text import first_line
from threadbus.replay.words import said, words_of
from threadbus.schemas import AgentName, EventId, TaskId

FORMAT: Final = "threadbus.diff/1"
"""What ``format`` says in the JSON document; the number rises when a field changes meaning."""

MAX_ROWS: Final = 20_000
"""Rows that are kept; all are counted."""

_TEXT_CHARS: Final = 240


class Side(msgspec.Struct, kw_only=True):
    """One of the two runs."""

    name: str
    """Where it came from, for a person."""
    task: TaskId | None
    title: str
    status: str
    duration_ns: int
    events: int
    steps: int
    turns: int
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    """By the prices that were given; absent where none were."""
    currency: str
    unpriced_calls: int
    """Calls of models that have no price, and are not in the cost."""
    failures: int
    answer: str
    """The beginning of it."""
    agents: dict[AgentName, int]
    """Tokens of each agent."""
    findings: dict[str, int]
    """Findings by detector."""
    forked_from: TaskId | None = None
    fork_seq: int | None = None


class StepLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One step in one run."""

    seq: int
    id: EventId
    agent: AgentName
    at_ns: int
    """Since the opening."""
    text: str
    tokens: int = 0
    duration_ns: int = 0


class RowKind(StrEnum):
    """How two steps compare."""

    SAME = "same"
    CHANGED = "changed"
    """At the same place of the story, in other words."""
    ONLY_A = "only_a"
    ONLY_B = "only_b"


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of one run beside the step of the other that belongs to it, if any does."""

    kind: RowKind
    a: StepLine | None = None
    b: StepLine | None = None


class Divergence(msgspec.Struct, kw_only=True):
    """The first row that is not the same."""

    after_steps: int
    """Steps that both begin with alike."""
    last_common_seq: tuple[int, int] | None
    """The last of them, in the one and in the other."""
    row: Row


class Diff(msgspec.Struct, kw_only=True):
    """Everything that was found."""

    format: str = FORMAT
    a: Side
    b: Side
    relation: str
    """``b is a fork of a``, ``a is a fork of b``, ``forks of one run``, or empty."""
    fork_point: tuple[int, int] | None
    """Where the relation says so: the last sequence that was copied, in the origin; and the first
    entry of the fork's own."""
    same: int
    changed: int
    only_a: int
    only_b: int
    is_exact: bool
    """Whether the alignment is the longest one; of very long, very different runs it may not be."""
    divergence: Divergence | None
    rows: list[Row]
    """The first of them, in order."""


def compare(
    a: Iterable[LogItem],
    b: Iterable[LogItem],
    *,
    names: tuple[str, str] = ("A", "B"),
    prices: Prices | None = None,
    max_cells: int = MAX_CELLS,
) -> Diff:
    """Compare two runs.

    Args:
        a: the entries of the one.
        b: the entries of the other.
        names: what to call them.
        prices: what models cost.
        max_cells: how much the alignment may compute.
    """
    one, other = _analysed(a, prices), _analysed(b, prices)
    alignment = align(
        [step.key for step in one.steps], [step.key for step in other.steps], max_cells
    )
    rows = _rows(one, other, alignment.pairs)
    counts = Counter(row.kind for row in rows)
    relation, fork_point = _relation(one, other)
    return Diff(
        a=_side(one, names[0]),
        b=_side(other, names[1]),
        relation=relation,
        fork_point=fork_point,
        same=counts[RowKind.SAME],
        changed=counts[RowKind.CHANGED],
        only_a=counts[RowKind.ONLY_A],
        only_b=counts[RowKind.ONLY_B],
        is_exact=alignment.is_exact,
        divergence=_divergence(rows),
        rows=rows[:MAX_ROWS],
    )


def _analysed(entries: Iterable[LogItem], prices: Prices | None) -> Run:
    """Take a run apart, and look for faults in it on the way."""
    analyser = Analyser()

    def looked_at() -> Iterator[LogItem]:
        for item in entries:
            analyser.apply(item)
            yield item

    run = steps_of(looked_at(), prices)
    run.timeline.findings = list(analyser.finish(run.timeline).findings)
    return run


def _rows(one: Run, other: Run, pairs: Sequence[tuple[int, int]]) -> list[Row]:
    rows: list[Row] = []
    at_a = at_b = 0
    for index_a, index_b in (*pairs, (len(one.steps), len(other.steps))):
        left, right = one.steps[at_a:index_a], other.steps[at_b:index_b]
        rows += _gap(one, other, left, right)
        if index_a < len(one.steps) and index_b < len(other.steps):
            rows.append(
                Row(
                    kind=RowKind.SAME,
                    a=_line(one, one.steps[index_a]),
                    b=_line(other, other.steps[index_b]),
                )
            )
        at_a, at_b = index_a + 1, index_b + 1
    return rows


def _gap(
    one: Run, other: Run, left: Sequence[ComparedStep], right: Sequence[ComparedStep]
) -> list[Row]:
    """Pair what stands at the same place of the story; the rest is on one side only."""
    places = align([step.place for step in left], [step.place for step in right], 10_000).pairs
    rows: list[Row] = []
    at_a = at_b = 0
    for index_a, index_b in (*places, (len(left), len(right))):
        only_a, only_b = left[at_a:index_a], right[at_b:index_b]
        rows += [Row(kind=RowKind.ONLY_A, a=_line(one, step)) for step in only_a]
        rows += [Row(kind=RowKind.ONLY_B, b=_line(other, step)) for step in only_b]
        if index_a < len(left) and index_b < len(right):
            rows.append(
                Row(
                    kind=RowKind.CHANGED,
                    a=_line(one, left[index_a]),
                    b=_line(other, right[index_b]),
                )
            )
        at_a, at_b = index_a + 1, index_b + 1
    return rows


def _line(run: Run, step: ComparedStep) -> StepLine:
    shown: AnyStep = run.shown[step.id]
    words = words_of(shown, run.timeline)
    text = words.text or (said(shown) if isinstance(shown, ModelStep) else "")
    start = run.timeline.opened_at or run.timeline.first_at
    return StepLine(
        seq=step.seq,
        id=step.id,
        agent=step.place.agent,
        at_ns=max(step.at - start, 0),
        text=first_line(f"{words.verb}{words.lead}{text}" if text else words.verb, _TEXT_CHARS),
        tokens=shown.input_tokens + shown.output_tokens if isinstance(shown, ModelStep) else 0,
        duration_ns=(shown.duration_ns or 0) if isinstance(shown, ModelStep | ToolStep) else 0,
    )


def _divergence(rows: Sequence[Row]) -> Divergence | None:
    for count, row in enumerate(rows):
        if row.kind is not RowKind.SAME:
            before = rows[count - 1] if count else None
            last = None
            if before is not None and before.a is not None and before.b is not None:
                last = (before.a.seq, before.b.seq)
            return Divergence(after_steps=count, last_common_seq=last, row=row)
    return None


def _relation(one: Run, other: Run) -> tuple[str, tuple[int, int] | None]:
    a, b = one.timeline, other.timeline
    if b.fork is not None and b.fork.task == a.task:
        return "b is a fork of a", (b.fork.seq, _first_own(other))
    if a.fork is not None and a.fork.task == b.task:
        return "a is a fork of b", (a.fork.seq, _first_own(one))
    if a.fork is not None and b.fork is not None and a.fork.task == b.fork.task:
        return "forks of one run", None
    return "", None


def _first_own(run: Run) -> int:
    forked = [step.seq for step in run.steps if step.place.kind == "task.forked"]
    return forked[0] if forked else 0


def _side(run: Run, name: str) -> Side:
    timeline, totals = run.timeline, run.timeline.totals
    answer = timeline.answer
    return Side(
        name=name,
        task=timeline.task,
        title=timeline.title,
        status=timeline.status,
        duration_ns=timeline.duration_ns,
        events=totals.events,
        steps=len(run.steps),
        turns=totals.turns,
        model_calls=totals.model_calls,
        tool_calls=totals.tool_calls,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost=totals.cost if timeline.currency else None,
        currency=timeline.currency,
        unpriced_calls=totals.unpriced_calls,
        failures=totals.failures + totals.tool_errors + totals.dead_letters,
        answer="" if answer is None else first_line(answer.text, _TEXT_CHARS),
        agents={
            agent.agent: agent.input_tokens + agent.output_tokens
            for agent in timeline.working_agents()
        },
        findings=dict(Counter(finding.detector for finding in timeline.findings)),
        forked_from=None if timeline.fork is None else timeline.fork.task,
        fork_seq=None if timeline.fork is None else timeline.fork.seq,
    )
