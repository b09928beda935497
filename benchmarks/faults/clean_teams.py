"""Runs in which nothing goes wrong: votes, plans, checks, threads, forks, imported logs."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from benchmarks.faults.cast import SECOND, Cast, Entry
from benchmarks.faults.scenario import clean
from threadbus.replay.forking import plan_fork, write_fork
from threadbus.replay.importing import import_file
from threadbus.schemas import (
    ArtifactAdded,
    ConsensusFailed,
    ConsensusReached,
    ParticipantAdded,
    ParticipantRemoved,
    PlanProposed,
    PlanRevised,
    PlanStep,
    TaskStatus,
    TextPart,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    encode_event,
    new_task_id,
)

VOTERS = ("coder", "document")


@clean()
async def everybody_agrees(cast: Cast) -> None:
    """All voters approve."""
    await cast.open("planner", *VOTERS)
    proposal = await cast.propose("planner", "The answer is twelve", VOTERS)
    for name in VOTERS:
        await cast.vote(name, proposal)
    await _reached(cast, proposal, *VOTERS)
    await cast.done("planner")


@clean()
async def enough_agree(cast: Cast) -> None:
    """One of three rejects; two are enough."""
    await cast.open("planner", *VOTERS, "checker")
    proposal = await cast.propose("planner", "Twelve", [*VOTERS, "checker"], quorum=2)
    for name in VOTERS:
        await cast.vote(name, proposal)
    await cast.vote("checker", proposal, approves=False)
    await _reached(cast, proposal, *VOTERS)
    await cast.done("planner")


@clean()
async def second_vote_agrees(cast: Cast) -> None:
    """A proposal fails; a better one is accepted."""
    await cast.open("planner", *VOTERS)
    first = await cast.propose("planner", "The answer is eleven", VOTERS)
    await cast.vote("coder", first)
    await cast.vote("document", first, approves=False)
    failed = ConsensusFailed(proposal=first.id, approvals=("coder",), rejections=("document",))
    await cast.add("planner", failed, cause=first)
    second = await cast.propose("planner", "The answer is twelve", VOTERS)
    for name in VOTERS:
        await cast.vote(name, second)
    await _reached(cast, second, *VOTERS)
    await cast.done("planner")


@clean()
async def vote_changed(cast: Cast) -> None:
    """A voter changes its mind before the decision."""
    await cast.open("planner", *VOTERS)
    proposal = await cast.propose("planner", "The answer is twelve", VOTERS)
    await cast.vote("coder", proposal, approves=False)
    await cast.vote("document", proposal)
    await cast.vote("coder", proposal)
    await _reached(cast, proposal, *VOTERS)
    await cast.done("planner")


@clean()
async def result_checked(cast: Cast) -> None:
    """A critic accepts the answer before the close."""
    await cast.open("planner", "coder", "checker")
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    answer = await cast.answer("planner")
    await cast.critique("checker", answer, accepts=True, reason="counted again")
    await cast.close("planner", answer)
    await cast.end("planner", cast.asked)


@clean()
async def objection_resolved(cast: Cast) -> None:
    """A critic objects, the work is done again, the critic accepts."""
    await cast.open("planner", "coder", "checker")
    first = await cast.work("planner", "coder", "Count the rows", "There are thirteen rows.")
    await cast.critique("checker", first, accepts=False, reason="the header was counted")
    second = await cast.work("planner", "coder", "Count without the header", "Twelve rows.")
    await cast.critique("checker", second, accepts=True, reason="right")
    answer = await cast.answer("planner")
    await cast.critique("checker", answer, accepts=True, reason="right")
    await cast.close("planner", answer)
    await cast.end("planner", cast.asked)


@clean()
async def artifact_checked_in_its_last_version(cast: Cast) -> None:
    """An artifact is made, made better, and then checked."""
    await cast.open("planner", "coder", "checker")
    made = [
        await cast.add(
            "coder", ArtifactAdded(name="report.txt", part=TextPart(text)), cause=cast.asked
        )
        for text in ("twelve units", "twelve units, and a chart")
    ]
    await cast.critique("checker", made[-1], accepts=True, reason="the sum is right")
    await cast.done("planner")


@clean()
async def plan_followed(cast: Cast) -> None:
    """A plan is made, revised once, and followed."""
    await cast.open("planner", "coder", "document")
    plan = await cast.add("planner", PlanProposed(steps=_steps("coder")), cause=cast.asked)
    better = PlanRevised(replaces=plan.id, steps=_steps("coder", "document"))
    await cast.add("planner", better, cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.work("planner", "document", "Read the report", "It says twelve.")
    await cast.done("planner")


@clean()
async def plan_revised_as_work_is_done(cast: Cast) -> None:
    """A plan is revised after each finished piece of work."""
    await cast.open("planner", "coder")
    plan = await cast.add("planner", PlanProposed(steps=_steps("coder")), cause=cast.asked)
    for number in range(4):
        await cast.work("planner", "coder", f"Count file {number}", f"It has {number} rows.")
        steps = (*_steps("coder"), PlanStep(f"count file {number + 1}", "coder"))
        revised = PlanRevised(replaces=plan.id, steps=steps)
        plan = await cast.add("planner", revised, cause=cast.asked)
    await cast.done("planner")


@clean()
async def sub_thread(cast: Cast) -> None:
    """Two agents settle something in a thread of their own."""
    await cast.open("planner", "coder", "document")
    await _aside(cast, "planner", "coder", ThreadId("check-rows-a1b2c3"))
    await cast.done("planner")


@clean()
async def threads_within_threads(cast: Cast) -> None:
    """A team opens a thread, and one in it another."""
    await cast.open("planner", "coder", "document")
    await _aside(cast, "planner", "coder", ThreadId("check-rows-a1b2c3"))
    inner = ThreadId("check-units-d4e5f6")
    await _aside(cast, "coder", "document", inner, parent="check-rows-a1b2c3")
    await cast.done("planner")


@clean()
async def somebody_joins(cast: Cast) -> None:
    """An agent is added, and works."""
    await cast.open("planner")
    await cast.add("planner", ParticipantAdded(participant="coder"), cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.done("planner")


@clean()
async def somebody_leaves(cast: Cast) -> None:
    """An agent is taken out once its work is done."""
    await cast.open("planner", "coder")
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    removed = ParticipantRemoved(participant="coder", reason="done")
    await cast.add("planner", removed, cause=cast.asked)
    await cast.done("planner")


@clean()
async def deadlines_kept(cast: Cast) -> None:
    """Task and work have deadlines, and keep them."""
    await cast.open("planner", "coder", deadline_at=time.time_ns() + 60 * SECOND)
    made = await cast.assign("planner", "coder", "Count the rows", deadline_s=60)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def budget_kept(cast: Cast) -> None:
    """The task has a budget of tokens, and keeps it."""
    await cast.open("planner", "coder", token_budget=10_000)
    made = await cast.assign("planner", "coder", "Count the rows")
    await cast.model("coder", made, tokens=4_000)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def task_cancelled(cast: Cast) -> None:
    """The task is cancelled while work is open."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows", later=True)
    await cast.begin("coder", made)
    await cast.close("user", outcome=TaskStatus.CANCELLED, summary="not needed any more")


