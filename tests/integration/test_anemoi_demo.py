"""`bus demo anemoi`: the whole protocol in one run, as events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from tests.support.cli import ended, environment, process
from threadbus.agents.cli.results import Demo
from threadbus.schemas import (
    AnswerSubmitted,
    ConsensusReached,
    CritiqueGiven,
    CritiqueVerdict,
    Event,
    PlanProposed,
    PlanRevised,
    VoteCast,
    decode_event,
    text_of,
)


async def test_the_demo_shows_the_whole_protocol(tmp_path: Path) -> None:
    """Plan, doubt, revision, vote and answer are events, in this order, in the exported log."""
    async with process("demo", "anemoi", "--json", env=environment(tmp_path)) as demo:
        ran = await ended(demo)
    assert (ran.code, ran.err) == (0, "")
    events = exported(ran.json(Demo).file)

    (plan,) = of(events, PlanProposed)
    (revised,) = of(events, PlanRevised)
    critiques = of(events, CritiqueGiven)
    (consensus,) = of(events, ConsensusReached)
    (answer,) = of(events, AnswerSubmitted)
    assert isinstance(revised.data, PlanRevised)
    assert revised.data.replaces == plan.id
    verdicts = [c.data.verdict for c in critiques if isinstance(c.data, CritiqueGiven)]
    assert Counter(verdicts) == {CritiqueVerdict.ACCEPT: 3, CritiqueVerdict.UNCERTAIN: 1}
    assert isinstance(consensus.data, ConsensusReached)
    assert len(consensus.data.approvals) >= 3
    order = [plan, revised, of(events, VoteCast)[0], consensus, answer]
    assert [events.index(one) for one in order] == sorted(events.index(one) for one in order)
    assert answer.sender == "answer-finding"
    assert isinstance(answer.data, AnswerSubmitted)
    accepted = {
        c.data.of
        for c in critiques
        if isinstance(c.data, CritiqueGiven) and c.data.verdict is CritiqueVerdict.ACCEPT
    }
    assert set(answer.data.sources) == accepted
    assert "41,942" in text_of(answer.data.parts)


def exported(file: str) -> list[Event]:
    """Return the events of an exported log."""
    rows = [msgspec.json.decode(line) for line in Path(file).read_bytes().splitlines()]
    return [decode_event(msgspec.json.encode(row["event"])) for row in rows]


def of(events: list[Event], kind: type) -> list[Event]:
    """Return the events of a kind."""
    return [event for event in events if isinstance(event.data, kind)]
