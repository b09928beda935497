"""Injected faults of votes, plans, checks, contexts, budgets and endings."""

from __future__ import annotations

from benchmarks.faults.cast import Cast, Entry
from benchmarks.faults.scenario import Truth, at, fault
from threadbus.schemas import (
    ArtifactAdded,
    ConsensusFailed,
    ConsensusReached,
    ContextUsed,
    PlanProposed,
    PlanRevised,
    PlanStep,
    TaskStatus,
    TextPart,
    VoteCast,
    VoteVerdict,
)

TEAM = ("planner", "coder", "document", "checker")


@fault("T1 U1")
async def lost_vote(cast: Cast) -> Truth:
    """A voter never votes, and the task is closed over it."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    answer = await cast.answer("planner")
    closed = await cast.close("planner", answer)
    return at("planner", closed, proposal)


@fault("Q2")
async def double_vote(cast: Cast) -> Truth:
    """A voter votes the same twice."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    again = await cast.vote("coder", proposal)
    await cast.vote("document", proposal)
    await _reached(cast, proposal, "coder", "document")
    await cast.done("planner")
    return at("coder", again)


@fault("Q2")
async def vote_of_no_voter(cast: Cast) -> Truth:
    """Somebody votes who was not asked to."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    wrong = await cast.add(
        "checker", VoteCast(proposal=proposal.id, verdict=VoteVerdict.APPROVE), cause=proposal
    )
    await cast.vote("document", proposal)
    await _reached(cast, proposal, "coder", "document")
    await cast.done("planner")
    return at("checker", wrong)


@fault("Q2")
async def vote_after_the_decision(cast: Cast) -> Truth:
    """A vote comes after the consensus was recorded."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "Twelve", ["coder", "document"], quorum=1)
    await cast.vote("coder", proposal)
    await _reached(cast, proposal, "coder")
    late = await cast.vote("document", proposal, approves=False)
    await cast.done("planner")
    return at("document", late)


@fault("P3 Q2")
async def vote_after_the_close(cast: Cast) -> Truth:
    """A vote gets into the log after the close of the task."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "Twelve", ["coder", "document"], quorum=1)
    await cast.vote("coder", proposal)
    await _reached(cast, proposal, "coder")
    await cast.done("planner")
    late = await cast.force(
        "document", VoteCast(proposal=proposal.id, verdict=VoteVerdict.REJECT), cause=proposal.id
    )
    return at("document", late)


@fault("Q1")
async def decision_without_quorum(cast: Cast) -> Truth:
    """A consensus is recorded with one approval of two."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    await cast.vote("document", proposal, approves=False)
    decided = await _reached(cast, proposal, "coder")
    await cast.done("planner")
    return at("planner", decided)


@fault("Q2")
async def decision_against_the_votes(cast: Cast) -> Truth:
    """No consensus is recorded although everybody approved."""
    await cast.open(*TEAM)
    proposal = await cast.propose("planner", "The answer is twelve", ["coder", "document"])
    await cast.vote("coder", proposal)
    await cast.vote("document", proposal)
    failed = ConsensusFailed(proposal=proposal.id, rejections=("document",), reason="no majority")
    decided = await cast.add("planner", failed, cause=proposal)
    await cast.done("planner")
    return at("planner", decided)


@fault("Q2")
async def approval_made_up(cast: Cast) -> Truth:
    """A consensus counts the approval of somebody who never gave one."""
    await cast.open(*TEAM)
    voters = ["coder", "document", "checker"]
    proposal = await cast.propose("planner", "The answer is twelve", voters, quorum=2)
    await cast.vote("coder", proposal)
    await cast.vote("document", proposal)
    await cast.vote("checker", proposal, approves=False)
    decided = await _reached(cast, proposal, "coder", "document", "checker")
    await cast.done("planner")
    return at("planner", decided)


