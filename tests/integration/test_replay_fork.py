"""``busreplay fork`` on a real server, with a real team that goes on from points of a past run."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator

import msgspec
import pytest

from tests.support.bus_env import events_of, soon, text
from tests.support.busreplay import busreplay, start_busreplay
from tests.support.cli import living
from tests.support.eventually import eventually
from tests.support.fault_team import back, front, middle
from tests.support.invariants import violations
from threadbus.bus import Bus, connect, fold_task
from threadbus.replay import fold
from threadbus.replay.diffing import Diff
from threadbus.replay.forking import plan_fork, write_fork
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AnswerSubmitted,
    AssignmentFinished,
    AssignmentMade,
    EventData,
    HandlingEnded,
    MessagePosted,
    Recorded,
    TaskForked,
    TaskId,
    TaskStatus,
    new_task_id,
)

NAMES = ("front", "middle", "back")


class Result(msgspec.Struct):
    """What --json prints."""

    task: TaskId
    copied: int
    found: int
    woken: dict[str, int]
    not_running: list[str]
    notes: list[str]
    is_written: bool


@pytest.fixture
async def user(bus_url: str) -> AsyncGenerator[Bus]:
    """A user, with the team living."""
    async with connect(bus_url, name="user") as bus, living(bus_url, front, middle, back):
        yield bus


async def past_run(user: Bus, question: str = "7") -> TaskId:
    """Let the team answer a question, to the last event."""
    answer = await user.ask(question, to=["front"], participants=["middle", "back"])
    assert answer.text == f"asked(ask {question}) + done(do {question})"

    async def over() -> bool:
        events = await events_of(user, answer.task)
        ended = {event.sender for event in events if isinstance(event.data, HandlingEnded)}
        return ended == set(NAMES)

    await eventually(over, "the end of every turn")
    return answer.task


async def fork(url: str, *arguments: str) -> Result:
    """Run the command in a process of its own, while the team lives in this one."""
    ran = await asyncio.to_thread(busreplay, "fork", *arguments, "--json", "--url", url)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return msgspec.json.decode(ran.stdout, type=Result)


async def seq_of(bus: Bus, task: TaskId, kind: type[EventData]) -> int:
    """Return the sequence of the first event of a kind."""
    log = await log_of(bus, task)
    return next(item.seq for item in log if isinstance(item.event.data, kind))


async def log_of(bus: Bus, task: TaskId) -> list[Recorded]:
    """Return a whole log; what is no event fails the test."""
    return [entry async for entry in bus.read(task) if isinstance(entry, Recorded)]


async def test_a_fork_at_every_event_ends_with_an_answer(user: Bus, bus_url: str) -> None:
    """Wherever a run is cut before its end, the same agents take it to one answer, doing nothing
    twice that was done by then."""
    task = await past_run(user)
    log = await log_of(user, task)
    closed = await seq_of(user, task, AnswerSubmitted)
    points = [item.seq for item in log if item.seq <= closed]
    assert len(points) >= 6
    plans = [plan_fork(log, point, new_task_id(), now=time.time_ns()) for point in points]
    for plan in plans:
        assert (await write_fork(user, plan)).copied == len(plan.copies)
    for point, result in zip(points, plans, strict=True):
        answer = await soon(user.waits.for_answer(result.task))
        assert answer.text == "asked(ask 7) + done(do 7)"
        assert answer.event.task == result.task

        async def settled(task: TaskId = result.task) -> bool:
            return not violations(task, await log_of(user, task), ())

        await eventually(settled, f"a sound log of the fork at {point}")
        events = await events_of(user, result.task)
        kinds = [type(event.data) for event in events]
        for kind in (AssignmentMade, AssignmentFinished, TaskForked):
            assert kinds.count(kind) == 1
        assert kinds.count(MessagePosted) == 2
        copies = [event for event in events if event.copy_of is not None]
        assert len(copies) == len(result.copies)
        assert all(event.mentions == () for event in copies)
        originals = [event.copy_of.id for event in copies if event.copy_of is not None]
        assert originals == [
            item.event.id for item in log if item.seq <= point and item.event.id in originals
        ]
    every = [event.id for plan in plans for event in await events_of(user, plan.task)]
    assert len(set(every)) == len(every)


async def test_an_edited_question_is_answered_anew(user: Bus, bus_url: str) -> None:
    """With another text the fork asks something else; the tree and the document show the link."""
    task = await past_run(user)
    opened = (await log_of(user, task))[0]
    result = await fork(bus_url, task, "--at", str(opened.seq), "--with", "8")
    answer = await soon(user.waits.for_answer(result.task))

    assert answer.text == "asked(ask 8) + done(do 8)"
    assert result.woken == {"front": 1}
    assert any("memory" in note for note in result.notes)
    shown = busreplay(result.task, "--url", bus_url).stdout.decode()
    assert f"a fork of {task} at its entry {opened.seq}: 1 event copied" in shown
    timeline = fold(await log_of(user, result.task))
    assert timeline.fork is not None
    assert (timeline.fork.task, timeline.fork.seq, timeline.fork.woken) == (
        task,
        opened.seq,
        ("front",),
    )
    compared = await asyncio.to_thread(
        busreplay, "diff", task, result.task, "--json", "--url", bus_url
    )
    diff = msgspec.json.decode(compared.stdout, type=Diff)
    own = await seq_of(user, result.task, TaskForked)
    assert (diff.relation, diff.fork_point) == ("b is a fork of a", (opened.seq, own))
    original = (await log_of(user, result.task))[0].event
    assert original.copy_of is not None
    assert original.copy_of.edited


async def test_a_fork_of_a_fork_is_a_fork(user: Bus, bus_url: str) -> None:
    """Copies of copies name the run that they were taken from, and it goes on as any other."""
    task = await past_run(user)
    first = await fork(bus_url, task, "--at", str(await seq_of(user, task, AssignmentMade)))
    await soon(user.waits.for_answer(first.task))
    at = await seq_of(user, first.task, AssignmentFinished)
    second = await fork(bus_url, first.task, "--at", str(at))

    assert (await soon(user.waits.for_answer(second.task))).text == "asked(ask 7) + done(do 7)"
    events = await events_of(user, second.task)
    assert {event.copy_of.task for event in events if event.copy_of} == {first.task}


async def killed_fork(user: Bus, url: str, task: TaskId, at: int) -> TaskId:
    """Kill the command in the middle; one that was too quick is left, and another one begun."""
    for _ in range(5):
        before = {summary.task for summary in await user.tasks.list()}
        new: list[TaskId] = []
        with start_busreplay("fork", task, "--at", str(at), "--url", url) as process:

            async def begun(before: set[TaskId] = before, new: list[TaskId] = new) -> bool:
                new[:] = [s.task for s in await user.tasks.list() if s.task not in before]
                return bool(new) and len(await log_of(user, new[0])) > 10

            await eventually(begun, "the first copies", 60)
            process.send_signal(signal.SIGKILL)
        if not (await user.tasks.state(new[0])).is_fork_whole:
            return new[0]
    raise AssertionError("no fork was slow enough to be killed in the middle")


async def test_a_killed_fork_is_half_and_is_finished_by_resuming(user: Bus, bus_url: str) -> None:
    """Killed in the middle it shows as paused and wakes nobody; resumed it becomes whole, with
    each copy once, and is answered."""
    await user.registry.register(AgentCard(name="user"), holder="test", takeover=True)
    opened = await user.tasks.open("9", to=["user"], participants=list(NAMES))
    task = opened.event.task
    for number in range(1500):
        await user.observe(
            HandlingEnded(received_at=1, started_at=1, ended_at=number),
            task=task,
            cause=opened.event.id,
        )

    async def stored() -> bool:
        return len(await log_of(user, task)) == 1501

    await eventually(stored, "every observation", 60)
    at = (await user.send(task, MAIN_THREAD, "9", mentions=["middle"])).seq
    half = await killed_fork(user, bus_url, task, at)
    state = await user.tasks.state(half)
    assert (state.status, state.is_fork_whole) == (TaskStatus.PAUSED, False)
    shown = await asyncio.to_thread(busreplay, half, "--url", bus_url)
    assert f"busreplay fork --resume {half} goes on".encode() in shown.stdout
    assert not any(event.mentions for event in await events_of(user, half))

    result = await fork(bus_url, "--resume", half)
    assert (result.task, result.copied + result.found) == (half, 1502)
    assert result.found > 10
    again = await fork(bus_url, "--resume", half)
    assert again.copied == 0

    async def answered() -> bool:
        events = await events_of(user, half)
        return any(e.sender == "middle" and text(e) == "asked(9)" for e in events if not e.copy_of)

    await eventually(answered, "the reply to the mention that was open")
    events = await events_of(user, half)
    assert len({event.id for event in events}) == len(events)
    assert fold_task(half, await log_of(user, half)).status is TaskStatus.WORKING


async def test_what_cannot_be_forked_is_refused_before_anything_is_written(
    user: Bus, bus_url: str
) -> None:
    """A point after the end, and a run that is no fork: each with its reason, and no new
    super-task; --dry-run says what would be and writes nothing."""
    task = await past_run(user)
    last = (await log_of(user, task))[-1].seq
    before = len(await user.tasks.list(limit=500))
    for arguments, words in (
        ((task, "--at", str(last)), "had ended as completed; fork earlier"),
        (("--resume", task), "it is no fork"),
    ):
        ran = await asyncio.to_thread(busreplay, "fork", *arguments, "--url", bus_url)
        assert ran.returncode == 1
        assert words in ran.stderr.decode()
    opened = str((await log_of(user, task))[0].seq)
    dry = await asyncio.to_thread(
        busreplay, "fork", task, "--at", opened, "--dry-run", "--url", bus_url
    )
    assert (dry.returncode, dry.stderr) == (0, b"")
    assert b"woken again: front, for 1 mention" in dry.stdout
    assert len(await user.tasks.list(limit=500)) == before
