"""The answer-finding agent: compiles the answer from accepted results only, and submits it."""

from __future__ import annotations

from threadbus.agents.agent import Agent
from threadbus.agents.errors import GiveUpError
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage
from threadbus.agents.teams.anemoi.board import Ballot, Board
from threadbus.agents.teams.anemoi.context import findings
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.names import ANSWER, CANDIDATE, SUBMIT, VOTERS, data_of
from threadbus.agents.teams.anemoi.prompts import ANSWER_PROMPT
from threadbus.agents.teams.anemoi.rules import WithoutConsensus
from threadbus.bus import VoteResult
from threadbus.schemas import Skill, clean_text

agent = Agent(
    ANSWER,
    display_name="Answer finding",
    description="Writes the answer of a team from accepted results only, and submits it.",
    skills=[
        Skill(
            id="answer",
            name="Compile and submit",
            description="Turns accepted results into an answer, and submits what was voted for.",
            tags=("writing", "answer"),
        )
    ],
)


async def _work(mention: Mention) -> Reply:
    submit = data_of(mention.event, SUBMIT)
    if submit is not None:
        await _submit(mention, str(submit.get("proposal", "")))
        return None
    if data_of(mention.event, CANDIDATE) is not None:
        # Not *asked*: what was not accepted must not come into the answer.
        board = Board().take(await mention.history())
        accepted = findings(board.accepted_works())
        asked = (
            f"The question:\n{board.question}\n\nAccepted results:\n{accepted}\n\n{mention.text}"
        )
    else:
        asked = await asked_in(mention)
    completion = await mention.thinking.complete(
        [ChatMessage.system(ANSWER_PROMPT), ChatMessage.user(asked)]
    )
    return completion.text


async def _submit(mention: Mention, proposal: str) -> None:
    """Submit a proposal that the team may submit, by the votes in the log and the rules.

    Raises:
        GiveUpError: it may not be submitted.
    """
    board = Board().take(await mention.history())
    ballot = next((one for one in board.ballots if one.id == proposal), None)
    if ballot is None:
        raise GiveUpError(f"there is no proposal {proposal!r} in the thread")
    # Counted here once more, from the log: the planner's word is not enough.
    votes = await mention.bus.waits.for_votes(mention.task, ballot.id)
    _check(board, ballot, votes)
    sources = [work.result for work in board.accepted_works() if work.result is not None]
    await mention.submit(
        ballot.parts,
        sources=sources,
        dissent=[clean_text(one, 2_000) for one in ballot.dissent],
    )


def _check(board: Board, ballot: Ballot, votes: VoteResult) -> None:
    rules = board.rules
    needed = rules.approvals_needed(len(VOTERS))
    if set(ballot.voters) != set(VOTERS) or ballot.quorum < needed:
        raise GiveUpError(
            f"the proposal asks {', '.join(ballot.voters)} for {ballot.quorum} approvals, and the "
            f"rules (quorum={rules.quorum:g}) ask {', '.join(VOTERS)} for {needed}"
        )
    if votes.reached:
        return
    is_last = board.rounds >= rules.max_rounds and ballot is board.ballots[-1]
    if rules.without_consensus is WithoutConsensus.SUBMIT and is_last and ballot.reached is False:
        return
    raise GiveUpError(
        f"the proposal has {votes.approvals} of {votes.quorum} approvals, and the rules "
        f"(without_consensus={rules.without_consensus}, max_rounds={rules.max_rounds}) do not let "
        f"it be submitted after {board.rounds} votes"
    )


member(agent, ANSWER_PROMPT, _work)
