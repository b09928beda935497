"""What a fork consists of, from the log that it is made of; nothing is written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from threadbus.bus import TaskState
from threadbus.replay.errors import ForkError
from threadbus.replay.forking.ids import CopyIds
from threadbus.replay.forking.wakes import Turns
from threadbus.replay.source import LogItem
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    AssignmentMade,
    Event,
    EventClass,
    EventId,
    ForkedFrom,
    InputGiven,
    MessagePosted,
    OpaqueData,
    Origin,
    ProposalMade,
    Recorded,
    TaskForked,
    TaskId,
    TaskOpened,
    TextPart,
    ThreadOpened,
    Wake,
    derive_event_id,
    make_event,
)

GRACE_NS: Final = 60_000_000_000
"""Nanoseconds from the fork that a deadline is put off to, where it had passed at the point."""

_MAX_AGENTS: Final = 16
_MAX_WAKES: Final = 256
_MAX_PARTICIPANTS: Final = 256
_ASKING: Final = (TaskOpened, MessagePosted, AssignmentMade, InputGiven, ProposalMade)
_ALWAYS: Final = (
    "what agents keep in memory, or in files of their own, is as it is now",
    "what tools did outside the log has happened and is not undone",
    "models are asked anew where a turn begins anew; they may say something else",
)


class ForkPlan(msgspec.Struct, kw_only=True):
    """What would be written."""

    task: TaskId
    """The fork."""
    origin: ForkedFrom
    cut_at: int
    """When the last entry that is copied was stored, nanoseconds since the epoch."""
    copies: list[Event]
    """The beginning, in the order of the log. None of them wakes anybody."""
    last: Event
    """The end of the copies: ``task.forked``."""
    left_out: dict[str, int]
    """What is not copied, in words, with how often it came."""

    @property
    def wakes(self) -> tuple[Wake, ...]:
        """Who is woken again, and for what."""
        data = self.last.data
        return data.wakes if isinstance(data, TaskForked) else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fork cannot take along, in sentences for a person."""
        data = self.last.data
        return data.notes if isinstance(data, TaskForked) else ()


class _Kept(msgspec.Struct):
    originals: list[Recorded]
    state: TaskState
    left_out: Counter[str]


def plan_fork(
    entries: Sequence[LogItem], seq: int, fork: TaskId, *, now: int, edit: str = ""
) -> ForkPlan:
    """Plan a fork of a run at one of its entries.

    Args:
        entries: the whole log of the run.
        seq: the last sequence that is copied.
        fork: the id of the fork. The same arguments give the same ids.
        now: nanoseconds since the epoch; what was left of a deadline counts from here.
        edit: what the last thing that was asked, up to *seq*, is to say instead.

    Raises:
        ForkError: there is nothing to copy, the run was over by then, or too much was open.
    """
    events = [item for item in entries if isinstance(item, Recorded)]
    turns = Turns(events)
    kept = _keep(entries, seq, turns)
    state, originals = kept.state, kept.originals
    if not state.exists:
        raise ForkError(
            f"at {seq:,}", "the task was not opened by then", "name an entry after the copies"
        )
    if not state.is_open:
        raise ForkError(f"at {seq:,}", f"the task had ended as {state.status}", "fork earlier")
    if state.forked_from is not None and not state.is_fork_whole:
        raise ForkError(
            f"at {seq:,}",
            "that is inside the copy of another fork",
            "name an entry after the copies",
        )
    cut_at = max(item.stored_at or item.event.at for item in originals)
    edited = _last_asked(originals) if edit else None
    if edit and edited is None:
        raise ForkError(f"at {seq:,}", "nothing was asked by then that --with could edit", "later")
    mentions = {item.event.id: item.event for item in originals}
    originals = [
        item
        for item in originals
        if not turns.is_begun_anew(item.event, state, mentions.get(item.event.cause or EventId("")))
    ]
    origin = ForkedFrom(task=originals[0].event.task, seq=seq, events=len(originals), edit=edit)
    ids = CopyIds(fork)
    rest = _rest_before_fork(events)
    copies: list[Event] = []
    wakes: list[Wake] = []
    for item in originals:
        event = item.event
        copied = ids.add(event)
        is_edited = event.id == edited
        data = _data(ids.translate(event.data), event, origin, now - cut_at, now)
        if is_edited:
            data = msgspec.structs.replace(data, parts=(TextPart(edit),))
        copies.append(
            msgspec.structs.replace(
                event,
                id=copied,
                task=fork,
                cause=ids.find(event.cause),
                mentions=(),
                data=data,
                origin=Origin(
                    task=event.task,
                    id=event.id,
                    seq=item.seq,
                    at=_stood_at(item, rest),
                    mentions=event.addressees,
                    edited=is_edited,
                ),
            )
        )
        wakes += [
            Wake(agent=name, event=copied)
            for name in event.addressees
            if turns.is_open(event, name, state)
        ]
    notes = (*_ALWAYS, *[f"{count:,}: {what}" for what, count in kept.left_out.items()])
    return ForkPlan(
        task=fork,
        origin=origin,
        cut_at=cut_at,
        copies=copies,
        last=_last(copies[0], origin, state, wakes, notes, now),
        left_out=dict(kept.left_out),
    )


