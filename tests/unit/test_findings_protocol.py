"""Q1, Q2, O1, O2, O3 and P3: the rules of the bus, and votes."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.analysis import found
from tests.support.story import MS, Story
from threadbus.replay import FindingKind
from threadbus.schemas import (
    AssignmentFinished,
    ConsensusFailed,
    ConsensusReached,
    EventId,
    HandlingEnded,
    MentionStored,
    ParticipantRemoved,
    ProposalMade,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    VoteCast,
    VoteVerdict,
)

APPROVE, REJECT = VoteVerdict.APPROVE, VoteVerdict.REJECT
NOWHERE = EventId("0" * 31 + "1")


def opened() -> tuple[Story, EventId]:
    """Return a run with three agents, and what the first was asked."""
    story = Story()
    return story, story.open("planner", "coder", "document")


def voting(
    *votes: tuple[str, VoteVerdict], quorum: int | None = None, deadline_at: int | None = None
) -> tuple[Story, EventId]:
    """Return a run in which coder and document may vote, and these votes are cast."""
    story, asked = opened()
    proposal = ProposalMade(
        parts=(TextPart("Answer 4"),),
        voters=("coder", "document"),
        quorum=quorum,
        deadline_at=deadline_at,
    )
    made = story.add("planner", proposal, cause=asked, mentions=("coder", "document"))
    for voter, verdict in votes:
        story.add(voter, VoteCast(proposal=made, verdict=verdict), cause=made, after_ms=10)
    return story, made


@pytest.mark.parametrize(
    ("votes", "quorum"),
    [
        ((("coder", APPROVE),), None),
        ((("coder", APPROVE), ("document", REJECT)), 2),
        ((("coder", APPROVE), ("coder", APPROVE)), 2),
        ((("coder", APPROVE), ("planner", APPROVE)), 2),
        ((("coder", APPROVE), ("coder", REJECT)), 1),
    ],
)
def test_a_consensus_with_too_few_approvals_has_no_quorum(
    votes: tuple[tuple[str, VoteVerdict], ...], quorum: int | None
) -> None:
    """Only voters count, each once, and only by the last vote."""
    story, made = voting(*votes, quorum=quorum)
    reached = story.add("planner", ConsensusReached(proposal=made), cause=made)
    (finding,) = found("Q1", story)

    assert (finding.kind, finding.evidence) == (FindingKind.VIOLATION, (reached, made))


def test_a_consensus_with_its_approvals_has_a_quorum() -> None:
    """All voters where no quorum is said; a voter may change its mind before."""
    story, made = voting(("coder", REJECT), ("document", APPROVE), ("coder", APPROVE))
    story.add("planner", ConsensusReached(proposal=made, approvals=("coder", "document")))
    second, made = voting(("coder", APPROVE), quorum=1)
    second.add("planner", ConsensusReached(proposal=made, approvals=("coder",)))

    assert found("Q1", story) == []
    assert found("Q2", story) == []
    assert found("Q1", second) == []


def test_a_vote_past_the_deadline_does_not_count() -> None:
    """The vote is a symptom; a consensus that needs it is a violation."""
    story = Story()
    late, made = voting(("coder", APPROVE), ("document", APPROVE), deadline_at=story.now + 15 * MS)
    late.add("planner", ConsensusReached(proposal=made))
    (vote,) = found("Q2", late)

    assert (vote.agent, vote.kind) == ("document", FindingKind.SYMPTOM)
    assert len(found("Q1", late)) == 1


def test_votes_and_decisions_that_do_not_count_are_found() -> None:
    """A stranger's vote, a wrong count, a decision against the votes, its opposite, a late vote."""
    story, made = voting(("planner", APPROVE), ("coder", APPROVE), ("coder", APPROVE), quorum=1)
    story.add("planner", ConsensusReached(proposal=made, approvals=("coder", "document")))
    story.add("planner", ConsensusFailed(proposal=made))
    story.add("document", VoteCast(proposal=made, verdict=REJECT), cause=made)
    findings = found("Q2", story)

    assert [(one.kind, one.agent) for one in findings] == [
        (FindingKind.VIOLATION, "planner"),
        (FindingKind.HINT, "coder"),
        (FindingKind.VIOLATION, "planner"),
        (FindingKind.VIOLATION, "planner"),
        (FindingKind.VIOLATION, "planner"),
        (FindingKind.SYMPTOM, "document"),
    ]


def test_a_failed_vote_is_no_fault() -> None:
    """It cannot get its quorum any more."""
    story, made = voting(("coder", APPROVE), ("document", REJECT))
    story.add("planner", ConsensusFailed(proposal=made, rejections=("document",)))

    assert found("Q2", story) == []


