"""Runs in which nothing goes wrong: work, talk, waiting that is allowed, and errors put right."""

from __future__ import annotations

import asyncio

from benchmarks.faults.cast import SECOND, Cast
from benchmarks.faults.scenario import clean
from threadbus.schemas import (
    AssignmentAccepted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentProgressed,
    ContextUsed,
    ErrorInfo,
    HandlingFailed,
    InputGiven,
    InputRequested,
    MentionReceived,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
)

_GONE = ErrorInfo("ConnectionError", "the server hung up")


@clean()
async def one_agent_answers(cast: Cast) -> None:
    """One agent is asked, thinks, and answers."""
    await cast.open("planner")
    await cast.model("planner", cast.asked)
    await cast.done("planner")


@clean()
async def two_agents(cast: Cast) -> None:
    """A planner gives work to a coder."""
    await cast.open("planner", "coder")
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.done("planner")


@clean()
async def ten_agents(cast: Cast) -> None:
    """A planner gives a piece of work of its own to each of nine."""
    names = [f"reader-{number}" for number in range(9)]
    await cast.open("planner", *names)
    for number, name in enumerate(names):
        await cast.work("planner", name, f"Read page {number}", f"Page {number} says {number}.")
    await cast.done("planner")


@clean()
async def same_work_for_three(cast: Cast) -> None:
    """The same work goes to three agents at once, to compare what they say."""
    names = ("red", "green", "blue")
    await cast.open("planner", *names)
    made = [await cast.assign("planner", name, "Guess how many rows there are") for name in names]
    for number, one in enumerate(made):
        await cast.finish(one, f"I guess {number}.")
    await cast.done("planner")


@clean()
async def assigned_and_paused(cast: Cast) -> None:
    """Work is given away without waiting; the result wakes whoever gave it."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.begin("coder", made)
    await cast.finish(made, "There are twelve rows.", to=["planner"])
    await cast.done("planner")


@clean()
async def two_assignments_side_by_side(cast: Cast) -> None:
    """Two pieces of work are under way; each is talked about with the one who has it."""
    await cast.open("planner", "coder", "document")
    one = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    two = await cast.assign("planner", "document", "Read the report of March", later=True)
    asked = await cast.say("coder", "Which file?", to=["planner"], cause=one, awaited=True)
    await cast.reply("planner", asked, "The one of March.")
    await cast.finish(one, "There are twelve rows.")
    await cast.finish(two, "The report says twelve.")
    await cast.done("planner")


@clean()
async def assigned_again_after_the_result(cast: Cast) -> None:
    """The same work is asked for again once the first result is there."""
    await cast.open("planner", "coder")
    one = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.finish(one, "There are twelve rows.")
    two = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.finish(two, "Still twelve rows.")
    await cast.done("planner")


@clean()
async def long_conversation(cast: Cast) -> None:
    """Two agents talk, each time about something else."""
    await cast.open("planner", "coder")
    topics = ("rows", "columns", "units", "prices", "months", "names", "gaps", "totals")
    for number, topic in enumerate(topics):
        asked = await cast.say(
            "planner", f"Tell me of the {topic}.", to=["coder"], cause=cast.asked, awaited=True
        )
        await cast.reply("coder", asked, f"Of the {topic} there are {number + 3}, all filled in.")
    await cast.done("planner")


@clean()
async def short_words_again_and_again(cast: Cast) -> None:
    """An agent confirms each of many messages with the same short word."""
    await cast.open("planner", "coder")
    for number in range(6):
        told = await cast.say("planner", f"Row {number} is empty.", to=["coder"], cause=cast.asked)
        await cast.reply("coder", told, "ok")
    await cast.done("planner")


@clean()
async def quick_question(cast: Cast) -> None:
    """A busy agent is asked how far it is, and says so."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.begin("coder", made)
    asked = await cast.say(
        "planner", "How far are you?", to=["coder"], cause=cast.asked, awaited=True, quick=True
    )
    await cast.reply("coder", asked, "Half way.")
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def busy_agent_says_so(cast: Cast) -> None:
    """A mention waits for a busy agent, which acknowledges it."""
    await cast.open("planner", "coder", "document")
    one = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.begin("coder", one)
    two = await cast.assign("document", "coder", "Draw the chart of March", later=True)
    await cast.add("coder", MentionReceived(queue_depth=1, busy_with="counting"), cause=two)
    await cast.finish(one, "There are twelve rows.")
    await cast.finish(two, "The chart is drawn.")
    await cast.done("planner")


