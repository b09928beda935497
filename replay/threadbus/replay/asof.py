"""A run as of one of its entries: what stood, who worked on what, what was open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.bus import TaskState, ThreadState
from threadbus.replay.errors import PointError
from threadbus.replay.kept import Assignment, Fork, InputRequest, Plan, Proposal
from threadbus.replay.source import LogItem
from threadbus.replay.story import Timeline, Turn, TurnOutcome
from threadbus.replay.timeline import TimelineFold
from threadbus.replay.words import words_of
from threadbus.schemas import AgentName, EventId, Recorded, TaskId, ThreadId

FORMAT: Final = "threadbus.as-of/1"
"""What ``format`` says in the JSON document; the number rises when a field changes meaning."""

_OPEN_WORK: Final = frozenset({"made", "accepted", "progressed"})


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The entry that the state is as of: what happened last."""

    seq: int
    at: int
    number: int
    """Which entry of the run it is, from 1."""
    of: int
    """How many entries the run has by now."""
    id: EventId | None = None
    """Absent where the entry is no event."""
    type: str = ""
    sender: AgentName | None = None
    thread: ThreadId | None = None


class ThreadNow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thread."""

    thread: ThreadId
    title: str = ""
    parent: ThreadId | None = None
    is_open: bool
    state: str = ""
    """The state of the conversation."""
    next_speakers: tuple[AgentName, ...] = ()
    participants: tuple[AgentName, ...] = ()
    removed: tuple[AgentName, ...] = ()
    outcome: str = ""
    last_ctl_seq: int = 0
    """The sequence of the last control event: what the guard compared with."""
    plan: EventId | None = None
    """The current version of the plan, one of ``plans``."""


class Work(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One mention that was not settled: its agent works on it, or it waits."""

    agent: AgentName
    thread: ThreadId
    mention: EventId
    woken_by: AgentName | None = None
    asked: str = ""
    asked_at: int = 0
    has_begun: bool = False
    attempt: int = 0
    last: str = ""
    """What it did last about it."""


class Ballot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A proposal that was not decided, and the votes so far."""

    proposal: Proposal
    missing: tuple[AgentName, ...] = ()
    needed: int = 0


class AsOf(msgspec.Struct, kw_only=True):
    """Everything together."""

    format: str = FORMAT
    task: TaskId
    title: str
    entry: Entry
    status: str
    opened_by: AgentName | None
    opened_at: int
    closed_at: int | None
    fork: Fork | None
    deadline_at: int | None
    token_budget: int | None
    tokens: dict[str, int]
    """Input and output tokens so far, and those that count against the budget."""
    counts: dict[str, int]
    threads: list[ThreadNow]
    plans: list[Plan]
    """The current plan of each thread that has one."""
    working: list[Work]
    waiting: list[Work]
    requests: list[InputRequest]
    """Questions to whoever opened the task that were not answered."""
    assignments: list[Assignment]
    """Work that was given and not ended."""
    ballots: list[Ballot]
    answers: list[EventId]
    ignored: int
    """Events of strangers and repeated ones, which did not count."""


def state_at(entries: Sequence[LogItem], seq: int) -> AsOf:
    """Return the state of a run right after the entry at *seq*.

    Args:
        entries: the run, to its end or not.
        seq: the sequence of one of them.

    Raises:
        PointError: there is no event up to there.
    """
    fold = TimelineFold()
    state: TaskState | None = None
    last: LogItem | None = None
    number = 0
    for item in entries:
        if item.seq > seq:
            break
        number, last = number + 1, item
        fold.apply(item)
        if isinstance(item, Recorded):
            state = state or TaskState(task=item.event.task)
            state.apply(item)
    if last is None or state is None:
        raise PointError(str(seq), "there is no event up to it")
    timeline = fold.timeline
    current = {plan.thread: plan for plan in timeline.plans.values()}
    open_turns = timeline.open_turns()
    running = [turn for turn in _turns(timeline) if turn.is_running and turn not in open_turns]
    unsettled = sorted([*open_turns, *running], key=lambda turn: turn.seq)
    works = [_work(turn, timeline) for turn in unsettled]
    return AsOf(
        task=state.task,
        title=timeline.title,
        entry=_entry(last, number, len(entries)),
        status=state.status.value if state.exists else timeline.status,
        opened_by=timeline.opened_by,
        opened_at=timeline.opened_at,
        closed_at=timeline.closed_at,
        fork=timeline.fork,
        deadline_at=timeline.deadline_at,
        token_budget=timeline.token_budget,
        tokens={
            "input": timeline.totals.input_tokens,
            "output": timeline.totals.output_tokens,
            "counted": state.tokens_used,
        },
        counts={
            "events": timeline.totals.events,
            "messages": timeline.totals.messages,
            "model_calls": timeline.totals.model_calls,
            "tool_calls": timeline.totals.tool_calls,
            "failures": timeline.totals.failures,
        },
        threads=[_thread(thread, current) for thread in state.threads.values() if thread.exists],
        plans=list(current.values()),
        working=[work for work in works if work.has_begun],
        waiting=[work for work in works if not work.has_begun],
        requests=[one for one in timeline.requests.values() if one.answered_at is None],
        assignments=[one for one in timeline.assignments.values() if one.state in _OPEN_WORK],
        ballots=[_ballot(one) for one in timeline.proposals.values() if not one.result],
        answers=list(state.answers),
        ignored=timeline.totals.duplicates
        + state.ignored
        + sum([thread.ignored for thread in state.threads.values()]),
    )


def _entry(item: LogItem, number: int, of: int) -> Entry:
    if not isinstance(item, Recorded):
        return Entry(seq=item.seq, at=item.stored_at, number=number, of=of)
    event = item.event
    return Entry(
        seq=item.seq,
        at=item.stored_at or event.at,
        number=number,
        of=of,
        id=event.id,
        type=event.type,
        sender=event.sender,
        thread=event.thread,
    )


def _thread(state: ThreadState, plans: dict[ThreadId, Plan]) -> ThreadNow:
    plan = plans.get(state.thread)
    return ThreadNow(
        thread=state.thread,
        title=state.title,
        parent=state.parent,
        is_open=state.is_open,
        state=state.conversation.value,
        next_speakers=state.next_speakers,
        participants=tuple(state.participants),
        removed=tuple(sorted(state.removed)),
        outcome=state.outcome,
        last_ctl_seq=state.last_ctl_seq,
        plan=None if plan is None else plan.id,
    )


def _turns(timeline: Timeline) -> list[Turn]:
    return [
        entry
        for thread in timeline.threads.values()
        for entry in thread.entries
        if isinstance(entry, Turn) and entry.outcome is TurnOutcome.REPLIED
    ]


def _work(turn: Turn, timeline: Timeline) -> Work:
    last = turn.steps[-1] if turn.steps else None
    return Work(
        agent=turn.agent,
        thread=turn.thread,
        mention=turn.mention,
        woken_by=turn.woken_by,
        asked=turn.asked,
        asked_at=turn.asked_at,
        has_begun=turn.has_begun,
        attempt=turn.attempt,
        last="" if last is None else words_of(last, timeline).verb,
    )


def _ballot(proposal: Proposal) -> Ballot:
    voters = proposal.voters
    return Ballot(
        proposal=proposal,
        missing=tuple([name for name in voters if name not in proposal.votes]),
        needed=len(voters) if proposal.quorum is None else proposal.quorum,
    )
