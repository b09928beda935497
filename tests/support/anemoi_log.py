"""The team's thread of an Anemoi run, event by event, as tests want it."""

from __future__ import annotations

import msgspec

from threadbus.agents.teams.anemoi.board import Board
from threadbus.agents.teams.anemoi.moves import Finished, Move, Wait, next_moves
from threadbus.agents.teams.anemoi.names import (
    ANSWER,
    CANDIDATE,
    CRITIQUE,
    JUDGE,
    PLANNER,
    RULES,
    STEP,
    SUBMIT,
)
from threadbus.agents.teams.anemoi.rules import Rules
from threadbus.schemas import (
    AgentName,
    AnyData,
    AssignmentFinished,
    AssignmentMade,
    CritiqueGiven,
    CritiqueVerdict,
    DataPart,
    Event,
    EventId,
    MessagePosted,
    PlanProposed,
    PlanStep,
    ProposalMade,
    Recorded,
    TextPart,
    ThreadId,
    VoteCast,
    VoteVerdict,
    as_parts,
    make_event,
    new_task_id,
)

SECOND = 1_000_000_000
VOTERS = (CRITIQUE, ANSWER, "web", "document", "coding")


class TeamLog:
    """Appends events to a thread and folds them; time is seconds from 0."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.entries: list[Recorded] = []
        self.now = 0
        self._task = new_task_id()
        chosen = rules or Rules(review_seconds=0)
        rules_part = DataPart(msgspec.to_builtins(chosen), RULES)
        self.add(PLANNER, MessagePosted(parts=(TextPart("How much?"), rules_part)))

    @property
    def board(self) -> Board:
        """What stands in the thread, as somebody who reads it anew sees it."""
        return Board().take(self.entries)

    @property
    def time(self) -> int:
        """Now, in nanoseconds."""
        return self.now * SECOND

    def add(
        self,
        sender: str,
        data: AnyData,
        *,
        mentions: tuple[str, ...] = (),
        cause: EventId | None = None,
    ) -> Event:
        """Append an event."""
        event = make_event(
            data,
            task=self._task,
            thread=ThreadId("team"),
            sender=AgentName(sender),
            mentions=tuple(map(AgentName, mentions)),
            cause=cause,
            at=self.time,
        )
        self.entries.append(Recorded(len(self.entries) + 1, event, self.time))
        return event

    def plan(self, *steps: PlanStep) -> Event:
        """Let the planner propose a plan."""
        return self.add(PLANNER, PlanProposed(steps=steps))

    def assign(self, plan: Event, number: int, assignee: str) -> Event:
        """Let the planner give out a step."""
        about = DataPart({"plan": plan.id, "number": number}, STEP)
        return self.add(
            PLANNER,
            AssignmentMade(assignee=assignee, parts=(TextPart("do it"), about), title="work"),
            mentions=(assignee,),
        )

    def finish(self, made: Event, text: str) -> Event:
        """Let the assignee hand over."""
        assert isinstance(made.data, AssignmentMade)
        data = AssignmentFinished(assignment=made.id, parts=as_parts(text))
        return self.add(made.data.assignee, data)

    def ask_to_judge(self, result: Event) -> Event:
        """Let the planner ask the critique."""
        part = DataPart({"result": result.id}, JUDGE)
        return self.add(PLANNER, MessagePosted(parts=(part,)), mentions=(CRITIQUE,))

    def judge(self, result: Event, verdict: CritiqueVerdict, *reasons: str) -> Event:
        """Let the critique judge."""
        return self.add(CRITIQUE, CritiqueGiven(of=result.id, verdict=verdict, reasons=reasons))

    def done(self, plan: Event, number: int, assignee: str, text: str = "42") -> Event:
        """Have a step done and accepted."""
        result = self.finish(self.assign(plan, number, assignee), text)
        self.ask_to_judge(result)
        self.judge(result, CritiqueVerdict.ACCEPT)
        return result

    def propose(self, round_: int, *, quorum: int = 3, seconds: int = 300) -> Event:
        """Have a candidate compiled and put to the vote."""
        part = DataPart({"round": round_}, CANDIDATE)
        made = self.add(PLANNER, AssignmentMade(assignee=ANSWER, parts=(part,)))
        self.finish(made, "42")
        return self.add(
            PLANNER,
            ProposalMade(
                parts=as_parts("42"),
                voters=VOTERS,
                quorum=quorum,
                deadline_at=self.time + seconds * SECOND,
            ),
            mentions=VOTERS,
        )

    def vote(self, proposal: Event, verdict: VoteVerdict, *voters: str) -> None:
        """Let voters vote."""
        for voter in voters:
            reasons = () if verdict is VoteVerdict.APPROVE else ("no proof",)
            self.add(voter, VoteCast(proposal=proposal.id, verdict=verdict, reasons=reasons))

    def submit(self, proposal: Event) -> Event:
        """Let the planner have it submitted."""
        part = DataPart({"proposal": proposal.id}, SUBMIT)
        return self.add(PLANNER, AssignmentMade(assignee=ANSWER, parts=(part,)))


def moves(log: TeamLog) -> list[Move] | Wait | Finished:
    """Return what is due now."""
    return next_moves(log.board, log.time)


def kinds(log: TeamLog) -> list[type]:
    """Return the kinds of moves that are due now."""
    due = moves(log)
    assert isinstance(due, list), due
    return [type(move) for move in due]
