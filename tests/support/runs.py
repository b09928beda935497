"""Whole runs, the same at every call."""

from __future__ import annotations

from typing import Final

from tests.support.story import MS, NUMBERS, Story
from threadbus.schemas import (
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    AssignmentProgressed,
    ConsensusReached,
    ContextUsed,
    CritiqueGiven,
    CritiqueVerdict,
    ErrorInfo,
    HandlingFailed,
    HandlingStarted,
    InputGiven,
    InputRequested,
    MentionDeadLettered,
    MentionReceived,
    MentionStored,
    ParticipantRemoved,
    PlanProposed,
    PlanStep,
    ProposalMade,
    ReferencePart,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    ThreadOutcome,
    ToolCalled,
    VoteCast,
    VoteVerdict,
)

EVIL: Final = "\x1b[2J\x1b]0;x\x07 evil\r\x9b31m\u202e \x00刘备 🎉"
"""What a terminal would obey, and what it may show."""


def revenue_run() -> Story:
    """A run with most of what there is: a plan, assignments, a sub-thread, a failed attempt that
    is tried again, a vote, a question to the person, an artifact, and an answer."""
    story = Story()
    add, say = story.add, story.say
    asked = add(
        "user",
        TaskOpened(
            title="Which revenue figure is right?",
            participants=("planner", "document", "coder"),
            parts=(TextPart("Which revenue figure is right: sales.csv or report.docx?\nSay why."),),
        ),
        mentions=("planner",),
    )
    add("planner", ContextUsed(up_to_seq=3, events=1, tokens=60), cause=asked, after_ms=3)
    story.model("planner", asked)
    add(
        "planner",
        PlanProposed(
            steps=(
                PlanStep("Read the report", "document"),
                PlanStep("Sum the sheet", "coder"),
            ),
            reasons=("the two must be compared",),
        ),
        cause=asked,
    )
    reading = add(
        "planner",
        AssignmentMade(assignee="document", parts=(TextPart("Read the total from report.docx"),)),
        cause=asked,
        mentions=("document",),
    )
    summing = add(
        "planner",
        AssignmentMade(
            assignee="coder",
            parts=(TextPart("Sum the column `revenue` of sales.csv"),),
            mode=AssignmentMode.ASYNC,
        ),
        cause=asked,
        mentions=("coder",),
    )
    story.tool("document", reading, "read_document", {"path": "report.docx"}, "3 pages, 812 words")
    story.model("document", reading, took_ms=800, tokens=(900, 24))
    total = (TextPart("The report says 4,210,000."),)
    add("document", AssignmentFinished(assignment=reading, parts=total), cause=reading)
    story.end("document", reading, worked_ms=843)
    add("coder", HandlingStarted(replica="coder-1"), cause=summing, after_ms=1)
    story.tool(
        "coder",
        summing,
        "run_python",
        {"code": "import csv; print(sum(…))"},
        error=ErrorInfo("ToolError", "KeyError: 'revenue' in line 3 of the program"),
        took_ms=310,
    )
    add(
        "coder",
        HandlingFailed(
            error=ErrorInfo("ToolError", "the program failed twice"),
            retry_in_ns=2000 * MS,
            replica="coder-1",
        ),
        cause=summing,
        after_ms=2,
    )
    add("coder", HandlingStarted(attempt=2, replica="coder-1"), cause=summing, after_ms=2003)
    story.model("coder", summing, took_ms=650, tokens=(700, 61))
    story.tool(
        "coder", summing, "run_python", {"code": "print(df.Revenue.sum())"}, "4120000", took_ms=280
    )
    add(
        "coder",
        ArtifactAdded(
            name="totals.csv",
            part=ReferencePart("ab" * 32, 1234, "totals.csv", "text/csv"),
            description="revenue by month",
        ),
        cause=summing,
    )
    handed = add(
        "coder",
        AssignmentFinished(assignment=summing, parts=(TextPart("The sheet sums to 4,120,000."),)),
        cause=summing,
        mentions=("planner",),
    )
    story.end("coder", summing, worked_ms=931, attempt=2)
    opened = add(
        "planner",
        ThreadOpened(title="Check numbers", participants=("document", "coder")),
        thread=NUMBERS,
        cause=handed,
        after_ms=2,
    )
    doubt = say(
        "planner",
        "The two differ by 90,000. Does the report count returns?",
        to=("document",),
        thread=NUMBERS,
        cause=handed,
        awaited=True,
    )
    add(
        "document",
        MentionReceived(queue_depth=1, busy_with="page 2 of report.docx"),
        cause=doubt,
        thread=NUMBERS,
        after_ms=1,
    )
    story.model("document", doubt, took_ms=400, tokens=(1200, 40), thread=NUMBERS)
    found = say(
        "document",
        "It does not: a footnote on page 2 says “before returns”.",
        thread=NUMBERS,
        cause=doubt,
    )
    story.end("document", doubt, worked_ms=402, waited_ms=350, thread=NUMBERS)
    add(
        "planner",
        CritiqueGiven(
            of=found, verdict=CritiqueVerdict.ACCEPT, reasons=("the footnote explains it",)
        ),
        thread=NUMBERS,
        cause=found,
        after_ms=2,
    )
    proposal = add(
        "planner",
        ProposalMade(parts=(TextPart("Answer with the sheet's figure"),), voters=("coder",)),
        thread=NUMBERS,
        cause=opened,
        mentions=("coder",),
    )
    add(
        "coder",
        VoteCast(proposal=proposal, verdict=VoteVerdict.APPROVE, reasons=("it is net of returns",)),
        thread=NUMBERS,
        cause=proposal,
        after_ms=4,
    )
    story.end("coder", proposal, worked_ms=3, thread=NUMBERS)
    add(
        "planner",
        ConsensusReached(proposal=proposal, approvals=("coder",)),
        thread=NUMBERS,
        cause=proposal,
        after_ms=1,
    )
    add("planner", ThreadClosed(summary="returns explain it"), thread=NUMBERS, cause=opened)
    request = add(
        "planner",
        InputRequested(parts=(TextPart("Before or after returns: which do you need?"),)),
        cause=handed,
        after_ms=1,
    )
    add(
        "user",
        InputGiven(request=request, parts=(TextPart("After returns."),)),
        cause=request,
        after_ms=5200,
    )
    story.model("planner", handed, took_ms=900, tokens=(1500, 130))
    answer = add(
        "planner",
        AnswerSubmitted(
            parts=(
                TextPart(
                    "4,120,000, the figure in sales.csv.\n\n"
                    "The report's 4,210,000 is before returns of 90,000 (footnote on page 2)."
                ),
            ),
            sources=(found, handed),
        ),
        cause=handed,
    )
    add(
        "planner",
        TaskClosed(outcome=TaskStatus.COMPLETED, summary="the sheet is right", answer=answer),
        cause=answer,
        after_ms=1,
    )
    story.end("planner", asked, worked_ms=11_800, waited_ms=3)
    story.end("planner", handed, worked_ms=6_509)
    return story