@clean()
async def progress_and_acceptance(cast: Cast) -> None:
    """Work is accepted, its progress told, and finished."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.add("coder", AssignmentAccepted(assignment=made.id), cause=made)
    for share in (0.25, 0.5, 0.75):
        told = AssignmentProgressed(assignment=made.id, note="counting", fraction=share)
        await cast.add("coder", told, cause=made)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def tools_one_after_the_other(cast: Cast) -> None:
    """Tools are called with different arguments and bring different results."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of all files")
    for number in range(5):
        path = {"path": f"{number}.csv"}
        await cast.tool("coder", made, "read_file", path, f"file {number} has {number} rows")
    await cast.finish(made, "There are ten rows.")
    await cast.done("planner")


@clean()
async def call_put_right(cast: Cast) -> None:
    """A call fails once and succeeds the second time."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.tool("coder", made, "fetch", {"url": "a"}, error=_GONE)
    await cast.tool("coder", made, "fetch", {"url": "a"}, "twelve rows came")
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def failure_admitted(cast: Cast) -> None:
    """A call fails, and the result says so."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.tool("coder", made, "fetch", {"url": "a"}, error=_GONE)
    await cast.finish(made, "I could not fetch the file: the server hung up.")
    await cast.done("planner", "It could not be counted.")


@clean()
async def attempt_that_fails_and_the_next(cast: Cast) -> None:
    """An attempt fails, is tried again, and succeeds."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.begin("coder", made)
    failed = HandlingFailed(error=_GONE, attempt=1, retry_in_ns=SECOND // 100)
    await cast.add("coder", failed, cause=made)
    await cast.begin("coder", made, attempt=2)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean()
async def failover_after_a_failure(cast: Cast) -> None:
    """An agent gives work up; another one gets it."""
    await cast.open("planner", "coder", "document")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.add("coder", AssignmentFailed(assignment=made.id, error=_GONE), cause=made)
    await cast.end("coder", made)
    await cast.work("planner", "document", "Count the rows of the file", "There are twelve.")
    await cast.done("planner")


@clean()
async def work_taken_back(cast: Cast) -> None:
    """Work is cancelled before it began; other work takes its place."""
    await cast.open("planner", "coder", "document")
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.add("planner", AssignmentCancelled(assignment=made.id), cause=made)
    await cast.end("coder", made)
    await cast.work("planner", "document", "Read the report", "It says twelve.")
    await cast.done("planner")


@clean()
async def polling(cast: Cast) -> None:
    """A tool that tells a status is called until it is done."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Wait for the build")
    for _ in range(8):
        await cast.tool("coder", made, "get_status", {"job": 1}, "the job is running")
    await cast.tool("coder", made, "get_status", {"job": 1}, "the job is done")
    await cast.finish(made, "The build is done.")
    await cast.done("planner")


@clean(is_slow=True)
async def long_tool(cast: Cast) -> None:
    """A tool takes longer than an agent may be silent."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.tool("coder", made, "crunch", {"path": "a"}, "twelve rows", took_s=3)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean(is_slow=True)
async def long_model_call(cast: Cast) -> None:
    """A model takes longer than an agent may be silent."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await asyncio.sleep(3)
    await cast.model("coder", made, took_s=3)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")


@clean(is_slow=True)
async def person_takes_their_time(cast: Cast) -> None:
    """A person is asked, and answers after a while."""
    await cast.open("planner", "coder")
    asked = await cast.add(
        "planner", InputRequested(parts=(TextPart("Which month?"),)), cause=cast.asked
    )
    await asyncio.sleep(3)
    given = InputGiven(request=asked.id, parts=(TextPart("March"),))
    await cast.add("user", given, cause=asked)
    await cast.work("planner", "coder", "Count the rows of March", "There are twelve rows.")
    await cast.done("planner")


@clean(is_slow=True)
async def paused_task(cast: Cast) -> None:
    """The task is paused, and goes on."""
    await cast.open("planner", "coder")
    paused = TaskStatusChanged(status=TaskStatus.PAUSED)
    await cast.add("user", paused, cause=cast.asked)
    await asyncio.sleep(3)
    going = TaskStatusChanged(status=TaskStatus.WORKING)
    await cast.add("user", going, cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows of March", "There are twelve rows.")
    await cast.done("planner")


@clean()
async def contexts_that_grow(cast: Cast) -> None:
    """An agent sees more of the thread in each turn."""
    await cast.open("planner", "coder")
    for number in range(3):
        made = await cast.assign("planner", "coder", f"Count the rows of file {number}")
        used = ContextUsed(up_to_seq=made.seq, events=10 + number * 4)
        await cast.add("coder", used, cause=made)
        await cast.finish(made, f"There are {number} rows.")
    await cast.done("planner")
