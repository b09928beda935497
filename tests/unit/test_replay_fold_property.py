"""Whatever becomes of a log, the fold tells what is left of it and breaks nothing."""

from __future__ import annotations

import io

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.replay_logs import LOG, LOGS
from threadbus.replay import SaidStep, Timeline, Turn, fold
from threadbus.replay.closing import write_closing
from threadbus.replay.feed import FeedRenderer
from threadbus.replay.heading import Heading
from threadbus.replay.paint import Painter
from threadbus.replay.render import TreeRenderer
from threadbus.replay.timeline import TimelineFold
from threadbus.schemas import Recorded, Rejected


def check(timeline: Timeline) -> None:
    """Assert what holds of every story."""
    assert timeline.duration_ns >= 0
    for story in timeline.threads.values():
        for entry in story.entries:
            if isinstance(entry, Turn):
                assert (entry.waited_ns or 0) >= 0
                assert (entry.worked_ns or 0) >= 0
    totals = timeline.totals
    assert totals.turns == sum(agent.turns for agent in timeline.agents.values())
    assert totals.events == sum(agent.events for agent in timeline.agents.values())
    assert totals.tool_calls == sum(agent.tool_calls for agent in timeline.agents.values())
    assert msgspec.json.decode(msgspec.json.encode(timeline), type=Timeline) == timeline


@settings(deadline=None, max_examples=60)
@given(LOGS)
def test_any_log_can_be_folded_and_shown(log: list[Recorded | Rejected]) -> None:
    """Shuffled, repeated, truncated, altered: every entry counts once and all of it is shown."""
    folding = TimelineFold()
    stream = io.StringIO()
    painter = Painter(stream, width=60, has_color=False, is_ascii=True)
    feed = FeedRenderer(painter, folding.timeline)
    for item in log:
        feed.write(item, folding.apply(item))
    timeline = folding.timeline
    totals = timeline.totals

    assert len(log) == totals.events + totals.duplicates + totals.foreign + totals.unreadable
    check(timeline)
    heading = Heading(painter, timeline)
    heading.opening()
    heading.overview()
    TreeRenderer(painter, timeline).tree()
    write_closing(painter, timeline, timeline.last_at)
    painter.flush()
    assert stream.getvalue().isascii()


@settings(deadline=None, max_examples=30)
@given(st.permutations(LOG))
def test_every_event_is_in_the_story_whatever_the_order(log: list[Recorded]) -> None:
    """Out of order nothing gets lost: the same steps, the same sums."""
    timeline, expected = fold(log), fold(LOG)

    assert timeline.totals.events == expected.totals.events
    assert timeline.totals.input_tokens == expected.totals.input_tokens
    assert timeline.totals.failures == expected.totals.failures
    assert _said(timeline) == _said(expected)
    check(timeline)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(LOG)), st.integers(0, len(LOG)))
def test_any_stretch_of_a_log_can_be_folded(start: int, end: int) -> None:
    """A log without its beginning, its end or both."""
    check(fold(LOG[start:end]))


def _said(timeline: Timeline) -> set[str]:
    found: set[str] = set()
    for story in timeline.threads.values():
        for entry in story.entries:
            steps = entry.steps if isinstance(entry, Turn) else [entry]
            found.update(step.id for step in steps if isinstance(step, SaidStep))
    return found
