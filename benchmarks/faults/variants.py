"""Injected faults that look less like the rule that should find them."""

from __future__ import annotations

import asyncio

from benchmarks.faults.cast import Cast, Entry
from benchmarks.faults.scenario import Truth, at, clean, fault
from threadbus.schemas import (
    AssignmentAccepted,
    ConsensusFailed,
    ErrorInfo,
    MentionStored,
    TaskOpened,
    TextPart,
)

TEAM = ("planner", "coder", "document", "checker")


@fault("LB RA")
async def passed_over_in_the_same_moment(cast: Cast) -> Truth:
    """A busy agent has shown that it is at work, and is passed over at once."""
    await cast.open(*TEAM)
    first = await cast.assign("planner", "coder", "Count the rows of the file sales.csv")
    await cast.begin("coder", first)
    second = await cast.assign("planner", "document", "Count the rows of the file sales.csv")
    await cast.finish(second, "There are twelve rows.")
    await cast.finish(first, "I count thirteen rows.")
    await cast.done("planner")
    return at("planner", second)


@fault("U2")
async def reply_after_the_answer(cast: Cast) -> Truth:
    """A question is asked, the answer submitted without waiting, and the reply comes too late."""
    await cast.open(*TEAM)
    asked = await cast.say(
        "planner", "How many rows has the file?", to=["coder"], cause=cast.asked, awaited=True
    )
    await cast.model("coder", asked)
    answer = await cast.answer("planner")
    late = await cast.reply("coder", asked, "There are thirteen rows.")
    await cast.close("planner", answer)
    await cast.end("planner", cast.asked)
    return at("coder planner", late, answer)


@fault("I2")
async def tool_error_glossed_over(cast: Cast) -> Truth:
    """A call fails, and the result claims that there were no problems."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("FileNotFoundError", "there is no file sales.csv")
    await cast.tool("coder", made, "read_file", {"path": "sales.csv"}, error=error)
    told = await cast.finish(made, "I read all twelve rows without any problems.")
    await cast.done("planner")
    return at("coder", told)


@fault("U3", is_slow=True)
async def accepted_and_silent(cast: Cast) -> Truth:
    """An agent that records nothing of its own accepts work, and is silent while others talk."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    accepted = await cast.add("coder", AssignmentAccepted(assignment=made.id), cause=made)
    for number in range(5):
        await asyncio.sleep(0.8)
        await cast.work("planner", "document", f"Read page {number}", f"Page {number} is read.")
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", accepted, made)


@fault("R3")
async def loop_of_three_agents(cast: Cast) -> Truth:
    """Three agents send one another on in a circle."""
    await cast.open(*TEAM)
    said: list[Entry] = []
    last = cast.asked
    for _ in range(4):
        for name, to in (("planner", "coder"), ("coder", "document"), ("document", "planner")):
            last = await cast.say(name, f"Please ask {to} about it.", to=[to], cause=last)
            said.append(last)
    await cast.done("planner")
    return at("planner coder document", said[3], said[8])


@fault("U4", is_open=True)
async def deadlock_of_three(cast: Cast) -> Truth:
    """Three agents wait for one another."""
    await cast.open(*TEAM)
    names = ("coder", "document", "checker")
    made = [await cast.assign("planner", name, f"The part of {name}", later=True) for name in names]
    asked: list[Entry] = []
    for at_, name in enumerate(names):
        to = names[(at_ + 1) % 3]
        await cast.begin(name, made[at_])
        text = f"What does {to} say?"
        asked.append(await cast.say(name, text, to=[to], cause=made[at_], awaited=True))
    return at("checker", asked[2], asked[0])


@fault("C1")
async def conversation_begins_anew(cast: Cast) -> Truth:
    """After a long talk the question is put once more as if nothing had been said."""
    question = "Please find out how many units were sold in March, and check it with the report."
    await cast.open(*TEAM, question=question)
    for number in range(4):
        asked = await cast.say(
            "planner", f"What is in row {number}?", to=["coder"], cause=cast.asked, awaited=True
        )
        await cast.reply("coder", asked, f"Row {number} has {number} units in it.")
    again = await cast.say("planner", question, cause=cast.asked)
    await cast.done("planner")
    return at("planner", again)


