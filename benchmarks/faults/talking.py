"""Injected faults of who asks whom, who waits, and who says the same again."""

from __future__ import annotations

import asyncio
import time

from benchmarks.faults.cast import SECOND, Cast, Entry
from benchmarks.faults.scenario import Truth, at, fault
from threadbus.schemas import AssignmentCancelled, ErrorInfo, MentionDeadLettered

TEAM = ("planner", "coder", "document", "checker")


@fault("U1")
async def request_never_taken_up(cast: Cast) -> Truth:
    """An agent is asked and never begins."""
    await cast.open(*TEAM)
    await cast.work("planner", "document", "Read the report", "The report says twelve.")
    asked = await cast.assign("planner", "coder", "Count the rows of the file")
    answer = await cast.answer("planner")
    await cast.close("planner", answer)
    return at("coder", asked)


@fault("U1")
async def question_handled_in_silence(cast: Cast) -> Truth:
    """An agent handles a question that waits for a reply, and says nothing."""
    await cast.open(*TEAM)
    asked = await cast.say(
        "planner", "How many rows has the file?", to=["coder"], cause=cast.asked, awaited=True
    )
    await cast.model("coder", asked)
    ended = await cast.end("coder", asked)
    await cast.done("planner")
    return at("coder", asked, ended)


@fault("U2")
async def result_after_cancel(cast: Cast) -> Truth:
    """Work is taken back, and its result comes all the same."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    cancelled = AssignmentCancelled(assignment=made.id, reason="not needed any more")
    await cast.add("planner", cancelled, cause=made)
    late = await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", late)


@fault("U2", is_slow=True)
async def result_after_its_deadline(cast: Cast) -> Truth:
    """A result comes seconds after its deadline."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", deadline_s=0.3)
    await cast.model("coder", made)
    await asyncio.sleep(1.8)
    late = await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", late)


@fault("U2", is_slow=True)
async def answer_after_the_deadline_of_the_task(cast: Cast) -> Truth:
    """The answer comes seconds after the deadline of the task."""
    await cast.open(*TEAM, deadline_at=time.time_ns() + int(0.3 * SECOND))
    await cast.work("planner", "document", "Read the report", "The report says twelve.")
    await asyncio.sleep(1.8)
    return at("planner", await cast.done("planner"))


@fault("U4", is_open=True)
async def deadlock(cast: Cast) -> Truth:
    """Two agents wait for each other in one thread."""
    await cast.open(*TEAM)
    one = await cast.assign("planner", "coder", "Count the rows", later=True)
    other = await cast.assign("planner", "document", "Read the report", later=True)
    await cast.model("coder", one)
    await cast.model("document", other)
    first = await cast.say("coder", "Which file is it?", to=["document"], cause=one, awaited=True)
    second = await cast.say(
        "document", "How many rows did you find?", to=["coder"], cause=other, awaited=True
    )
    return at("document", second, first)


@fault("U4 U3", is_slow=True, is_open=True)
async def task_stands_still(cast: Cast) -> Truth:
    """Nobody says anything although work is open."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    last = await cast.model("coder", made)
    await asyncio.sleep(3)
    return at("coder", last, made)


@fault("LB")
async def passed_over_and_replied_later(cast: Cast) -> Truth:
    """Work goes to a second agent while the first one is at it, and the first one replies."""
    await cast.open(*TEAM)
    first = await cast.assign("planner", "coder", "Count the rows of the file sales.csv")
    await cast.begin("coder", first)
    await asyncio.sleep(1.2)
    second = await cast.assign("planner", "document", "Count the rows of the file sales.csv")
    await cast.model("document", second)
    await cast.finish(second, "There are twelve rows.")
    await cast.finish(first, "I count thirteen rows.")
    await cast.done("planner")
    return at("planner", second)


@fault("LB")
async def question_passed_on_too_early(cast: Cast) -> Truth:
    """A question goes to a second agent while the first one works on it."""
    await cast.open(*TEAM)
    text = "Which month had the most sales in the report?"
    first = await cast.say("planner", text, to=["document"], cause=cast.asked, awaited=True)
    await cast.model("document", first)
    await asyncio.sleep(1.2)
    second = await cast.say("planner", text, to=["coder"], cause=cast.asked, awaited=True)
    await cast.reply("coder", second, "March had the most.")
    await cast.reply("document", first, "It was March, page three says so.")
    await cast.done("planner")
    return at("planner", second)


@fault("RA")
async def repetition_after_asynchronous_assignment(cast: Cast) -> Truth:
    """Work that is under way is asked for again, of the same agent."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.begin("coder", made)
    again = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.finish(made, "There are twelve rows.")
    await cast.finish(again, "Twelve, as I said.")
    await cast.done("planner")
    return at("planner", again)


