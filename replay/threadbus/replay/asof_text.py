"""The state of a run as of an entry, in lines for a person."""

from __future__ import annotations

from collections.abc import Sequence

from threadbus.replay.asof import AsOf, Ballot, ThreadNow, Work
from threadbus.replay.kept import Plan
from threadbus.replay.paint import Painter, Span
from threadbus.replay.text import duration, first_line, moment, offset, plural
from threadbus.replay.words import names, tokens
from threadbus.schemas import MAIN_THREAD

MAX_LISTED = 40
"""Lines of each list; how many more there are is said."""


def write_state(painter: Painter, now: AsOf) -> None:
    """Write everything that stood."""
    _head(painter, now)
    plans = {plan.id: plan for plan in now.plans}
    for thread in now.threads[:MAX_LISTED]:
        _thread(painter, thread, plans[thread.plan] if thread.plan is not None else None)
    _more(painter, len(now.threads))
    at = now.entry.at
    _list(painter, "Working", [_work(work, at) for work in now.working])
    _list(painter, "Asked, not begun", [_work(work, at) for work in now.waiting])
    asked = [
        f"{one.asked_by} has asked {now.opened_by or 'the opener'} for "
        f"{duration(at - one.asked_at)}: {first_line(one.text, 160)}"
        for one in now.requests
    ]
    _list(painter, "Open questions", asked)
    given = [
        f"{one.made_by} → {one.assignee}, {one.state} for {duration(at - one.changed_at)}: "
        f"{first_line(one.title, 160)}"
        for one in now.assignments
    ]
    _list(painter, "Open assignments", given)
    _list(painter, "Votes under way", [_ballot(ballot) for ballot in now.ballots])
    painter.flush()


def _head(painter: Painter, now: AsOf) -> None:
    clean, entry = painter.clean, now.entry
    painter.line([Span(clean(now.title) or "(no title)", "bold")])
    painter.line([Span("task ", "dim"), Span(now.task)])
    what = f"{entry.type} by {entry.sender}" if entry.sender else "an entry that is no event"
    where = f" in {entry.thread}" if entry.thread not in (None, MAIN_THREAD) else ""
    when = offset(entry.at - now.opened_at) if now.opened_at else moment(entry.at)
    line = f"as of entry {entry.seq:,} ({entry.number:,} of {entry.of:,}), {when}: {what}{where}"
    _wrapped(painter, line, "warn")
    counts = now.counts
    facts = [
        now.status.replace("_", " "),
        plural(counts["events"], "event"),
        plural(counts["messages"], "message"),
        plural(counts["model_calls"], "model call"),
        f"tokens {tokens(now.tokens['input'], now.tokens['output'])}",
        plural(counts["tool_calls"], "tool call"),
    ]
    if now.token_budget is not None:
        facts.append(f"{now.tokens['counted']:,} of a budget of {now.token_budget:,} tokens")
    if now.deadline_at is not None:
        facts.append(f"deadline {moment(now.deadline_at)}")
    if now.answers:
        facts.append(plural(len(now.answers), "answer"))
    if now.ignored:
        facts.append(f"{plural(now.ignored, 'event')} did not count")
    if now.fork is not None:
        facts.append(f"a fork of {now.fork.task} at {now.fork.seq:,}")
    _wrapped(painter, " · ".join(facts), "plain")


def _thread(painter: Painter, thread: ThreadNow, plan: Plan | None) -> None:
    clean = painter.clean
    painter.line()
    name = first_line(thread.title, 80) if thread.thread != MAIN_THREAD else ""
    shown = f"{name} ({thread.thread})" if name else thread.thread
    facts = ["open" if thread.is_open else thread.outcome or "closed", thread.state]
    if thread.next_speakers:
        facts.append(f"next {names(thread.next_speakers)}")
    head = [Span("thread ", "dim"), Span(clean(shown), "bold")]
    painter.line([*head, Span(clean(" · " + " · ".join(fact for fact in facts if fact)), "dim")])
    members = ", ".join(thread.participants) or "nobody"
    gone = f"; removed: {', '.join(thread.removed)}" if thread.removed else ""
    _wrapped(painter, f"  participants {members}{gone}", "plain")
    if plan is not None:
        _wrapped(painter, f"  plan {plan.version} by {plan.made_by}", "plain")
        for number, step in enumerate(plan.steps, 1):
            who = f" ({step.assignee})" if step.assignee else ""
            _wrapped(painter, f"    {number}. {first_line(step.title, 200)}{who}", "plain")


def _work(work: Work, at: int) -> str:
    since = f" for {duration(at - work.asked_at)}" if work.asked_at else ""
    again = f", attempt {work.attempt:,}" if work.attempt > 1 else ""
    asked = f": {first_line(work.asked, 100)}" if work.asked else ""
    last = f"; last it {first_line(work.last, 80)}" if work.last else ""
    where = f" in {work.thread}" if work.thread != MAIN_THREAD else ""
    return f"{work.agent} ← {work.woken_by or 'unknown'}{where}{since}{again}{asked}{last}"


def _ballot(ballot: Ballot) -> str:
    one = ballot.proposal
    votes = [f"{name} {verdict}" for name, verdict in one.votes.items()]
    missing = f"; not yet {names(ballot.missing)}" if ballot.missing else ""
    said = ", ".join(votes) or "no votes"
    text = first_line(one.text, 120)
    return f"{one.made_by} proposes: {text} ({ballot.needed} needed; {said}{missing})"


def _list(painter: Painter, title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    painter.line()
    painter.line([Span(title, "bold")])
    for line in lines[:MAX_LISTED]:
        _wrapped(painter, f"  {line}", "plain")
    _more(painter, len(lines))


def _more(painter: Painter, count: int) -> None:
    if count > MAX_LISTED:
        painter.line([Span(f"  and {count - MAX_LISTED:,} more", "dim")])


def _wrapped(painter: Painter, text: str, style: str) -> None:
    for line in painter.wrap(painter.clean(text), painter.width or 0):
        painter.line([Span(line, style)])
