"""T1, T2, V1, V2 and V3: the end of a task, and whether what it ends with was checked."""

from __future__ import annotations

import pytest

from tests.support.analysis import found
from tests.support.story import MS, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    ArtifactAdded,
    CritiqueGiven,
    CritiqueVerdict,
    ErrorInfo,
    EventId,
    InputRequested,
    ProposalMade,
    TextPart,
    VoteCast,
    VoteVerdict,
)

S = 1_000 * MS
ACCEPT, UNCERTAIN = CritiqueVerdict.ACCEPT, CritiqueVerdict.UNCERTAIN


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "critique")


def test_a_close_with_something_open_is_premature() -> None:
    """Work, a vote, an objection, a question to a person: one finding names them all."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    proposal = ProposalMade(parts=(TextPart("Answer 4"),), voters=("coder", "critique"))
    vote = story.add("planner", proposal, cause=asked, mentions=("coder", "critique"))
    doubt = story.add("critique", CritiqueGiven(of=work, verdict=UNCERTAIN), cause=asked)
    story.add("planner", InputRequested(parts=(TextPart("Which?"),)), cause=asked)
    closed = story.close("planner", story.answer("planner", "4", asked))
    (finding,) = found("T1", story)

    assert finding.evidence == (closed, work, vote, doubt)
    for fact in ("1 open assignment (coder)", "1 undecided vote", "critique", "1 unanswered"):
        assert fact in finding.text


def test_a_close_with_everything_done_is_in_time() -> None:
    """Results are there, the vote cannot change, the objection was withdrawn; or it failed."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    proposal = ProposalMade(parts=(TextPart("4"),), voters=("coder", "critique"), quorum=1)
    vote = story.add("planner", proposal, cause=asked, mentions=("coder", "critique"))
    story.add("coder", VoteCast(proposal=vote, verdict=VoteVerdict.APPROVE), cause=vote)
    story.add("critique", CritiqueGiven(of=work, verdict=UNCERTAIN), cause=work)
    story.add("critique", CritiqueGiven(of=work, verdict=ACCEPT), cause=work)
    story.finish("coder", work, "4")
    story.close("planner", story.answer("planner", "4", asked))
    failed, asked = opened()
    failed.assign("planner", "coder", "Sum it", asked)
    failed.close("planner")

    assert found("T1", story) == []
    assert found("T1", failed) == []


@pytest.mark.parametrize("done", ["answer", "TERMINATE"])
def test_work_after_the_end_is_unaware_of_it(done: str) -> None:
    """After an answer, or after somebody said that it is over."""
    story, asked = opened()
    if done == "answer":
        end = story.answer("planner", "4", asked)
    else:
        end = story.say("planner", "It is 4. TERMINATE", cause=asked)
    story.say("coder", "I could sum it.")
    last = story.say("critique", "Please do.")
    (finding,) = found("T2", story, now=story.now)

    assert finding.evidence == (last, end)


def test_a_log_without_a_close_has_no_end() -> None:
    """Where no more will come, or nothing has come for long."""
    story, asked = opened()
    story.say("planner", "I shall see.", cause=asked)

    assert len(found("T2", story)) == 1
    assert len(found("T2", story, now=story.now + 400 * S)) == 1
    assert found("T2", story, now=story.now + 4 * S) == []


def test_a_closed_task_and_one_that_waits_for_a_person_have_an_end() -> None:
    """One act beside the answer is no sign."""
    story, asked = opened()
    answer = story.answer("planner", "4", asked)
    story.say("coder", "So do I think.")
    story.close("planner", answer)
    waits, asked = opened()
    waits.add("planner", InputRequested(parts=(TextPart("Which?"),)), cause=asked)

    assert found("T2", story) == []
    assert found("T2", waits, now=waits.now + 4000 * S) == []


