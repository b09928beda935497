"""The checker: a log and histories in, a verdict out. Pure; it knows nothing of how a run was made.

The histories say what was promised, the log what is there. Everything that an agent owes (a mention
handled, a task ended) is read from the log alone, by the rules that any reader of it goes by.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from tests.chaos.history import History, Phase
from tests.chaos.verdict import Breach, Verdict
from threadbus.bus import TaskState, fold_task, is_pause
from threadbus.replay import LogItem, TimelineFold
from threadbus.replay.verifying import ProblemKind, Verifier
from threadbus.schemas import (
    AnswerSubmitted,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    Recorded,
    TaskForked,
    TaskId,
    partition_of_seq,
)


def check(
    items: Iterable[LogItem],
    histories: Sequence[History] = (),
    *,
    complete: Collection[str] = (),
    outside: Collection[str] = (),
) -> Verdict:
    """Hold a log against histories and against itself.

    Args:
        items: the log of any number of super-tasks, each in log order.
        histories: what writers noted.
        complete: senders of whom the histories tell everything: what else they said is invented.
        outside: names that are mentioned and are no agents, people for instance; others too that
            nobody answers for.
    """
    verdict = Verdict()
    tasks: dict[TaskId, list[LogItem]] = defaultdict(list)
    places: dict[EventId, list[Recorded]] = defaultdict(list)
    for item in items:
        if isinstance(item, Recorded):
            tasks[item.event.task].append(item)
            places[item.event.id].append(item)
        else:
            verdict.add(Breach.INCOMPLETE, f"entry {item.seq:,} cannot be read: {item.reason}")
    verdict.events = len(places)
    for event_id, found in places.items():
        if len(found) > 1:
            verdict.doubled += 1
            where = ", ".join(f"{one.seq:,}" for one in found)
            text = f"{found[0].event.type} {event_id} stands at {where}"
            verdict.add(Breach.DOUBLED, text, found[0].event.task)
    _check_histories(verdict, histories, places, complete)
    for task, log in tasks.items():
        _check_task(verdict, task, log, {*outside, *complete})
    return verdict


def _check_histories(
    verdict: Verdict,
    histories: Sequence[History],
    places: dict[EventId, list[Recorded]],
    complete: Collection[str],
) -> None:
    sent: dict[EventId, TaskId] = {}
    ends: dict[EventId, Phase] = {}
    told: dict[EventId, int] = {}
    for history in histories:
        # A log of several streams keeps an order within each.
        newest, floors = dict[int, int](), dict[EventId, dict[int, int]]()
        for step in history.steps:
            event = step.event
            if step.phase is Phase.INVOKE:
                sent.setdefault(event, step.task)
                floors.setdefault(event, dict(newest))
                continue
            sent.setdefault(event, step.task)
            # What was acknowledged once stays so, whatever a second attempt is told.
            if ends.get(event) is not Phase.OK:
                ends[event] = step.phase
            if step.phase is not Phase.OK:
                continue
            if step.seq:
                told[event] = step.seq
            at = places[event][0].seq if event in places else 0
            place = partition_of_seq(at)
            floor = floors.get(event, {}).get(place, 0)
            if 0 < at < floor:
                text = f"{event} at {at:,} was sent after entry {floor:,} was acknowledged"
                verdict.add(Breach.REORDERED, f"{history.name}: {text}", step.task)
            newest[place] = max(newest.get(place, 0), at)
    verdict.sent = len(sent)
    for event, task in sent.items():
        _check_promise(
            verdict, event, task, ends.get(event, Phase.INFO), told.get(event, 0), places
        )
    for event, found in places.items():
        if found[0].event.sender in complete and event not in sent:
            text = f"{found[0].event.type} {event} of {found[0].event.sender} was never sent"
            verdict.add(Breach.INVENTED, text, found[0].event.task)


def _check_promise(
    verdict: Verdict,
    event: EventId,
    task: TaskId,
    end: Phase,
    told: int,
    places: dict[EventId, list[Recorded]],
) -> None:
    found = places.get(event, [])
    if end is Phase.OK:
        verdict.acknowledged += 1
        verdict.found += len(found) == 1
        if not found:
            text = f"{event} was acknowledged at {told:,} and is not in the log"
            verdict.add(Breach.LOST, text, task)
        elif told and told not in [one.seq for one in found]:
            text = f"{event} was acknowledged at {told:,} and stands at {found[0].seq:,}"
            verdict.add(Breach.MOVED, text, task)
    elif end is Phase.FAIL:
        verdict.refused += 1
        if found:
            text = f"{event} was refused and stands at {found[0].seq:,}"
            verdict.add(Breach.GHOST, text, task)
    else:
        verdict.unknown += 1
        verdict.unknown_found += bool(found)


def _check_task(
    verdict: Verdict, task: TaskId, log: Sequence[LogItem], outside: Collection[str]
) -> None:
    recorded = [item for item in log if isinstance(item, Recorded)]
    waiting = _check_mentions(verdict, task, recorded, outside)
    answers = Counter(
        (event.sender, event.cause)
        for event in {item.event.id: item.event for item in recorded}.values()
        if isinstance(event.data, AnswerSubmitted) and event.cause is not None
    )
    for (sender, cause), count in answers.items():
        if count > 1:
            text = f"{sender} gave {count} answers to {cause}"
            verdict.add(Breach.ANSWERED_TWICE, text, task)
    _check_end(verdict, fold_task(task, recorded), waiting)
    _check_replay(verdict, task, log)


def _check_mentions(
    verdict: Verdict, task: TaskId, log: Sequence[Recorded], outside: Collection[str]
) -> int:
    """Count what became of each mention; return how many wait."""
    handled: set[tuple[str, EventId | None]] = set()
    dead: set[tuple[str, EventId | None]] = set()
    over: set[tuple[str, EventId | None]] = set()
    for item in log:
        event = item.event
        match event.data:
            case HandlingEnded():
                handled.add((event.sender, event.cause))
            case MentionDeadLettered():
                dead.add((event.sender, event.cause))
            case HandlingFailed(retry_in_ns=None):
                over.add((event.sender, event.cause))
            case _:
                pass
    waiting = 0
    for event in {item.event.id: item.event for item in log}.values():
        for name in event.mentions if _wakes(event) else ():
            if name in outside:
                continue
            verdict.mentions += 1
            key = (name, event.id)
            verdict.handled += key in handled
            verdict.dead_lettered += key in dead and key not in handled
            verdict.ended_badly += key in over and key not in handled | dead
            if key not in handled | dead | over:
                waiting += 1
                text = f"{event.type} {event.id} was never settled by {name}"
                verdict.add(Breach.UNHANDLED, text, task)
    return waiting


def _wakes(event: Event) -> bool:
    """Whether those mentioned owe a turn: what is seen, a wait and a fork are settled otherwise."""
    return (
        event.event_class is not EventClass.OBS
        and not is_pause(event)
        and not isinstance(event.data, TaskForked)
    )


def _check_end(verdict: Verdict, state: TaskState, waiting: int) -> None:
    if not state.exists:
        return
    verdict.tasks += 1
    if not state.is_open:
        verdict.ended += 1
    elif state.requests or waiting:
        # It goes on when the answer, or the agent, comes.
        verdict.resumable += 1
    else:
        text = f"is {state.status.value}, and nobody is asked for anything any more"
        verdict.add(Breach.STRANDED, text, state.task)


def _check_replay(verdict: Verdict, task: TaskId, log: Sequence[LogItem]) -> None:
    verifier, fold = Verifier(), TimelineFold()
    for item in log:
        verifier.take(item)
        fold.apply(item)
    before = verdict.breaches
    totals = fold.timeline.totals
    events = len({item.event.id for item in log if isinstance(item, Recorded)})
    if totals.events != events or totals.foreign:
        text = f"{totals.events:,} of {events:,} events are in the replay"
        verdict.add(Breach.INCOMPLETE, text, task)
    for mention, agent in sorted(fold.running):
        verdict.add(Breach.INCOMPLETE, f"the turn of {agent} for {mention} never ends", task)
    for problem in verifier.finish().problems:
        if problem.kind is ProblemKind.VIOLATION and problem.check != "duplicate":
            verdict.add(Breach.UNSOUND, f"entry {problem.seq:,}: {problem.text}", task)
    verdict.replayed += verdict.breaches == before
