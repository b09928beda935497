"""The report (Markdown): one run, for an issue tracker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from threadbus.replay.finding import Finding
from threadbus.replay.forms.changes import Change, changes
from threadbus.replay.forms.flat import Flat, limits_of
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.story import AnyStep, Timeline
from threadbus.replay.text import duration, first_line, moment, money, neutral, offset, plural, size
from threadbus.replay.words import thread_name, tokens, words_of

MAX_STEPS: Final = 300
"""Steps in the table of what happened; how many more there are is said."""

MAX_LISTED: Final = 50
"""Entries of each list."""

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~$&^!]|:(?=/)|(?<=www)\.)")
_LIST: Final = re.compile(r"^(\d*)([-+.)])(?=\s)")
_LINKED: Final = re.compile(r"[@#]|\bGH(?=-)", re.IGNORECASE)
_FENCE: Final = re.compile(r"`{3,}")
_MARKS: Final = {"violation": "⛔", "symptom": "⚠️", "hint": "💡"}


def write(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    """Write *timeline* as a report.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    flat = Flat(timeline, options.selection)
    yield f"# {escaped(timeline.title) or 'A run without its opening'}\n\n"
    yield from _summary(timeline, options)
    yield from _findings(flat)
    yield from _answer(timeline)
    yield from _agents(timeline)
    yield from _plans(timeline)
    yield from _votes(timeline)
    yield from _artifacts(timeline)
    yield from _steps(flat, options)
    yield from _again(timeline, options)


def escaped(text: str, limit: int = 300) -> str:
    """Return the first line of *text* as words: no markup, link, mention, number or HTML.

    A tracker links names and numbers in the finished text, which a backslash does not prevent; a
    space without a width does.
    """
    line = _SPECIAL.sub(r"\\\1", first_line(text, limit))
    return _LINKED.sub(lambda found: f"{found[0]}&#8203;", _LIST.sub(r"\1\\\2", line))