def troubled_run() -> Story:
    """A run in which most things go wrong, and what agents say is meant to do harm."""
    story = Story()
    add = story.add
    asked = add(
        "user",
        TaskOpened(title=f"Title{EVIL}".replace("\x00", ""), parts=(_text("What?"),)),
        mentions=("planner", "ghost"),
    )
    add("user", MentionStored(agents=("ghost",)), cause=asked)
    add("planner", HandlingStarted(), cause=asked, after_ms=60)
    story.model("planner", asked, system="playbook")
    failed = ErrorInfo("RateLimitError", harmful("too many requests " * 8))
    story.model("planner", asked, error=failed, took_ms=30_000, tokens=(0, 0))
    add("planner", PlanProposed(steps=(PlanStep(harmful("Step one")),)), cause=asked)
    work = add(
        "planner",
        AssignmentMade(assignee="coder", parts=(_text("Sum the column"),)),
        cause=asked,
        mentions=("coder",),
    )
    add("coder", MentionReceived(queue_depth=3, busy_with=harmful("page 3")), cause=work)
    add(
        "coder",
        AssignmentProgressed(assignment=work, note=harmful("half"), fraction=0.5),
        cause=work,
    )
    add(
        "coder", ToolCalled(call_id="c1", tool=harmful("run"), arguments=[harmful("a")]), cause=work
    )
    error = ErrorInfo(harmful("ValueError"), harmful("no such column"))
    add("coder", HandlingFailed(error=error, retry_in_ns=500 * MS), cause=work, after_ms=200)
    add("coder", HandlingFailed(error=error, attempt=2), cause=work, after_ms=700)
    add("coder", AssignmentFailed(assignment=work, error=error), cause=work)
    add("coder", MentionDeadLettered(error=error, attempts=2), cause=work, mentions=("planner",))
    add("planner", ArtifactAdded(name=harmful("a.csv"), part=_text("x,y"), description="d"))
    add("planner", ThreadOpened(title=harmful("Side")), thread="side-1", cause=asked)
    add("planner", ParticipantRemoved(participant="coder", reason=harmful("r")), thread="side-1")
    add(
        "planner",
        ThreadClosed(outcome=ThreadOutcome.FAILED, summary=harmful("went nowhere")),
        thread="side-1",
    )
    add("planner", TaskStatusChanged(status=TaskStatus.PAUSED, note=harmful("n")), cause=asked)
    add("planner", InputRequested(parts=(_text("Which one?"),)), cause=asked, after_ms=90_000)
    story.say("stranger", harmful("who am I"), thread="lost-1")
    return story


def harmful(text: str) -> str:
    """Add to *text* what is harmful and yet may be in an event."""
    return text + EVIL.replace("\x00", "")


def _text(text: str) -> TextPart:
    return TextPart(harmful(text))


def closed(story: Story) -> Story:
    """End a story as failed."""
    story.add("planner", TaskClosed(outcome=TaskStatus.FAILED, summary=harmful("gave up")))
    return story
