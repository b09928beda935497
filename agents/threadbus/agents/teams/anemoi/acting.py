"""The moves of the planner, carried out: each appends events whose ids follow from the board."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention
from threadbus.agents.teams.anemoi.board import Ballot, Work
from threadbus.agents.teams.anemoi.context import findings, steps_text, thread_context
from threadbus.agents.teams.anemoi.moves import (
    MOST_CONSIDERED,
    Assign,
    Compile,
    Conclude,
    Consider,
    Decline,
    GiveUp,
    Judge,
    LookAfter,
    Move,
    PassCritiqueOver,
    Propose,
    ProposePlan,
    Revise,
    ReviseAfterVote,
    Submit,
    Withdraw,
)
from threadbus.agents.teams.anemoi.names import (
    ANSWER,
    CANDIDATE,
    CRITIQUE,
    JUDGE,
    STEP,
    SUBMIT,
    VOTERS,
)
from threadbus.agents.teams.anemoi.news import News
from threadbus.agents.teams.anemoi.plans import (
    Planned,
    first_plan,
    reworked,
    think_plan,
)
from threadbus.agents.teams.anemoi.prompts import PLANNER_PROMPT
from threadbus.bus import AppendError, MentionFailedError, WaitTimeoutError
from threadbus.schemas import (
    AnyData,
    AssignmentCancelled,
    AssignmentMade,
    AssignmentMode,
    ConsensusFailed,
    ConsensusReached,
    CritiqueGiven,
    CritiqueVerdict,
    DataPart,
    EventId,
    Lane,
    Part,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    TextPart,
    ThreadId,
    VoteVerdict,
    clean_text,
    derive_event_id,
    text_of,
)

_QUICK: Final = timedelta(seconds=5)


class Acting:
    """Makes moves in one thread; the board knows of each when it is made."""

    def __init__(self, mention: Mention, thread: ThreadId, news: News) -> None:
        self._mention = mention
        self._thread = thread
        self._news = news
        self._board = news.board
        # Not what the log says: after a crash the model is shown everything once more.
        self._seen = 0

    async def make(self, move: Move) -> None:
        """Make one move.

        Raises:
            GiveUpError: there will be no answer.

        Cancellation: what was appended stays; the next attempt goes on from there.
        """
        match move:
            case ProposePlan():
                await self._propose_plan()
            case Consider():
                await self._consider(move)
            case Decline(plan):
                await self._decline(plan, f"{MOST_CONSIDERED} other plans were looked at already")
            case Assign(number):
                await self._assign(number)
            case Judge(work):
                await self._ask_to_judge(work)
            case PassCritiqueOver(work):
                await self._pass_critique_over(work)
            case Revise(works):
                await self._revise(works)
            case ReviseAfterVote(ballot):
                await self._revise_after_vote(ballot)
            case LookAfter(work, why):
                await self._look_after(work, why)
            case Withdraw(work):
                await self._cancel(work, "the plan in force has no such step")
            case Compile(round_):
                await self._compile(round_)
            case Propose():
                await self._put_to_vote(move)
            case Conclude(ballot, reached):
                await self._conclude(ballot, reached=reached)
            case Submit(ballot):
                await self._submit(ballot)
            case GiveUp(reason):
                raise GiveUpError(reason)

    # plans

    async def _propose_plan(self) -> None:
        asked = "Propose the first plan: call propose_plan."
        planned = first_plan(await self._think("propose_plan", asked))
        review = VOTERS if self._board.rules.review_seconds else ()
        await self._append(
            PlanProposed(steps=planned.steps, reasons=planned.reasons), "plan-0", mentions=review
        )

    async def _revise(self, works: Sequence[Work]) -> None:
        wrong = "\n".join(
            f"- {work.title} ({work.assignee}): "
            + (f"no result: {work.failure}" if work.failure else f"uncertain: {_joined(work)}")
            for work in works
        )
        await self._revised(f"Results that cannot be used:\n{wrong}", tuple(works))

    async def _revise_after_vote(self, ballot: Ballot) -> None:
        said = "\n".join(f"- {one}" for one in ballot.dissent)
        await self._revised(f"The candidate answer was voted down:\n{said}", ())

    async def _revised(self, why: str, works: tuple[Work, ...]) -> None:
        board = self._board
        asked = (
            f"{why}\n\nThe plan in force:\n{steps_text(board.steps)}\n\n"
            "Call revise_plan with the whole plan. A step that stays as it is keeps its result."
        )
        planned = await self._think("revise_plan", asked) or reworked(board.steps, works)
        await self._put_plan(planned, str(board.plan))

    async def _consider(self, move: Consider) -> None:
        """Take a plan of another agent over, or say why not."""
        revised = move.revised
        asked = (
            f"{move.by} proposes another plan:\n{steps_text(revised.steps)}\n"
            f"Reasons: {'; '.join(revised.reasons)}\n\nThe plan in force:\n"
            f"{steps_text(self._board.steps)}\n\n"
            "Call revise_plan with its steps, or better ones, to take it over; "
            "otherwise say in one sentence why not."
        )
        planned, said = await self._think_or_say("revise_plan", asked)
        if planned is not None:
            await self._put_plan(planned, move.plan)
            return
        await self._decline(move.plan, said or "the plan in force is kept")

    async def _decline(self, plan: EventId, reason: str) -> None:
        await self._append(
            CritiqueGiven(
                of=plan,
                verdict=CritiqueVerdict.UNCERTAIN,
                reasons=(clean_text(reason, 1_000),),
            ),
            f"declined-{plan}",
        )

    async def _put_plan(self, planned: Planned, replaces: str) -> None:
        await self._append(
            PlanRevised(replaces=replaces, steps=planned.steps, reasons=planned.reasons),
            f"plan-{self._board.versions}",
        )

    async def _think(self, tool: str, asked: str) -> Planned | None:
        return (await self._think_or_say(tool, asked))[0]

    async def _think_or_say(self, tool: str, asked: str) -> tuple[Planned | None, str]:
        context = await thread_context(self._mention, self._thread, self._seen)
        self._seen = context.up_to_seq
        return await think_plan(
            self._mention,
            tool,
            PLANNER_PROMPT,
            f"The question:\n{self._board.question}\n\n{context.text}\n\n{asked}",
        )

    # work

    async def _assign(self, number: int) -> None:
        board, step = self._board, self._board.steps[number - 1]
        parts: list[Part] = [
            TextPart(_task_text(step, findings(board.needed_by(step)))),
            DataPart({"plan": board.plan, "number": number}, STEP),
        ]
        await self._append(
            AssignmentMade(assignee=step.assignee, parts=tuple(parts), title=step.title),
            f"assign-{board.plan}-{number}",
            mentions=(step.assignee,),
        )

    async def _ask_to_judge(self, work: Work) -> None:
        text = f"Judge what {work.assignee} hands over for {work.title!r}:\n{work.text}"
        await self._say(
            [TextPart(text), DataPart({"result": work.result}, JUDGE)],
            f"judge-{work.result}",
            mentions=(CRITIQUE,),
        )

    async def _pass_critique_over(self, work: Work) -> None:
        """Record that a result stays without a verdict: nobody's silence accepts it."""
        limit = self._board.rules.longest_work_seconds
        reason = f"{CRITIQUE} is passed over: it gave no verdict within {limit:g} s"
        await self._append(
            CritiqueGiven(
                of=str(work.result), verdict=CritiqueVerdict.UNCERTAIN, reasons=(reason,)
            ),
            f"unjudged-{work.result}",
        )

    async def _look_after(self, work: Work, why: str) -> None:
        """Ask how far the worker is; then pass it over, on record."""
        try:
            reply = await self._mention.bus.request(
                self._mention.task,
                self._thread,
                "How far are you?",
                to=work.assignee,
                timeout=_QUICK,
                cause=self._mention.event.id,
                lane=Lane.QUICK,
                event_id=self._id(f"look-{work.id}"),
            )
            said = text_of(getattr(reply.data, "parts", ()))
        except (WaitTimeoutError, MentionFailedError, AppendError):
            said = "no answer"
        self._news.take()
        if not work.is_open:
            # It handed over while it was asked.
            return
        noted = f"; last progress: {work.note}" if work.note else ""
        await self._cancel(work, f"{work.assignee} is passed over: {why}; it says: {said}{noted}")

    async def _cancel(self, work: Work, reason: str) -> None:
        await self._append(
            AssignmentCancelled(assignment=work.id, reason=clean_text(reason, 2_000)),
            f"cancel-{work.id}",
            mentions=(work.assignee,),
        )

    # the answer

    async def _compile(self, round_: int) -> None:
        before = self._board.ballots[-1].dissent if self._board.ballots else ()
        said = "\nWhat was said against the last one:\n" + "\n".join(before) if before else ""
        parts: list[Part] = [
            TextPart(f"Compile the answer from the accepted results.{said}"),
            DataPart({"round": round_}, CANDIDATE),
        ]
        await self._append(
            AssignmentMade(assignee=ANSWER, parts=tuple(parts), title=f"Candidate answer {round_}"),
            f"compile-{round_}",
            mentions=(ANSWER,),
        )

    async def _put_to_vote(self, move: Propose) -> None:
        rules = self._board.rules
        parts = [part for part in move.candidate.parts if isinstance(part, TextPart)]
        await self._append(
            ProposalMade(
                parts=tuple(parts),
                voters=VOTERS,
                quorum=rules.approvals_needed(len(VOTERS)),
                deadline_at=time.time_ns() + int(rules.vote_seconds * 1e9),
            ),
            f"proposal-{move.round}",
            mentions=VOTERS,
        )

    async def _conclude(self, ballot: Ballot, *, reached: bool) -> None:
        approvals = _who(ballot, VoteVerdict.APPROVE)
        rejections = _who(ballot, VoteVerdict.REJECT)
        if reached:
            data: AnyData = ConsensusReached(
                proposal=ballot.id, approvals=approvals, rejections=rejections
            )
        else:
            reason = f"{len(approvals)} of {ballot.quorum} approvals; {'; '.join(ballot.dissent)}"
            data = ConsensusFailed(
                proposal=ballot.id,
                approvals=approvals,
                rejections=rejections,
                reason=clean_text(reason, 4_000),
            )
        await self._append(data, f"consensus-{ballot.id}")

    async def _submit(self, ballot: Ballot) -> None:
        parts: list[Part] = [
            TextPart("Submit the answer."),
            DataPart({"proposal": ballot.id}, SUBMIT),
        ]
        await self._append(
            AssignmentMade(
                assignee=ANSWER,
                parts=tuple(parts),
                title="Submit the answer",
                mode=AssignmentMode.ASYNC,
            ),
            f"submit-{ballot.id}",
            mentions=(ANSWER,),
        )

    # appending

    async def _append(self, data: AnyData, place: str, *, mentions: Sequence[str] = ()) -> None:
        appended = await self._mention.append(
            data, thread=self._thread, mentions=mentions, event_id=self._id(place)
        )
        await self._news.reach(appended.seq)

    async def _say(self, parts: Sequence[Part], place: str, *, mentions: Sequence[str]) -> None:
        appended = await self._mention.bus.send(
            self._mention.task,
            self._thread,
            parts,
            mentions=mentions,
            cause=self._mention.event.id,
            event_id=self._id(place),
        )
        await self._news.reach(appended.seq)

    def _id(self, place: str) -> EventId:
        return derive_event_id(self._mention.event.id, self._mention.agent, place)


def _who(ballot: Ballot, verdict: VoteVerdict) -> tuple[str, ...]:
    return tuple(name for name in ballot.voters if ballot.votes.get(name, ("",))[0] == verdict)


def _joined(work: Work) -> str:
    return "; ".join(work.reasons)


def _task_text(step: PlanStep, needed: str) -> str:
    """Return what a worker is asked; only what the step needs is said again in full."""
    detail = f"\n{step.detail}" if step.detail else ""
    results = f"\n\nResults that you need:\n{needed}" if needed else ""
    return f"{step.title}{detail}{results}"
