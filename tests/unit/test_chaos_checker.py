"""The chaos checker: it passes what is sound, and finds each thing that is not."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.chaos.check import main
from tests.chaos.checking import check
from tests.chaos.history import HistoryFileError, Journal, Phase, Step, read_history
from tests.chaos.verdict import Breach, Verdict
from tests.support.chaos_logs import AGENTS, WRITER, MadeRun, sound_run
from threadbus.replay.export import end_line, head_line
from threadbus.schemas import (
    AnswerSubmitted,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MessagePosted,
    Recorded,
    Rejected,
    TaskClosed,
    TaskId,
    encode_event,
    export_line,
)

_SEEDS = range(6)


def _verdict(run: MadeRun, *more: Rejected) -> Verdict:
    return check([*run.log, *more], run.histories, complete=[WRITER])


def _acknowledged(run: MadeRun) -> list[Recorded]:
    """The messages that the writer was told of, which nothing else depends on."""
    ids = {step.event for step in run.steps if step.phase is Phase.OK}
    return [
        one
        for one in run.of(MessagePosted, sender=WRITER)
        if one.event.id in ids and not one.event.mentions
    ]


def _rich_run(seed: int) -> MadeRun:
    """A sound run that has some of everything."""
    return next(
        made
        for made in map(sound_run, range(seed * 100, seed * 100 + 100))
        if len(_acknowledged(made)) > 2
    )


def _other_id(event_id: EventId) -> EventId:
    return EventId(event_id[:-4] + f"{int(event_id[-4:], 16) ^ 1:04x}")


def _lose(run: MadeRun, chance: random.Random) -> None:
    run.replace(chance.choice(_acknowledged(run)))


def _double(run: MadeRun, chance: random.Random) -> None:
    old = chance.choice(run.of(MessagePosted))
    again = msgspec.structs.replace(old, seq=old.seq + 1)
    run.replace(old, old, again)


def _haunt(run: MadeRun, chance: random.Random) -> None:
    event = chance.choice(_acknowledged(run)).event.id
    run.steps = [
        msgspec.structs.replace(step, phase=Phase.FAIL, seq=0)
        if step.event == event and step.phase is Phase.OK
        else step
        for step in run.steps
    ]


def _invent(run: MadeRun, chance: random.Random) -> None:
    event = chance.choice(_acknowledged(run)).event.id
    run.steps = [step for step in run.steps if step.event != event]


def _move(run: MadeRun, chance: random.Random) -> None:
    event = chance.choice(_acknowledged(run)).event.id
    run.steps = [
        msgspec.structs.replace(step, seq=step.seq + 500)
        if step.event == event and step.phase is Phase.OK
        else step
        for step in run.steps
    ]


def _reorder(run: MadeRun, chance: random.Random) -> None:
    """Let what was sent last stand where what was acknowledged first stands."""
    said = _acknowledged(run)
    first, last = said[0], said[-1]
    at = {first.event.id: last.seq, last.event.id: first.seq}
    run.replace(last, msgspec.structs.replace(last, seq=first.seq))
    run.replace(first, msgspec.structs.replace(first, seq=last.seq))
    run.steps = [
        msgspec.structs.replace(step, seq=at[step.event])
        if step.event in at and step.phase is Phase.OK
        else step
        for step in run.steps
    ]


def _forget(run: MadeRun, chance: random.Random) -> None:
    cause = chance.choice(run.of(HandlingEnded, MentionDeadLettered)).event.cause
    kinds = (HandlingEnded, HandlingFailed, MentionDeadLettered)
    sender = next(one.event.sender for one in run.of(*kinds) if one.event.cause == cause)
    for one in run.of(*kinds, sender=sender):
        if one.event.cause == cause:
            run.replace(one)


def _answer_again(run: MadeRun, chance: random.Random) -> None:
    old = chance.choice(run.of(AnswerSubmitted))
    event = msgspec.structs.replace(old.event, id=_other_id(old.event.id))
    run.replace(old, old, Recorded(old.seq, event, old.stored_at, encode_event(event)))


def _strand(run: MadeRun, chance: random.Random) -> None:
    run.replace(chance.choice(run.of(TaskClosed)))


def _break_off(run: MadeRun, chance: random.Random) -> None:
    """Leave a turn without an end: that it began is all that is known of it."""
    old = chance.choice(run.of(HandlingEnded))
    event = msgspec.structs.replace(
        old.event, data=HandlingStarted(attempt=1), type=HandlingStarted.TYPE
    )
    run.replace(old, Recorded(old.seq, event, old.stored_at, encode_event(event)))


def _intrude(run: MadeRun, chance: random.Random) -> None:
    """Say something in a task after its end, past the guard."""
    closed = chance.choice(run.of(TaskClosed))
    said = run.of(MessagePosted)[0].event
    event = msgspec.structs.replace(
        said, id=_other_id(said.id), task=closed.event.task, sender=AGENTS[0], mentions=()
    )
    late = Recorded(closed.seq, event, closed.stored_at, encode_event(event))
    run.replace(closed, closed, late)


_BROKEN: dict[Breach, Callable[[MadeRun, random.Random], None]] = {
    Breach.LOST: _lose,
    Breach.DOUBLED: _double,
    Breach.GHOST: _haunt,
    Breach.INVENTED: _invent,
    Breach.MOVED: _move,
    Breach.REORDERED: _reorder,
    Breach.UNHANDLED: _forget,
    Breach.ANSWERED_TWICE: _answer_again,
    Breach.STRANDED: _strand,
    Breach.UNSOUND: _intrude,
}


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_sound_run_passes(seed: int) -> None:
    """Everything is counted and nothing found, whatever was refused or never answered."""
    run = sound_run(seed)
    verdict = _verdict(run)

    assert verdict.findings == []
    assert verdict.breaches == 0
    assert verdict.acknowledged == verdict.found > 0
    assert verdict.sent == verdict.acknowledged + verdict.refused + verdict.unknown
    assert verdict.mentions == verdict.handled + verdict.dead_lettered > 0
    assert verdict.tasks == verdict.ended == verdict.replayed == 4


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("breach", _BROKEN, ids=lambda breach: breach.value)
def test_each_breach_is_found(breach: Breach, seed: int) -> None:
    """A sound run that is broken in one way is reported as broken in that way."""
    run = _rich_run(seed)
    _BROKEN[breach](run, random.Random(seed))

    assert breach in _verdict(run).kinds


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_turn_without_an_end_is_found(seed: int) -> None:
    """A replay in which an agent works for ever is incomplete."""
    run = _rich_run(seed)
    _break_off(run, random.Random(seed))

    assert {Breach.UNHANDLED, Breach.INCOMPLETE} <= _verdict(run).kinds


def test_what_cannot_be_read_is_found() -> None:
    """Bytes that are no event leave the replay incomplete."""
    verdict = _verdict(sound_run(1), Rejected(999, "bus.x", "no event"))

    assert verdict.kinds == {Breach.INCOMPLETE}


def test_an_unknown_outcome_may_be_there_or_not() -> None:
    """An append without an answer, or without any end, is no breach either way."""
    run = sound_run(2)
    stored = _acknowledged(run)
    for number, one in enumerate(stored):
        run.steps = [
            step for step in run.steps if step.event != one.event.id or step.phase is Phase.INVOKE
        ]
        if number % 2:
            run.replace(one)
    verdict = _verdict(run)

    assert verdict.breaches == 0
    assert verdict.unknown - verdict.unknown_found == len(stored) // 2


def test_a_task_that_waits_for_an_agent_is_resumable() -> None:
    """It has not ended, and whoever is asked goes on with it: the mention alone is reported."""
    run = sound_run(3, tasks=1)
    opening = run.log[0]
    verdict = check([opening], outside=[WRITER])

    assert verdict.resumable == 1
    assert verdict.kinds == {Breach.UNHANDLED}


def test_a_journal_is_read_back(tmp_path: Path) -> None:
    """Each line is there as it was noted; a line that a kill cut off is passed over."""
    path = tmp_path / "writer.jsonl"
    event, task = sound_run(1).log[0].event.id, TaskId("0" * 32)
    with Journal(path) as journal:
        journal.note(Phase.INVOKE, event, task=task)
    with Journal(path) as journal:
        journal.note(Phase.OK, event, task=task, seq=7)
    with path.open("ab") as file:
        file.write(b'{"phase":"inv')

    assert read_history(path).steps == (
        Step(Phase.INVOKE, event, task),
        Step(Phase.OK, event, task, 7),
    )


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    """The error names the file and the line."""
    path = tmp_path / "writer.jsonl"
    path.write_bytes(b'{"phase":"heard","event":"1"}\n')

    with pytest.raises(HistoryFileError, match="line 1"):
        read_history(path)


def test_the_program_checks_exported_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits with 0 for what is sound, 1 for a breach, which it names, and 2 for no file."""
    run = sound_run(5)
    lost = _acknowledged(run)[0]
    sound, broken, cut = (tmp_path / name for name in ("a.jsonl.gz", "b.jsonl", "c.jsonl"))
    lines = {one.event.id: export_line(one) for one in run.log}
    head = head_line([])
    sound.write_bytes(gzip.compress(head + b"".join(lines.values()) + end_line(len(lines))))
    del lines[lost.event.id]
    broken.write_bytes(head + b"".join(lines.values()) + end_line(len(lines)))
    cut.write_bytes(head + b"".join(lines.values()))
    history = tmp_path / "writer.jsonl"
    history.write_bytes(b"".join(msgspec.json.encode(step) + b"\n" for step in run.steps))
    more = ["--history", str(history), "--complete", WRITER]

    assert main([str(sound), *more]) == 0
    capsys.readouterr()
    assert main([str(broken), *more]) == 1
    assert f"lost: {lost.event.task}: {lost.event.id} was acknowledged" in capsys.readouterr().out
    assert main([str(broken), *more, "--json"]) == 1
    assert msgspec.json.decode(capsys.readouterr().out, type=Verdict).breaches == 1
    assert main([str(cut)]) == 1
    assert "entries were exported" in capsys.readouterr().out
    assert main([str(tmp_path / "none")]) == 2