@fault("RA")
async def assigned_again_to_another(cast: Cast) -> Truth:
    """Work that is under way elsewhere is given to another agent as well."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await asyncio.sleep(1.2)
    again = await cast.assign("planner", "document", "Count the rows of the file", later=True)
    await cast.finish(made, "There are twelve rows.")
    await cast.finish(again, "I find twelve as well.")
    await cast.done("planner")
    return at("planner", again)


@fault("PT")
async def no_pause_after_assignment(cast: Cast) -> Truth:
    """Whoever gave work away talks on instead of waiting for it."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    first = await cast.say("planner", "I wonder how many there will be.", cause=cast.asked)
    second = await cast.say("planner", "It cannot be very many, can it.", cause=cast.asked)
    await cast.say("planner", "Perhaps ten of them.", cause=cast.asked)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("planner", second, first)


@fault("R1")
async def same_call_again(cast: Cast) -> Truth:
    """A tool is called with the same arguments although nothing is new."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.tool("coder", made, "read_file", {"path": "sales.csv"}, "twelve rows of sales")
    again, _ = await cast.tool(
        "coder", made, "read_file", {"path": "sales.csv"}, "twelve rows of sales"
    )
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", again)


@fault("R1 R2")
async def same_message_again(cast: Cast) -> Truth:
    """An agent says the same three times while nobody answers."""
    await cast.open(*TEAM)
    text = "Could somebody please tell me which of the files holds the sales of March?"
    await cast.say("planner", text, cause=cast.asked)
    again = await cast.say("planner", text, cause=cast.asked)
    await cast.say("planner", text, cause=cast.asked)
    await cast.done("planner")
    return at("planner", again)


@fault("R2")
async def nearly_the_same_message(cast: Cast) -> Truth:
    """An agent says nearly the same again while nobody answers."""
    await cast.open(*TEAM)
    text = (
        "The figures of March in the report of the sales department do not add up with the total "
        "that stands on the last page, so one of the two must be wrong"
    )
    await cast.say("planner", text, cause=cast.asked)
    again = await cast.say("planner", f"{text}, I believe.", cause=cast.asked)
    await cast.done("planner")
    return at("planner", again)


@fault("R3 R1")
async def loop_of_calls(cast: Cast) -> Truth:
    """An agent goes round between two calls."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    first: list[Entry] = []
    for _ in range(3):
        opened, _ = await cast.tool("coder", made, "open_page", {"url": "a"}, "page a, see b")
        await cast.tool("coder", made, "open_page", {"url": "b"}, "page b, see a")
        first.append(opened)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", first[1])


@fault("R3")
async def ping_pong(cast: Cast) -> Truth:
    """Two agents hand the same back and forth."""
    await cast.open(*TEAM)
    last = cast.asked
    said: list[Entry] = []
    for _ in range(4):
        last = await cast.say("planner", "You should do that.", to=["coder"], cause=last)
        said.append(last)
        last = await cast.say("coder", "No, you should do it.", to=["planner"], cause=last)
        said.append(last)
    await cast.done("planner")
    return at("planner coder", said[2], said[5])


@fault("R4")
async def results_stand_still(cast: Cast) -> Truth:
    """Different calls bring the same result again and again."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Find the price")
    calls = [
        await cast.tool("coder", made, "search", {"query": f"price {word}"}, "no page was found")
        for word in ("of it", "for it", "list", "today")
    ]
    await cast.finish(made, "I could not find it.")
    await cast.done("planner")
    return at("coder", calls[2][1], calls[2][0], calls[1][1])


@fault("I1")
async def assignment_ignored(cast: Cast) -> Truth:
    """An assignment is handled without a word about it."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.model("coder", made)
    ended = await cast.end("coder", made)
    await cast.done("planner")
    return at("coder", made, ended)


@fault("F2")
async def dead_letter(cast: Cast) -> Truth:
    """An agent gives a question up after its last attempt."""
    await cast.open(*TEAM)
    asked = await cast.say(
        "planner", "How many rows has the file?", to=["coder"], cause=cast.asked, awaited=True
    )
    error = ErrorInfo("ValueError", "the file has no header")
    dead = MentionDeadLettered(error=error, attempts=5)
    given_up = await cast.add("coder", dead, cause=asked, to=["planner"])
    await cast.done("planner", "It could not be counted.")
    return at("coder", given_up)