@fault("T1")
async def closed_over_open_work(cast: Cast) -> Truth:
    """The task is closed as completed while an agent works."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file", later=True)
    await cast.begin("coder", made)
    answer = await cast.answer("planner")
    closed = await cast.close("planner", answer)
    return at("planner", closed)


@fault("T1")
async def closed_over_an_objection(cast: Cast) -> Truth:
    """The task is closed as completed although a critic objects."""
    await cast.open(*TEAM)
    result = await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.critique("checker", result, accepts=False, reason="the header was counted")
    answer = await cast.answer("planner")
    closed = await cast.close("planner", answer)
    return at("planner", closed)


@fault("T2")
async def never_closed(cast: Cast) -> Truth:
    """The log ends without a close."""
    await cast.open(*TEAM)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    last = await cast.end("planner", cast.asked)
    return at("", last)


@fault("T2")
async def work_after_the_answer(cast: Cast) -> Truth:
    """The answer is there, and the team goes on."""
    await cast.open(*TEAM)
    answer = await cast.answer("planner")
    first = await cast.say("document", "I look for more.", cause=cast.asked)
    second = await cast.say("coder", "So do I, in the other file.", cause=cast.asked)
    await cast.close("planner", answer)
    return at("coder", second, first)


@fault("V2")
async def stale_verification(cast: Cast) -> Truth:
    """What was checked is not the version that counts."""
    await cast.open(*TEAM)
    report = ArtifactAdded(name="report.txt", part=TextPart("twelve units"))
    first = await cast.add("coder", report, cause=cast.asked)
    await cast.critique("checker", first, accepts=True, reason="the sum is right")
    second = await cast.add(
        "coder",
        ArtifactAdded(name="report.txt", part=TextPart("thirteen units")),
        cause=cast.asked,
    )
    await cast.done("planner")
    return at("coder", second)


@fault("P1")
async def plan_churn(cast: Cast) -> Truth:
    """A plan is revised over and over, and nothing is done."""
    await cast.open(*TEAM)
    plans = [await cast.add("planner", PlanProposed(steps=_steps("read")), cause=cast.asked)]
    for title in ("count", "search", "ask", "guess"):
        revised = PlanRevised(replaces=plans[-1].id, steps=_steps(title), reasons=("better",))
        plans.append(await cast.add("planner", revised, cause=cast.asked))
    await cast.done("planner")
    return at("planner", plans[3], plans[2])


@fault("P1")
async def plan_goes_back(cast: Cast) -> Truth:
    """A plan that was given up comes back."""
    await cast.open(*TEAM)
    first = await cast.add("planner", PlanProposed(steps=_steps("read")), cause=cast.asked)
    second = PlanRevised(replaces=first.id, steps=_steps("count"), reasons=("better",))
    revised = await cast.add("planner", second, cause=cast.asked)
    back = await cast.add(
        "planner",
        PlanRevised(replaces=revised.id, steps=_steps("read"), reasons=("after all",)),
        cause=cast.asked,
    )
    await cast.done("planner")
    return at("planner", back)


@fault("P2")
async def plan_not_covered(cast: Cast) -> Truth:
    """A step of the plan is never given to the agent that it names."""
    await cast.open(*TEAM)
    steps = (PlanStep("count the rows", "coder"), PlanStep("check the sum", "checker"))
    plan = await cast.add("planner", PlanProposed(steps=steps), cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    await cast.done("planner")
    return at("planner", plan)


@fault("C1")
async def context_reset(cast: Cast) -> Truth:
    """An agent that had seen the whole thread sees nearly none of it."""
    await cast.open(*TEAM)
    one = await cast.assign("planner", "coder", "Count the rows of the file")
    await cast.add("coder", ContextUsed(up_to_seq=one.seq, events=40), cause=one)
    await cast.finish(one, "There are twelve rows.")
    two = await cast.assign("planner", "coder", "Now add the units up")
    lost = await cast.add("coder", ContextUsed(up_to_seq=two.seq, events=2), cause=two)
    await cast.finish(two, "There are forty units.")
    await cast.done("planner")
    return at("coder", lost)


@fault("C1")
async def first_plan_again(cast: Cast) -> Truth:
    """The planner has forgotten its plan and proposes a first one again."""
    await cast.open(*TEAM)
    await cast.add("planner", PlanProposed(steps=_steps("read")), cause=cast.asked)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    again = await cast.add("planner", PlanProposed(steps=_steps("count")), cause=cast.asked)
    await cast.done("planner")
    return at("planner", again)


@fault("C2")
async def history_lost(cast: Cast) -> Truth:
    """An agent works without the message that it answers."""
    await cast.open(*TEAM)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    lost = await cast.add(
        "coder", ContextUsed(up_to_seq=max(made.seq - 1, 0), events=1), cause=made
    )
    await cast.finish(made, "What should I count?")
    await cast.done("planner")
    return at("coder", lost)


@fault("B2")
async def budget_exhausted(cast: Cast) -> Truth:
    """More tokens are used than the task may use."""
    await cast.open(*TEAM, token_budget=1_000)
    made = await cast.assign("planner", "coder", "Count the rows of the file")
    over = await cast.model("coder", made, tokens=5_000)
    await cast.finish(made, "There are twelve rows.")
    await cast.done("planner")
    return at("coder", over)


@fault("B2")
async def closed_by_a_limit(cast: Cast) -> Truth:
    """The task ends because its rounds are used up."""
    await cast.open(*TEAM)
    await cast.work("planner", "coder", "Count the rows", "There are twelve rows.")
    closed = await cast.close(
        "planner", outcome=TaskStatus.FAILED, summary="maximum rounds (30) reached"
    )
    return at("planner", closed)


async def _reached(cast: Cast, proposal: Entry, *approvals: str) -> Entry:
    reached = ConsensusReached(proposal=proposal.id, approvals=approvals)
    return await cast.add("planner", reached, cause=proposal)


def _steps(title: str) -> tuple[PlanStep, ...]:
    return (PlanStep(f"{title} the file", "coder"), PlanStep("answer", "planner"))
