"""Injected faults of references, bounds and repeated work, one of each kind."""

from __future__ import annotations

import time

import msgspec

from benchmarks.faults.cast import NOWHERE, SECOND, Cast, Entry
from benchmarks.faults.scenario import Truth, at, clean, fault
from threadbus.schemas import (
    ErrorInfo,
    HandlingFailed,
    MessagePosted,
    PlanRevised,
    PlanStep,
    ProposalMade,
    TaskClosed,
    TaskStatus,
    TextPart,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    VoteCast,
    VoteVerdict,
    encode_event,
    new_event_id,
)

TEAM = ("planner", "coder", "document")


@fault("R4 R1")
async def same_work_same_result(cast: Cast) -> Truth:
    """The same work is given again and again, and brings the same each time."""
    await cast.open(*TEAM)
    done = [
        await cast.work("planner", "coder", "Look for the price", "There is no price on the page.")
        for _ in range(4)
    ]
    await cast.done("planner")
    return at("planner coder", done[2], done[1])


@fault("Q2")
async def vote_past_the_deadline(cast: Cast) -> Truth:
    """A vote comes after the deadline of the vote."""
    await cast.open(*TEAM)
    made = ProposalMade(
        parts=(TextPart("The answer is twelve"),),
        voters=("coder", "document"),
        quorum=1,
        deadline_at=time.time_ns() - SECOND,
    )
    proposal = await cast.add("planner", made, to=("coder", "document"), cause=cast.asked)
    late = await cast.vote("coder", proposal)
    await cast.end("document", proposal)
    await cast.done("planner")
    return at("coder", late)


@fault("O1")
async def vote_on_nothing(cast: Cast) -> Truth:
    """A vote refers to a proposal that was never made."""
    await cast.open(*TEAM)
    vote = VoteCast(proposal=NOWHERE, verdict=VoteVerdict.APPROVE)
    lost = await cast.add("coder", vote, cause=cast.asked)
    await cast.done("planner")
    return at("coder", lost)


@fault("O1")
async def closed_with_an_answer_that_is_none(cast: Cast) -> Truth:
    """The close names an answer that was never submitted."""
    await cast.open(*TEAM)
    closed = TaskClosed(outcome=TaskStatus.COMPLETED, answer=NOWHERE)
    wrong = await cast.add("planner", closed, cause=cast.asked)
    return at("planner", wrong)


@fault("O1")
async def revision_of_no_plan(cast: Cast) -> Truth:
    """A plan is revised that was never proposed."""
    await cast.open(*TEAM)
    revised = PlanRevised(replaces=NOWHERE, steps=(PlanStep("count", "coder"),))
    wrong = await cast.add("planner", revised, cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.done("planner")
    return at("planner", wrong)


@fault("P3")
async def message_after_the_close_of_a_thread(cast: Cast) -> Truth:
    """Somebody goes on in a thread that was closed."""
    await cast.open(*TEAM)
    aside = ThreadId("check-rows-a1b2c3")
    opened = ThreadOpened(title="check", participants=("planner", "coder"))
    await cast.add("planner", opened, thread=aside, cause=cast.asked)
    await cast.add("planner", ThreadClosed(summary="done"), thread=aside, cause=cast.asked)
    said = MessagePosted(parts=(TextPart("One more thing."),))
    late = await cast.force("coder", said, thread=aside, cause=cast.asked.id)
    await cast.done("planner")
    return at("coder", late)


@fault("F4")
async def half_an_event(cast: Cast) -> Truth:
    """An entry breaks off in the middle."""
    await cast.open(*TEAM)
    said = await cast.say("coder", "There are twelve rows.", cause=cast.asked)
    again = encode_event(msgspec.structs.replace(said.event, id=new_event_id()))
    seq = await cast.put(said.event.subject, again[: len(again) // 2])
    await cast.done("planner")
    return at("", seq)


@fault("E1")
async def model_fails_again_and_again(cast: Cast) -> Truth:
    """A model fails in the same way several times."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("ServerError", "500 internal error")
    calls = [await cast.model("coder", made, error=error) for _ in range(4)]
    await cast.finish(made, "The model failed.")
    await cast.done("planner", "It could not be counted.")
    return at("coder", calls[2], calls[0])


@fault("B2 E2")
async def turn_out_of_time(cast: Cast) -> Truth:
    """An attempt takes longer than a turn may."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.begin("coder", made)
    error = ErrorInfo("TurnTimeoutError", "the turn took longer than 1 h")
    failed = HandlingFailed(error=error, attempt=1, retry_in_ns=1)
    over = await cast.add("coder", failed, cause=made)
    await cast.begin("coder", made, attempt=2)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", over)


@fault("B2")
async def thread_beyond_its_turns(cast: Cast) -> Truth:
    """A thread goes on after as many turns as it may have."""
    await cast.open(*TEAM)
    aside = ThreadId("check-rows-a1b2c3")
    opening = ThreadOpened(title="check", participants=("planner", "coder"), max_turns=2)
    opened = await cast.add("planner", opening, thread=aside, cause=cast.asked)
    last: Entry = opened
    for number in range(4):
        # The bus refuses what is said past the bound.
        question = MessagePosted(parts=(TextPart(f"And row {number}?"),))
        asked = await cast.force("planner", question, to=["coder"], thread=aside)
        told = MessagePosted(parts=(TextPart(f"Row {number} has {number} units."),))
        last = await cast.force("coder", told, thread=aside, cause=asked.id)
        await cast.end("coder", asked)
    await cast.done("planner")
    return at("planner", opened, last)


@fault("RA")
async def assigned_by_two(cast: Cast) -> Truth:
    """Work that is under way is given to the same agent by another one, too."""
    await cast.open(*TEAM)
    text = "Count the rows of the file sales.csv"
    first = await cast.assign("planner", "coder", text, later=True)
    await cast.begin("coder", first)
    second = await cast.assign("document", "coder", text, later=True)
    await cast.finish(first, "There are twelve rows.")
    await cast.finish(second, "Twelve, as I said.")
    await cast.done("planner")
    return at("document", second)


@clean()
async def same_work_on_what_has_changed(cast: Cast) -> None:
    """The same work is given again and again, and brings something else each time."""
    await cast.open("planner", "coder")
    for number in range(4):
        await cast.work("planner", "coder", "Run the tests", f"{4 - number} tests fail by now.")
    await cast.done("planner")