def fenced(text: str) -> str:
    """Return *text* as a block of code that its own fences cannot end."""
    lines = [neutral(line) for line in text.splitlines()] or ["(empty)"]
    longest = max([len(found[0]) for found in _FENCE.finditer("\n".join(lines))], default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def code(text: str) -> str:
    """Return *text* as a span of code, also in a cell of a table."""
    line = first_line(text, 200).replace("|", "\\|")
    longest = max([len(found) for found in re.findall("`+", line)], default=0)
    fence = "`" * (longest + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: str) -> Iterator[str]:
    """Write a table; *numbers* says for each column whether it is to the right (``r``)."""
    yield f"| {' | '.join(head)} |\n"
    yield "".join(["|---:" if side == "r" else "|---" for side in numbers]) + "|\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"
    yield "\n"


def _more(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f"…and {plural(count, f'more {what}')}.\n\n"


def _summary(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    totals = timeline.totals
    state = timeline.status.replace("_", " ")
    is_over = timeline.closed_at is not None
    until = timeline.duration_ns if is_over else max(options.now - _start(timeline), 0)
    facts = [f"**{state}** {'after' if is_over else 'for'} {duration(until)}"]
    facts.append(plural(len(timeline.working_agents()), "agent"))
    facts.append(plural(sum(one.turns for one in timeline.working_agents()), "turn"))
    if totals.model_calls:
        facts.append(plural(totals.model_calls, "model call"))
        facts.append(f"tokens {tokens(totals.input_tokens, totals.output_tokens)}")
        if timeline.currency:
            facts.append(f"cost {escaped(money(totals.cost, timeline.currency))}")
    if totals.tool_calls:
        facts.append(plural(totals.tool_calls, "tool call"))
    facts.append(plural(totals.events, "event"))
    yield " · ".join(facts) + "\n\n"
    who = f", opened by {escaped(timeline.opened_by)}" if timeline.opened_by else ""
    yield f"Task {code(timeline.task or 'unknown')}{who}, {moment(_start(timeline))}.\n\n"
    part = options.part()
    if part:
        yield f"Only {escaped(part)}; the numbers above are of the whole run.\n\n"
    for note in limits_of(timeline):
        yield f"{escaped(note)}\n\n"
    if totals.unreadable:
        word = "entry is" if totals.unreadable == 1 else "entries are"
        yield f"{totals.unreadable:,} {word} not readable.\n\n"
    if timeline.question and timeline.question.strip() != timeline.title.strip():
        yield f"## Question\n\n{fenced(timeline.question)}\n\n"


def _start(timeline: Timeline) -> int:
    return timeline.opened_at or timeline.first_at


def _findings(flat: Flat) -> Iterator[str]:
    if flat.suspects:
        yield "## Suspected causes\n\n"
        for number, one in enumerate(flat.suspects[:MAX_LISTED], 1):
            who = f"{escaped(one.agent)}, " if one.agent else ""
            why = "; ".join([escaped(reason) for reason in one.reasons])
            by = f" ({', '.join([code(name) for name in one.findings])})" if one.findings else ""
            time = offset(one.at - flat.start)
            yield f"{number}. {who}step {one.seq:,} at {time}, score {one.score:.2f}: {why}{by}\n"
        yield "\n"
        yield from _more(len(flat.suspects) - MAX_LISTED, "suspect")
    if not flat.findings:
        return
    yield "## Findings\n\n"
    rows = [
        (
            f"{_MARKS[one.kind.value]} {one.kind.value}",
            code(one.detector),
            f"{one.seq:,}",
            escaped(one.agent or ""),
            escaped(one.text),
        )
        for one in flat.findings[:MAX_LISTED]
    ]
    yield from _table(("kind", "detector", "step", "agent", "what"), rows, "llrll")
    yield from _more(len(flat.findings) - MAX_LISTED, "finding")


def _answer(timeline: Timeline) -> Iterator[str]:
    answer = timeline.answer
    yield "## Answer\n\n"
    if answer is None:
        if timeline.closed_at is None:
            yield "None yet.\n\n"
        else:
            yield f"Ended as {timeline.status} without one.\n\n"
            if timeline.summary:
                yield f"{fenced(timeline.summary)}\n\n"
        return
    accepted = "accepted" if timeline.accepted_answer == answer.id else "not accepted yet"
    yield f"By {escaped(answer.submitted_by)}, {accepted}.\n\n{fenced(answer.text)}\n\n"
    if answer.chars > len(answer.text):
        yield f"{plural(answer.chars - len(answer.text), 'more character')} left out.\n\n"
    for dissent in answer.dissent[:MAX_LISTED]:
        yield f"- dissent: {escaped(dissent)}\n"
    if answer.dissent:
        yield "\n"


def _agents(timeline: Timeline) -> Iterator[str]:
    agents = timeline.working_agents()
    if not agents:
        return
    yield "## Agents\n\n"
    head: tuple[str, ...] = (
        "agent",
        "turns",
        "waited",
        "worked",
        "model calls",
        "tokens",
        "tool calls",
        "failures",
    )
    rows: list[tuple[str, ...]] = [
        (
            escaped(one.agent),
            f"{one.turns:,}",
            duration(one.waited_ns),
            duration(one.worked_ns),
            f"{one.model_calls:,}",
            tokens(one.input_tokens, one.output_tokens) if one.model_calls else "-",
            f"{one.tool_calls:,}",
            f"{one.failures:,}",
        )
        for one in agents[:MAX_LISTED]
    ]
    sides = "lrrrrrrr"
    if timeline.currency:
        head, sides = (*head, "cost"), sides + "r"
        costs = [escaped(money(one.cost, timeline.currency)) for one in agents]
        rows = [(*row, cost) for row, cost in zip(rows, costs, strict=False)]
    yield from _table(head, rows, sides)
    yield from _more(len(agents) - MAX_LISTED, "agent")


def _plans(timeline: Timeline) -> Iterator[str]:
    plans = list(timeline.plans.values())
    if not plans:
        return
    yield "## Plans\n\n"
    for plan in plans[:MAX_LISTED]:
        where = escaped(thread_name(timeline, plan.thread))
        time = offset(plan.made_at - _start(timeline))
        who = escaped(plan.made_by)
        yield f"**Version {plan.version}** of thread {where}, by {who} at {time}"
        why = "; ".join([escaped(reason) for reason in plan.reasons])
        yield f" (because {why})\n\n" if why else "\n\n"
        for change in changes(plan, timeline.plans):
            yield _plan_line(change)
        yield "\n"
    yield from _more(len(plans) - MAX_LISTED, "version")


def _plan_line(change: Change) -> str:
    step = change.step
    who = f" ({escaped(step.assignee)})" if step.assignee else ""
    text = f"{escaped(step.title)}{who}"
    if change.kind == "removed":
        return f"- ❌ ~~{text}~~\n"
    if change.before is not None:
        was = change.before.assignee
        note = f"was {escaped(was)}'s" if was and was != step.assignee else "changed"
        return f"- ✏️ {text}, {note}\n"
    return f"- {'🆕 ' if change.kind == 'added' else ''}{text}\n"


def _votes(timeline: Timeline) -> Iterator[str]:
    proposals = list(timeline.proposals.values())
    if not proposals:
        return
    yield "## Votes\n\n"
    rows = [
        (
            escaped(one.text, 120),
            escaped(one.made_by),
            ", ".join([f"{escaped(name)}: {vote}" for name, vote in one.votes.items()]) or "none",
            str(one.quorum if one.quorum is not None else len(one.voters)),
            one.result or "open",
        )
        for one in proposals[:MAX_LISTED]
    ]
    yield from _table(("proposal", "by", "votes", "needed", "result"), rows, "lllrl")
    yield from _more(len(proposals) - MAX_LISTED, "vote")


def _artifacts(timeline: Timeline) -> Iterator[str]:
    artifacts = list(timeline.artifacts.values())
    if not artifacts:
        return
    yield "## Artifacts\n\n"
    rows = [
        (
            escaped(one.name, 120),
            escaped(one.made_by),
            code(one.media_type),
            size(one.size),
            code(one.sha256[:16]),
        )
        for one in artifacts[:MAX_LISTED]
    ]
    yield from _table(("name", "by", "type", "size", "sha256"), rows, "lllrl")
    yield from _more(len(artifacts) - MAX_LISTED, "artifact")


def _steps(flat: Flat, options: FormOptions) -> Iterator[str]:
    if not flat.acts:
        return
    found = flat.findings_by_seq()
    yield "<details><summary>What happened, step by step</summary>\n\n"
    rows = [
        (
            f"{step.seq:,}",
            offset(step.at - flat.start),
            escaped(thread_name(flat.timeline, step.thread), 40),
            escaped(step.agent),
            _words(step, flat.timeline, found.get(step.seq, [])),
        )
        for step, _ in flat.acts[:MAX_STEPS]
    ]
    yield from _table(("step", "time", "thread", "agent", "what"), rows, "rrlll")
    left = len(flat.acts) - MAX_STEPS
    if left > 0:
        page = options.command(flat.timeline, "html")
        yield f"{plural(left, 'more step')}; all of them in {code(page)}.\n\n"
    yield "</details>\n\n"


def _words(step: AnyStep, timeline: Timeline, found: list[Finding]) -> str:
    words = words_of(step, timeline)
    verb = escaped(words.verb, 120)
    if words.mood == "bad":
        verb = f"✗ {verb}"
    facts = f" ({escaped(', '.join(words.facts))})" if words.facts else ""
    text = f"{words.lead}{escaped(words.text, 200)}" if words.text else ""
    marks = "".join(
        [f" **{_MARKS[one.kind.value]} {one.detector}: {escaped(one.text)}**" for one in found]
    )
    return f"{verb}{facts}{text}{marks}"


def _again(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    yield "## See it again\n\n"
    export = options.command(timeline, "jsonl")
    lines = (
        options.command(timeline, "tree"),
        f"{export} > run.jsonl",
        "busreplay --file run.jsonl --format html > run.html",
    )
    yield "```console\n" + "".join([f"$ {line}\n" for line in lines]) + "```\n"