@fault("U1 T1")
async def vote_lost_and_no_consensus(cast: Cast) -> Truth:
    """A voter never votes, and the vote fails for it."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    failed = ConsensusFailed(proposal=proposal.id, approvals=("coder",), reason="no more votes")
    await cast.add("planner", failed, cause=proposal)
    await cast.done("planner")
    return at("document", proposal)


@fault("C1")
async def task_opened_twice(cast: Cast) -> Truth:
    """A second opening gets into the log of a task."""
    await cast.open(*TEAM)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    opening = TaskOpened(title="again", participants=TEAM, parts=(TextPart("Again?"),))
    again = await cast.force("user", opening)
    await cast.done("planner")
    return at("user", again)


@fault("T1 U1")
async def question_to_a_person_left_open(cast: Cast) -> Truth:
    """A question is under way to another agent when the task is closed."""
    await cast.open(*TEAM)
    asked = await cast.say(
        "planner", "How many rows has the file?", to=["coder"], cause=cast.asked, awaited=True
    )
    await cast.begin("coder", asked)
    answer = await cast.answer("planner")
    closed = await cast.close("planner", answer)
    return at("planner coder", asked, closed)


@fault("E1 R1")
async def same_failing_call(cast: Cast) -> Truth:
    """The same call fails, and is tried again and again."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("FileNotFoundError", "there is no file sales.csv")
    calls = [
        await cast.tool("coder", made, "read_file", {"path": "sales.csv"}, error=error)
        for _ in range(4)
    ]
    await cast.finish(made, "I could not read the file.")
    await cast.done("planner", "It could not be counted.")
    return at("coder", *[entry for call in calls[1:] for entry in call])


@fault("O2 U1")
async def agent_that_is_not_running(cast: Cast) -> Truth:
    """A mention is stored for an agent that never comes."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.add("planner", MentionStored(agents=("coder",)), cause=made)
    answer = await cast.answer("planner")
    await cast.close("planner", answer)
    return at("coder", made)


@fault("V1")
async def answer_not_checked(cast: Cast) -> Truth:
    """The team has a checker, and the answer is accepted without it."""
    await cast.open(*TEAM)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    return at("planner", await cast.done("planner"))


@fault("V3")
async def check_claimed(cast: Cast) -> Truth:
    """A result claims that tests have passed, and no tool was called."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Write and test the program")
    await cast.model("coder", made)
    told = await cast.finish(made, "The program is written and all tests passed.")
    await cast.done("planner")
    return at("coder", told)


@clean()
async def work_passed_down(cast: Cast) -> None:
    """Whoever gets work gives the very same to a helper of its own."""
    await cast.open("planner", "coder", "helper")
    text = "Count the rows of the file sales.csv"
    made = await cast.assign("planner", "coder", text)
    inner = await cast.assign("coder", "helper", text, cause=made)
    await cast.finish(inner, "There are twelve rows.")
    await cast.finish(made, "Twelve rows, says the helper.")
    await cast.done("planner")


@clean(is_slow=True)
async def accepted_and_waited_for(cast: Cast) -> None:
    """An agent that records nothing of its own accepts work and tells its progress."""
    await cast.open("planner", "coder", "document")
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.add("coder", AssignmentAccepted(assignment=made.id), cause=made)
    await asyncio.sleep(1)
    await cast.finish(made, "There are twelve rows.")
    await cast.work("planner", "document", "Read the report", "It says twelve.")
    await asyncio.sleep(1)
    await cast.done("planner")


@clean()
async def failure_told_in_other_words(cast: Cast) -> None:
    """A call fails, and the result says what was done instead."""
    await cast.open("planner", "coder")
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("FileNotFoundError", "there is no file sales.csv")
    await cast.tool("coder", made, "read_file", {"path": "sales.csv"}, error=error)
    await cast.finish(made, "The file is missing, so I went by the report: twelve rows.")
    await cast.done("planner")


@clean()
async def reply_before_the_answer(cast: Cast) -> None:
    """Two are asked; both have replied when the answer is submitted."""
    await cast.open("planner", "coder", "document")
    asked = [
        await cast.say("planner", f"What do you make of it, {name}?", to=[name], cause=cast.asked)
        for name in ("coder", "document")
    ]
    await cast.reply("coder", asked[0], "Twelve.")
    await cast.reply("document", asked[1], "Also twelve.")
    await cast.done("planner")