@clean()
async def task_failed_and_says_so(cast: Cast) -> None:
    """The task cannot be done, and is closed as failed."""
    await cast.open("planner", "coder")
    await cast.work("planner", "coder", "Count the rows", "The file is empty.")
    await cast.close("planner", outcome=TaskStatus.FAILED, summary="there is nothing to count")
    await cast.end("planner", cast.asked)


@clean()
async def fork_that_goes_on(cast: Cast) -> None:
    """A fork of a finished run goes its own way."""
    await cast.open("planner", "coder")
    result = await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.done("planner")
    async with aclosing(cast.bus.read(cast.task)) as entries:
        log = [entry async for entry in entries]
    plan = plan_fork(log, result.seq, new_task_id(), now=time.time_ns())
    await write_fork(cast.bus, plan)
    cast.task = plan.task
    async with aclosing(cast.bus.read(cast.task)) as entries:
        cast.stand_on([entry async for entry in entries])
    await cast.work("planner", "coder", "Count the columns", "There are four columns.")
    await cast.done("planner")


@clean()
async def imported_group_chat(cast: Cast) -> None:
    """The log of another system's team."""
    said = [
        ("Data_Expert", "I add the units up:\n```python\nprint(sum([5, 7]))\n```"),
        ("Computer_terminal", "exitcode: 0 (execution succeeded)\nCode output: 12"),
        ("Check_Expert", "The sum of the units is 12. That is the answer.\nTERMINATE"),
    ]
    history = [{"name": name, "role": "user", "content": text} for name, text in said]
    await _import(cast, {"question": "How many?", "question_ID": "a", "history": history})


@clean()
async def imported_tool_chat(cast: Cast) -> None:
    """The log of another system's agent with tools."""
    call = {"id": "c1", "function": {"name": "get_order", "arguments": '{"order": 7}'}}
    messages = [
        {"role": "user", "content": "Where is my order?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "on its way"},
        {"role": "assistant", "content": "It is on its way."},
    ]
    await _import(cast, {"task_id": 1, "traj": messages})


async def _reached(cast: Cast, proposal: Entry, *approvals: str) -> Entry:
    reached = ConsensusReached(proposal=proposal.id, approvals=approvals)
    return await cast.add("planner", reached, cause=proposal)


def _steps(*names: str) -> tuple[PlanStep, ...]:
    return tuple([PlanStep(f"the part of {name}", name) for name in names])


async def _aside(cast: Cast, lead: str, other: str, thread: ThreadId, parent: str = "main") -> None:
    opened = ThreadOpened(title="check", participants=(lead, other), parent=parent)
    await cast.add(lead, opened, thread=thread, cause=cast.asked)
    asked = await cast.say(
        lead, "Do the rows add up?", to=[other], thread=thread, cause=cast.asked, awaited=True
    )
    await cast.reply(other, asked, "They do, twice counted.")
    await cast.add(lead, ThreadClosed(summary="they add up"), thread=thread, cause=asked)


async def _import(cast: Cast, document: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        (run,) = import_file(file)
    cast.task = run.task
    for entry in run.entries:
        await cast.put(entry.event.subject, encode_event(entry.event))