def test_an_answer_that_the_critic_did_not_see_is_not_verified() -> None:
    """A run without anybody who checks says nothing, unless it is asked."""
    story, asked = opened()
    answer = story.answer("planner", "4", asked)
    story.close("planner", answer)
    alone = Story()
    asked = alone.open("planner", "coder")
    alone.close("planner", alone.answer("planner", "4", asked))
    (finding,) = found("V1", story)

    assert (finding.kind, finding.evidence) == (FindingKind.HINT, (answer,))
    assert "critique" in finding.text
    assert found("V1", alone) == []
    assert len(found("V1", alone, "V1.always=true")) == 1


def test_an_answer_that_rests_on_what_was_checked_is_verified() -> None:
    """The critique may be of a source of the answer."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    done = story.finish("coder", work, "4")
    story.add("critique", CritiqueGiven(of=done, verdict=ACCEPT), cause=done)
    story.close("planner", story.answer("planner", "4", asked, sources=(done,)))

    assert found("V1", story) == []


def test_an_answer_made_of_a_result_that_was_checked_is_verified() -> None:
    """The answer need not name it: whoever gave the work away had the result when they answered."""
    story, asked = opened()
    for text in ("3", "4"):
        done = story.finish("coder", story.assign("planner", "coder", "Sum it", asked), text)
        task = story.assign("planner", "critique", "Check it", asked)
        story.add("critique", CritiqueGiven(of=done, verdict=ACCEPT), cause=task)
        story.finish("critique", task, "It adds up.")
    answer = story.answer("planner", "4", asked)
    story.close("planner", answer)

    assert found("V1", story) == []


def test_a_result_that_came_after_the_check_is_not_verified() -> None:
    """An attempt takes the place of the one that was checked."""
    story, asked = opened()
    done = story.finish("coder", story.assign("planner", "coder", "Sum it", asked), "3")
    story.add("critique", CritiqueGiven(of=done, verdict=ACCEPT), cause=asked)
    story.finish("coder", story.assign("planner", "coder", "Again", asked), "4")
    story.close("planner", story.answer("planner", "4", asked))

    assert len(found("V1", story)) == 1


def test_a_check_of_an_older_version_is_stale() -> None:
    """The answer or the artifact that counts came after it."""
    story, asked = opened()
    first = story.answer("planner", "4", asked)
    file = story.add("coder", ArtifactAdded(name="a.csv", part=TextPart("1")), cause=asked)
    story.add("critique", CritiqueGiven(of=first, verdict=ACCEPT), cause=first)
    checked = story.add("critique", CritiqueGiven(of=file, verdict=ACCEPT), cause=file)
    newer = story.add("coder", ArtifactAdded(name="a.csv", part=TextPart("2")), cause=asked)
    second = story.answer("planner", "5", asked)
    story.close("planner", second)
    findings = found("V2", story)

    assert [one.evidence[0] for one in findings] == [newer, second]
    assert findings[0].evidence == (newer, checked, file)


def test_a_check_of_the_version_that_counts_is_not_stale() -> None:
    """What was replaced may have been checked, too."""
    story, asked = opened()
    first = story.answer("planner", "4", asked)
    story.add("critique", CritiqueGiven(of=first, verdict=ACCEPT), cause=first)
    second = story.answer("planner", "5", asked)
    story.add("critique", CritiqueGiven(of=second, verdict=ACCEPT), cause=second)
    story.close("planner", second)

    assert found("V2", story) == []


def test_a_claim_without_a_tool_has_no_evidence() -> None:
    """A call that failed is none either."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Write it", asked)
    story.model("coder", work)
    story.tool("coder", work, "run_tests", {}, error=ErrorInfo("OSError", "no"))
    done = story.finish("coder", work, "Written. I have verified that all tests pass.")
    (finding,) = found("V3", story)

    assert (finding.kind, finding.evidence) == (FindingKind.HINT, (done, work))


def test_a_claim_after_a_result_has_evidence() -> None:
    """The result may be in work that was given away."""
    story, asked = opened()
    story.model("planner", asked)
    work = story.assign("planner", "coder", "Write it", asked)
    story.tool("coder", work, "run_tests", {}, "12 passed")
    story.finish("coder", work, "All tests passed.")
    story.answer("planner", "It is written, and the tests passed.", asked)

    assert found("V3", story) == []
