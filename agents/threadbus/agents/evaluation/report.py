"""What an evaluation comes to: as data, and as Markdown for people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import comb
from typing import Final

import msgspec

from threadbus.agents.evaluation.questions import Question
from threadbus.agents.evaluation.records import Outcome, Records
from threadbus.schemas import shorten

_MAX_CELL_CHARS: Final = 80


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One question with what came of it."""

    id: str
    level: str
    expected: str | None
    attempts: list[Outcome]
    """Those that have ended, in order."""

    @property
    def right(self) -> int:
        """How many attempts were right."""
        return sum(outcome.right is True for outcome in self.attempts)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of one level."""

    level: str
    questions: int
    pass_at: list[float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole evaluation."""

    questions_file: str
    asked: str
    started_at: int
    """Nanoseconds since the epoch."""
    made_at: int
    questions: int
    scored: int
    """Questions with a known answer of which every attempt has ended."""
    attempts: int
    """Of each question."""
    ended: int
    """Attempts that have ended, of all questions."""
    without_answer: int
    pass_at: list[float]
    """pass@1 to pass@k: how likely one of so many attempts is right."""
    levels: list[Group]
    input_tokens: int
    output_tokens: int
    model_calls: int
    cost: float | None
    """In dollars; None without prices."""
    results: list[Asked]


def make_report(
    questions: Sequence[Question], records: Records, *, file: str, asked: str, attempts: int
) -> Report:
    """Sum up what is known.

    Args:
        questions: what was asked.
        records: what came of it.
        file: the file of questions, for people.
        asked: who answered, for people.
        attempts: how many of each question.
    """
    rows = [_asked(question, records, attempts) for question in questions]
    scored = [row for row in rows if row.expected is not None and len(row.attempts) == attempts]
    ended = [outcome for row in rows for outcome in row.attempts]
    costs = [outcome.cost for outcome in ended if outcome.cost is not None]
    levels = sorted({row.level for row in scored} - {""})
    return Report(
        questions_file=file,
        asked=asked,
        started_at=records.started_at,
        made_at=time.time_ns(),
        questions=len(rows),
        scored=len(scored),
        attempts=attempts,
        ended=len(ended),
        without_answer=sum(outcome.status != "completed" for outcome in ended),
        pass_at=_pass_at(scored, attempts),
        levels=[
            Group(level=level, questions=len(of), pass_at=_pass_at(of, attempts))
            for level in levels
            if (of := [row for row in scored if row.level == level])
        ],
        input_tokens=sum(outcome.input_tokens for outcome in ended),
        output_tokens=sum(outcome.output_tokens for outcome in ended),
        model_calls=sum(outcome.model_calls for outcome in ended),
        cost=sum(costs) if costs else None,
        results=rows,
    )


def pass_at_k(attempts: int, right: int, k: int) -> float:
    """Return how likely at least one of *k* attempts is right, of which *right* of all were.

    The usual unbiased estimate: 1 - C(attempts - right, k) / C(attempts, k).
    """
    return 1.0 - comb(attempts - right, k) / comb(attempts, k)


def to_markdown(report: Report) -> str:
    """Write a report for people."""
    percent = [f"{100 * value:.1f} %" for value in report.pass_at]
    costs = "" if report.cost is None else f", {report.cost:.4f} dollars"
    lines = [
        f"# {_cell(report.questions_file)}: {_cell(report.asked)}",
        "",
        f"{report.ended} of {report.questions * report.attempts} attempts have ended, "
        f"{report.without_answer} without an answer; {report.scored} of {report.questions} "
        "questions are scored.",
        "",
        f"Tokens: {report.input_tokens:,} in, {report.output_tokens:,} out, "
        f"{report.model_calls:,} calls of a model{costs}.",
        "",
        f"| Level | Questions |{''.join(f' pass@{k} |' for k in range(1, len(percent) + 1))}",
        f"|---|---:|{'---:|' * len(percent)}",
        f"| all | {report.scored} |{''.join(f' {value} |' for value in percent)}",
    ]
    for group in report.levels:
        values = "".join(f" {100 * value:.1f} % |" for value in group.pass_at)
        lines.append(f"| {_cell(group.level)} | {group.questions} |{values}")
    lines += [
        "",
        "| Question | Expected | Attempt | Said | Right | Tokens | Super-task |",
        "|---|---|---:|---|---|---:|---|",
    ]
    for row in report.results:
        lines += [_line(row, outcome) for outcome in row.attempts]
    return "\n".join(lines) + "\n"


def _line(row: Asked, outcome: Outcome) -> str:
    verdict = {True: "yes", False: "no", None: "?"}[outcome.right]
    said = outcome.said or f"({outcome.status}: {outcome.why})"
    tokens = outcome.input_tokens + outcome.output_tokens
    return (
        f"| {_cell(row.id)} | {_cell(row.expected or '?')} | {outcome.attempt} | {_cell(said)} "
        f"| {verdict} | {tokens:,} | `{outcome.task}` |"
    )


def _asked(question: Question, records: Records, attempts: int) -> Asked:
    found = (records.outcomes.get((question.id, number)) for number in range(1, attempts + 1))
    return Asked(
        id=question.id,
        level=question.level,
        expected=question.answer,
        attempts=[one for one in found if one is not None and one.digest == question.digest],
    )


def _pass_at(rows: Sequence[Asked], attempts: int) -> list[float]:
    if not rows:
        return [0.0] * attempts
    return [
        sum(pass_at_k(attempts, row.right, k) for row in rows) / len(rows)
        for k in range(1, attempts + 1)
    ]


def _cell(text: str) -> str:
    """Return text for a cell of a table: what others wrote must not end it, nor be markup."""
    shown = shorten(text.replace("\n", " "), _MAX_CELL_CHARS)
    for sign in "\\`*_[]<>|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown
