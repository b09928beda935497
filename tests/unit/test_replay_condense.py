"""The story of a very long run stays small, and still counts everything."""

from __future__ import annotations

import msgspec

from tests.support.story import Story, turns
from threadbus.replay import (
    AgentTotals,
    SaidStep,
    Timeline,
    TimelineFold,
    Totals,
    Turn,
    TurnOutcome,
    fold,
)
from threadbus.schemas import AgentName, ErrorInfo, HandlingFailed, MessagePosted

MOST = 400


def long_run(rounds: int = 500) -> Story:
    """Return a run in which two agents wake each other; one mention fails, another stays open."""
    story = Story()
    mention = story.ask("a")
    for number in range(rounds):
        agent, other = ("a", "b") if number % 2 == 0 else ("b", "a")
        story.model(agent, mention, took_ms=10)
        story.tool(agent, mention, "read", {"row": number}, "ok")
        if number == rounds // 2:
            lost = story.say(agent, "both", to=("lost", "broken"), cause=mention)
            failed = HandlingFailed(error=ErrorInfo(kind="Bad", message="no"), attempt=1)
            story.add("broken", failed, cause=lost)
        said = story.say(agent, f"turn {number}", to=(other,), cause=mention)
        story.end(agent, mention, worked_ms=60)
        mention = said
    return story


def held(timeline: Timeline) -> int:
    """Return how many turns and steps a timeline holds."""
    entries = [entry for story in timeline.threads.values() for entry in story.entries]
    return len(entries) + sum(len(entry.steps) for entry in entries if isinstance(entry, Turn))


def totals(timeline: Timeline) -> tuple[Totals, list[AgentTotals]]:
    """Return all that is counted."""
    return timeline.totals, list(timeline.agents.values())


def test_a_long_story_is_bounded_and_counts_everything() -> None:
    """Every total is that of the whole run; what is gone is counted."""
    log = long_run().log
    whole, small = fold(log), TimelineFold(most=MOST).apply_all(log)

    assert held(whole) > 4 * MOST
    assert held(small) <= MOST
    assert totals(small) == totals(whole)
    assert held(small) + small.left_out == held(whole)
    main = small.threads[log[0].event.thread]
    assert main.left_out_turns + len(main.entries) == len(whole.threads[main.thread].entries)


def test_the_first_the_newest_and_what_went_wrong_stay() -> None:
    """A turn that failed, or that nobody took on, is there wherever it was."""
    log = long_run().log
    small = TimelineFold(most=MOST).apply_all(log)
    main = small.threads[log[0].event.thread]
    kept = [entry for entry in main.entries if isinstance(entry, Turn)]

    outcomes = {turn.agent: turn.outcome for turn in kept}
    assert outcomes[AgentName("broken")] is TurnOutcome.FAILED
    assert outcomes[AgentName("lost")] is TurnOutcome.OPEN
    whole = [entry for entry in fold(log).threads[main.thread].entries if isinstance(entry, Turn)]
    assert kept[:10] == whole[:10]
    assert kept[-10:] == whole[-10:]
    assert 10 < main.left_out_at < len(main.entries) - 10


def test_what_comes_late_of_something_gone_is_counted_once() -> None:
    """A repeated event is a duplicate, and a late step makes no turn of its own."""
    story = long_run()
    folding = TimelineFold(most=MOST)
    folding.apply_all(story.log)
    before = msgspec.structs.replace(folding.timeline.totals)
    gone = next(item for item in story.log[300:] if isinstance(item.event.data, MessagePosted))

    folding.apply(gone)
    assert folding.timeline.totals.duplicates == before.duplicates + 1
    story.model("b", gone.event.id)
    folding.apply(story.log[-1])
    assert folding.timeline.totals.turns == before.turns
    assert folding.timeline.totals.model_calls == before.model_calls + 1


def test_one_turn_with_very_many_steps_is_cut_in_the_middle() -> None:
    """Its first and its newest steps stay, and it says how many are gone, and where."""
    story = Story()
    mention = story.ask("a")
    for number in range(1_000):
        story.tool("a", mention, "read", {"row": number}, "ok")
    timeline = TimelineFold(most=MOST).apply_all(story.log)
    (turn,) = [turn for turn in timeline.open_turns() if turn.agent == "a"]

    assert len(turn.steps) < MOST
    assert len(turn.steps) + turn.left_out_steps == 1_000
    assert 0 < turn.left_out_at < len(turn.steps)
    assert turn.steps[turn.left_out_at].seq > turn.steps[turn.left_out_at - 1].seq + 6


def test_texts_are_kept_in_full_where_that_is_asked_for() -> None:
    """Otherwise only their beginning is."""
    story = Story()
    asked = story.ask("a")
    story.say("a", "x" * 5_000, cause=asked)
    timeline = TimelineFold(full=True).apply_all(story.log)
    (turn,) = turns(timeline, "a")
    (step,) = turn.steps

    assert isinstance(step, SaidStep)
    assert step.text == "x" * 5_000
    (short,) = turns(fold(story.log), "a")[0].steps
    assert isinstance(short, SaidStep)
    assert (len(short.text), short.chars) == (300, 5_000)
