"""What a model is shown in one turn: what it has not seen yet, after a bounded summary of the rest.

The log says what it has seen: each turn records how far its context reached. A turn that was cut
off has shown its model nothing that lasts, so its own record does not count when it runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.agents.mention import Mention
from threadbus.agents.teams.anemoi.board import Board, Standing, Work
from threadbus.schemas import (
    AgentName,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    ConsensusFailed,
    ConsensusReached,
    ContextUsed,
    CritiqueGiven,
    Event,
    EventId,
    MessagePosted,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    Recorded,
    ThreadId,
    VoteCast,
    clean_text,
    text_of,
)

_CHARACTERS_PER_TOKEN: Final = 4
_ENTRY_CHARS: Final = 6_000
_FINDING_CHARS: Final = 20_000
_OWN: Final = "anemoi."


class Context(msgspec.Struct, frozen=True):
    """What a turn shows its model of the thread."""

    text: str
    up_to_seq: int
    events: int
    board: Board

    @property
    def tokens(self) -> int:
        """Its size by the rule of four characters to a token."""
        return tokens_of(self.text)


def tokens_of(text: str) -> int:
    """Return how many tokens a text is taken for."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


async def turn_context(mention: Mention) -> Context:
    """Return what the model is to see of the mention's thread, and record it.

    Cancellation: safe.
    """
    history = await mention.history()
    before = [entry for entry in history if entry.seq < mention.seq]
    context = make_context(before, mention.agent, seen_by(history, mention.agent, mention.event.id))
    # The mention itself is what is asked.
    return await _noted(mention, msgspec.structs.replace(context, up_to_seq=mention.seq))


async def thread_context(mention: Mention, thread: ThreadId, seen: int) -> Context:
    """Return what is new in another thread since *seen*, and record it.

    Cancellation: safe.
    """
    history = await mention.history(thread=thread)
    return await _noted(mention, make_context(history, mention.agent, seen))


def seen_by(history: Sequence[Recorded], agent: AgentName, turn: EventId) -> int:
    """Return how far into a thread the model of *agent* has seen before this turn."""
    return max(
        (
            entry.event.data.up_to_seq
            for entry in history
            if isinstance(entry.event.data, ContextUsed)
            and entry.event.sender == agent
            and entry.event.cause != turn
        ),
        default=0,
    )


def make_context(known: Sequence[Recorded], agent: AgentName, seen: int) -> Context:
    """Make the context of a turn.

    Args:
        known: the thread as far as it matters.
        agent: whose turn it is; what it said itself is not new to it.
        seen: the sequence that its model has seen.
    """
    board = Board().take(known)
    new = [line_of(e.event) for e in known if e.seq > seen and e.event.sender != agent]
    new = [line for line in new if line]
    shown = _newest(new, board.rules.recent_chars)
    is_short = seen > 0 or len(shown) < len(new)
    before = f"What was before, in short:\n{summary(board)}\n\n" if is_short else ""
    text = f"{before}New in the thread:\n" + ("\n".join(shown) or "- nothing")
    return Context(text, max(board.last_seq, seen), len(shown), board)


async def _noted(mention: Mention, context: Context) -> Context:
    await mention.thinking.note_context(
        context.up_to_seq, events=context.events, tokens=context.tokens
    )
    return context


def _newest(lines: list[str], limit: int) -> list[str]:
    """Return the newest lines that fit together; the summary stands for the others."""
    kept: list[str] = []
    left = limit
    for line in reversed(lines):
        left -= len(line)
        if left < 0:
            break
        kept.append(line)
    return kept[::-1]


def summary(board: Board) -> str:
    """Return the state of the thread in so many characters as the rules allow."""
    lines = [f"Question: {clean_text(board.question, 1_000)}"]
    share = max(80, (board.rules.summary_chars - 1_000) // max(1, 2 * len(board.steps)))
    for number, step in enumerate(board.steps, 1):
        work = board.accepted(step) or board.current(step)
        standing = board.standing(step)
        said = "" if work is None else work.text or work.failure or work.note
        reasons = "" if work is None else "; ".join(work.reasons)
        if standing is Standing.UNCERTAIN:
            said = f"{said} (uncertain: {reasons})"
        text = f": {clean_text(' '.join(said.split()), share)}" if said else ""
        lines.append(f"{number}. {step.title} ({step.assignee}), {standing.value}{text}")
    for ballot in board.ballots:
        state = {None: "open", True: "reached", False: "failed"}[ballot.reached]
        lines.append(f"Vote: {state}. {clean_text('; '.join(ballot.dissent), share)}")
    return clean_text("\n".join(lines), board.rules.summary_chars)


def findings(works: Sequence[Work]) -> str:
    """Return results in full, for who builds on them."""
    return "\n\n".join(
        f"{work.assignee}, {work.title}:\n  {_within(clean_text(work.text, _FINDING_CHARS))}"
        for work in works
    )


def line_of(event: Event) -> str:
    """Return an event as a model reads it; nothing for what is no part of the conversation."""
    said = _said(event)
    return clean_text(f"- {event.sender} {_within(said)}", _ENTRY_CHARS) if said else ""


def _within(said: str) -> str:
    """Indent what somebody said: no line of it can pass for what another one says."""
    return "\n  ".join(said.splitlines())


def _said(event: Event) -> str:
    match event.data:
        case MessagePosted() as data:
            # The data parts of the team say by code what the text says in words.
            said = [part for part in data.parts if not getattr(part, "name", "").startswith(_OWN)]
            return f"says: {text_of(said)}"
        case PlanProposed() as data:
            return f"proposes a plan:\n{steps_text(data.steps)}{_because(data.reasons)}"
        case PlanRevised() as data:
            return f"revises the plan:\n{steps_text(data.steps)}{_because(data.reasons)}"
        case AssignmentMade() as data:
            return f"gives work to {data.assignee}: {data.title or text_of(data.parts)}"
        case AssignmentFinished() as data:
            return f"hands over: {text_of(data.parts)}"
        case AssignmentFailed() as data:
            return f"could not do its work: {data.error.message}"
        case AssignmentCancelled() as data:
            return f"takes work back: {data.reason}"
        case CritiqueGiven() as data:
            return f"judges a result {data.verdict}{_because(data.reasons)}"
        case ProposalMade() as data:
            return f"asks for votes on: {text_of(data.parts)}"
        case VoteCast() as data:
            return f"votes to {data.verdict}{_because(data.reasons)}"
        case ConsensusReached():
            return "finds that the vote reached its quorum"
        case ConsensusFailed() as data:
            return f"finds that the vote failed: {data.reason}"
        case _:
            return ""


def steps_text(steps: Sequence[PlanStep]) -> str:
    """Return a plan as a numbered list."""
    return "\n".join(
        f"{number}. {step.title} ({step.assignee})"
        + (f" after {', '.join(map(str, step.after))}" if step.after else "")
        + (f": {step.detail}" if step.detail else "")
        for number, step in enumerate(steps, 1)
    )


def _because(reasons: Sequence[str]) -> str:
    return f", because {'; '.join(reasons)}" if reasons else ""