def test_a_reference_to_nothing_is_an_orphan() -> None:
    """A cause is a symptom, a reference that the type needs a violation; so is the wrong type."""
    story, asked = opened()
    cause = story.say("coder", "As you say.", cause=NOWHERE)
    lost = story.add("coder", AssignmentFinished(assignment=NOWHERE), cause=asked)
    wrong = story.add("coder", VoteCast(proposal=asked, verdict=APPROVE), cause=asked)
    findings = found("O1", story)

    assert [(one.evidence[0], one.kind) for one in findings] == [
        (cause, FindingKind.SYMPTOM),
        (lost, FindingKind.VIOLATION),
        (wrong, FindingKind.VIOLATION),
    ]


def test_a_part_of_a_log_has_no_orphans() -> None:
    """What is missing may be in the rest."""
    story, asked = opened()
    work = story.assign("planner", "coder", "Sum it", asked)
    story.finish("coder", work, "4")

    assert found("O1", story) == []
    assert found("O1", story.log[2:]) == []


def test_a_mention_of_somebody_outside_is_a_violation() -> None:
    """One that never came is a symptom."""
    story, asked = opened()
    wrong = story.say("planner", "Can you?", to=("ghost",), cause=asked)
    stored = story.say("planner", "Can you?", to=("coder",), cause=asked)
    story.add("planner", MentionStored(agents=("coder",)), cause=stored)
    findings = found("O2", story)

    assert [(one.evidence[0], one.kind, one.agent) for one in findings] == [
        (wrong, FindingKind.VIOLATION, "planner"),
        (stored, FindingKind.SYMPTOM, "coder"),
    ]


def test_a_mention_of_a_participant_is_fine() -> None:
    """Also of one that was started later, and in a thread of which the opening is missing."""
    story, asked = opened()
    stored = story.say("planner", "Can you?", to=("coder",), cause=asked)
    story.add("planner", MentionStored(agents=("coder",)), cause=stored)
    story.say("coder", "I can.", cause=stored, after_ms=5000)
    story.say("planner", "Hello?", to=("ghost",), thread="lost-1")

    assert found("O2", story) == []


def test_an_answer_that_stands_before_its_question_is_out_of_order() -> None:
    """By the log, which is what counts."""
    story, asked = opened()
    question = story.say("planner", "Is it so?", cause=asked)
    reply = story.say("coder", "It is.", cause=question)
    first, second = story.log[-2:]
    story.log[-2:] = [
        msgspec.structs.replace(second, seq=first.seq),
        msgspec.structs.replace(first, seq=second.seq),
    ]
    (finding,) = found("O3", story)

    assert (finding.agent, finding.evidence) == ("coder", (reply, question))
    assert found("O1", story) == []


def test_a_log_in_order_is_in_order() -> None:
    """Causes stand before what they cause."""
    story, asked = opened()
    story.say("coder", "It is.", cause=story.say("planner", "Is it so?", cause=asked))

    assert found("O3", story) == []


def test_speaking_without_the_right_to_is_a_violation() -> None:
    """From outside, after being taken out, after the close, about another's work."""
    story, asked = opened()
    outside = story.say("ghost", "Boo.", cause=asked)
    story.add("planner", ParticipantRemoved(participant="document"), cause=asked)
    removed = story.say("document", "But I am here.", cause=asked)
    work = story.assign("planner", "coder", "Sum it", asked)
    others = story.finish("planner", work, "4")
    closed = story.close("planner", story.answer("planner", "4", asked))
    after = story.say("coder", "It is 5.", cause=work)
    findings = found("P3", story)

    assert [one.evidence[0] for one in findings] == [outside, removed, others, after]
    assert findings[-1].evidence == (after, closed)
    assert {one.kind for one in findings} == {FindingKind.VIOLATION}


def test_observations_and_other_threads_are_free() -> None:
    """A close ends its own thread only, and what was seen may be told later."""
    story, asked = opened()
    story.add("planner", ThreadOpened(title="Side", participants=("coder",)), thread="side-1")
    story.add("planner", ThreadClosed(), thread="side-1")
    story.end("coder", asked, worked_ms=3, thread="side-1")
    story.say("coder", "Back here.", cause=asked)
    story.close("planner", story.answer("planner", "4", asked))
    story.add(
        "ghost", HandlingEnded(received_at=1, started_at=1, ended_at=2), cause=asked, after_ms=5
    )

    assert found("P3", story) == []


def test_a_stranger_cannot_close_a_thread() -> None:
    """Its close is a violation, and what follows is none."""
    story, asked = opened()
    story.close("ghost", None)
    story.say("coder", "We go on.", cause=asked)
    findings = found("P3", story)

    assert [one.agent for one in findings] == ["ghost"]