def _rest_before_fork(events: Sequence[Recorded]) -> int:
    """Return how long nothing happened between what a fork was copied from, and the fork."""
    forked = next((item for item in events if isinstance(item.event.data, TaskForked)), None)
    copied = [origin.at for item in events if (origin := item.event.copy_of) is not None]
    return max(forked.stored_at - max(copied), 0) if forked is not None and copied else 0


def _stood_at(item: Recorded, rest: int) -> int:
    """Return when something happened, in nanoseconds since the epoch, without that rest: a copy
    of a copy keeps its distance to what came before and after it."""
    origin = item.event.copy_of
    return item.stored_at or item.event.at if origin is None else origin.at + rest


def _keep(entries: Sequence[LogItem], seq: int, turns: Turns) -> _Kept:
    """Return what counts up to *seq*: anything else the guard would refuse in the fork, too."""
    first = next((item for item in entries if isinstance(item, Recorded)), None)
    state = TaskState(task=first.event.task if first is not None else TaskId(""))
    kept = _Kept(originals=[], state=state, left_out=Counter())
    for item in entries:
        if item.seq > seq:
            break
        if not isinstance(item, Recorded):
            kept.left_out["entry that is no event, left out"] += 1
            continue
        event = item.event
        if isinstance(event.data, TaskForked):
            # The fork that this one is made of: its copies stay copies of what they are.
            state.apply(item)
            continue
        problem = _problem(state, item)
        if problem:
            kept.left_out[problem] += 1
            continue
        kept.originals.append(item)
        turns.take(event)
    return kept


def _problem(state: TaskState, item: Recorded) -> str:
    """Fold an event in and say why it does not count, if it does not."""
    event = item.event
    if event.id in state.seen:
        state.apply(item)
        return "event that was there before, left out"
    thread = state.thread(event.thread)
    was_over = thread.exists and not thread.is_open and event.event_class is not EventClass.OBS
    before = state.ignored + thread.ignored
    state.apply(item)
    if not thread.exists and event.event_class is EventClass.CTL:
        return "control event before the opening, left out"
    if state.ignored + thread.ignored > before:
        return "event from outside its thread, left out"
    return "event after the end of its thread, left out" if was_over else ""


def _last_asked(originals: Sequence[Recorded]) -> EventId | None:
    asked = (item.event.id for item in reversed(originals) if isinstance(item.event.data, _ASKING))
    return next(asked, None)


def _data(data: AnyData, event: Event, origin: ForkedFrom, later_by: int, now: int) -> AnyData:
    if isinstance(data, OpaqueData):
        return data
    changes: dict[str, Any] = {}
    deadline = getattr(data, "deadline_at", None)
    if deadline is not None:
        changes["deadline_at"] = max(deadline + later_by, now + GRACE_NS)
    if isinstance(data, TaskOpened | ThreadOpened):
        # The opening lets those in whom it mentions, and a copy mentions nobody.
        names = dict.fromkeys((*data.participants, *event.addressees))
        changes["participants"] = tuple(names)[:_MAX_PARTICIPANTS]
    if isinstance(data, TaskOpened):
        changes["forked_from"] = origin
    return msgspec.structs.replace(data, **changes) if changes else data


def _last(
    opening: Event,
    origin: ForkedFrom,
    state: TaskState,
    wakes: Sequence[Wake],
    notes: tuple[str, ...],
    now: int,
) -> Event:
    agents = tuple(dict.fromkeys(AgentName(wake.agent) for wake in wakes))
    if len(agents) > _MAX_AGENTS or len(wakes) > _MAX_WAKES:
        raise ForkError(
            f"at {origin.seq:,}",
            f"{len(wakes):,} mentions of {len(agents):,} agents were open by then; one event wakes "
            f"at most {_MAX_AGENTS} agents, for {_MAX_WAKES} mentions",
            "fork where less was open",
        )
    main = state.thread(MAIN_THREAD).participants
    sender = opening.sender if opening.sender in main else next(iter(main), opening.sender)
    return make_event(
        TaskForked(origin=origin, status=state.status, wakes=tuple(wakes), notes=notes),
        task=opening.task,
        thread=MAIN_THREAD,
        sender=sender,
        mentions=agents,
        cause=opening.id,
        event_id=derive_event_id(opening.id, sender, "forked"),
        at=now,
    )
