"""Injected faults of the protocol, of tools and models, and of the log itself."""

from __future__ import annotations

import msgspec

from benchmarks.faults.cast import NOWHERE, Cast
from benchmarks.faults.scenario import Truth, at, fault
from threadbus.schemas import (
    AssignmentFinished,
    ErrorInfo,
    HandlingStarted,
    MessagePosted,
    ParticipantRemoved,
    TextPart,
    encode_event,
    new_event_id,
)

TEAM = ("planner", "coder", "document", "checker")
_FAILED = ErrorInfo("FileNotFoundError", "there is no file sales.csv")


def _said(text: str) -> MessagePosted:
    return MessagePosted(parts=(TextPart(text),))


@fault("O1")
async def orphan_reply(cast: Cast) -> Truth:
    """A reply answers what is nowhere in the log."""
    await cast.open(*TEAM)
    lost = await cast.force("coder", _said("There are twelve."), cause=NOWHERE)
    await cast.done("planner")
    return at("coder", lost)


@fault("O1")
async def result_of_no_assignment(cast: Cast) -> Truth:
    """A result refers to an assignment that was never made."""
    await cast.open(*TEAM)
    found = AssignmentFinished(assignment=NOWHERE, parts=(TextPart("There are twelve."),))
    lost = await cast.force("coder", found, cause=cast.asked.id)
    await cast.done("planner")
    return at("coder", lost)


@fault("O2")
async def unknown_addressee(cast: Cast) -> Truth:
    """Somebody is mentioned who does not take part."""
    await cast.open(*TEAM)
    asked = await cast.force(
        "planner", _said("Please count the rows."), to=["codr"], cause=cast.asked.id
    )
    await cast.done("planner")
    return at("planner", asked)


@fault("O3")
async def answer_before_the_question(cast: Cast) -> Truth:
    """A reply stands in the log before what it answers."""
    await cast.open(*TEAM)
    later = new_event_id()
    early = await cast.force("coder", _said("There are twelve rows."), cause=later)
    await cast.force(
        "planner",
        _said("How many rows are there?"),
        to=["coder"],
        cause=cast.asked.id,
        event_id=later,
    )
    await cast.done("planner")
    return at("coder", early)


@fault("P3")
async def speaks_without_taking_part(cast: Cast) -> Truth:
    """Somebody speaks in a thread that it is not in."""
    await cast.open(*TEAM)
    spoke = await cast.force("stranger", _said("I know better."), cause=cast.asked.id)
    await cast.done("planner")
    return at("stranger", spoke)


@fault("P3")
async def speaks_after_being_removed(cast: Cast) -> Truth:
    """Somebody who was taken out goes on."""
    await cast.open(*TEAM)
    removed = ParticipantRemoved(participant="document", reason="done")
    await cast.add("planner", removed, cause=cast.asked)
    spoke = await cast.force("document", _said("One more thing."), cause=cast.asked.id)
    await cast.done("planner")
    return at("document", spoke)


@fault("P3")
async def message_after_the_close(cast: Cast) -> Truth:
    """A message gets into the log after the close."""
    await cast.open(*TEAM)
    await cast.done("planner")
    late = await cast.force("coder", _said("It is thirteen after all."), cause=cast.asked.id)
    return at("coder", late)


@fault("P3")
async def result_by_another(cast: Cast) -> Truth:
    """Somebody reports on work that another agent has."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    found = AssignmentFinished(assignment=made.id, parts=(TextPart("There are twelve."),))
    wrong = await cast.add("document", found, cause=made)
    await cast.end("coder", made)
    await cast.done("planner")
    return at("document", wrong)


@fault("F4")
async def forged_sender(cast: Cast) -> Truth:
    """A message says in its body that somebody else wrote it."""
    await cast.open(*TEAM)
    said = await cast.say("coder", "There are twelve rows.", cause=cast.asked)
    forged = msgspec.structs.replace(said.event, id=new_event_id())
    seq = await cast.put(forged.subject.replace(".coder", ".document"), encode_event(forged))
    await cast.done("planner")
    return at("", seq)


@fault("F4")
async def unreadable_bytes(cast: Cast) -> Truth:
    """An entry of the log is no event."""
    await cast.open(*TEAM)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    seq = await cast.junk("coder", b"\xff\x00 no event at all")
    await cast.done("planner")
    return at("", seq)


@fault("F3")
async def repeated_entry(cast: Cast) -> Truth:
    """An event is stored twice, past the window in which the server looks at ids."""
    await cast.open(*TEAM)
    said = await cast.say("coder", "There are twelve rows.", cause=cast.asked)
    seq = await cast.put(said.event.subject, encode_event(said.event))
    await cast.done("planner")
    return at("coder", seq)


@fault("F1")
async def redelivery(cast: Cast) -> Truth:
    """A mention is handled a second time without a word of the first."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.begin("coder", made, attempt=1)
    again = await cast.begin("coder", made, attempt=2)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", again)


@fault("F1")
async def two_processes_at_one_mention(cast: Cast) -> Truth:
    """Two replicas handle the same mention at once."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.begin("coder", made)
    other = HandlingStarted(attempt=1, replica="coder-b")
    twice = await cast.add("coder", other, cause=made)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", twice)


@fault("I2")
async def tool_error_ignored(cast: Cast) -> Truth:
    """A call fails, and the result is told as if it had not."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.tool("coder", made, "read_file", {"path": "sales.csv"}, error=_FAILED)
    told = await cast.finish(made, "There are twelve rows in it.")
    await cast.done("planner")
    return at("coder", told)


@fault("E1")
async def burst_of_errors(cast: Cast) -> Truth:
    """A tool fails in the same way again and again."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the files")
    returns = [
        await cast.tool("coder", made, "read_file", {"path": f"{name}.csv"}, error=_FAILED)
        for name in ("sales", "sale", "march", "report")
    ]
    await cast.finish(made, "I could not read any of the files.")
    await cast.done("planner", "It could not be counted.")
    return at("coder", returns[2][1], returns[0][1])


@fault("E2")
async def guardrail(cast: Cast) -> Truth:
    """A content filter stops a model."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    stopped = await cast.model("coder", made, finish_reason="content_filter")
    await cast.finish(made, "I could not get an answer.")
    await cast.done("planner", "It could not be counted.")
    return at("coder", stopped)


@fault("E2")
async def rate_limit(cast: Cast) -> Truth:
    """A model refuses because of a rate limit."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("HTTPStatusError", "429 too many requests")
    limited = await cast.model("coder", made, error=error)
    await cast.finish(made, "I could not get an answer.")
    await cast.done("planner", "It could not be counted.")
    return at("coder", limited)


@fault("E3")
async def malformed_call(cast: Cast) -> Truth:
    """A tool is called with arguments that it does not take."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    error = ErrorInfo("ValidationError", "missing 1 required argument: path")
    called, returned = await cast.tool("coder", made, "read_file", {"file": "a"}, error=error)
    await cast.tool("coder", made, "read_file", {"path": "a"}, "twelve rows")
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", returned, called)
