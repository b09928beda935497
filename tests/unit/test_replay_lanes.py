"""The timeline: lanes to scale, arrows, long pauses cut short, in any width and alphabet."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable

import pytest

from tests.support.golden import assert_golden
from tests.support.runs import harmful, revenue_run, troubled_run
from tests.support.story import MS, Story
from threadbus.replay import Timeline, fold
from threadbus.replay.lanes import MAX_BANDS, write_lanes
from threadbus.replay.paint import Painter
from threadbus.replay.scale import Scale
from threadbus.schemas import MessagePosted, TextPart

S = 1_000 * MS


def lanes(
    timeline: Timeline,
    *,
    width: int | None = 80,
    is_ascii: bool = False,
    has_color: bool = False,
) -> str:
    """Return the timeline as text."""
    stream = io.StringIO()
    painter = Painter(stream, width=width, has_color=has_color, is_ascii=is_ascii)
    write_lanes(painter, timeline, timeline.last_at)
    painter.flush()
    return stream.getvalue()


def crowd(agents: int = 20, pause_s: int = 3 * 3600) -> Story:
    """Return a run of many agents who all work before a long pause, and after it."""
    story = Story()
    names = [f"worker-{number}" for number in range(agents - 1)]
    asked = story.ask("planner")
    for _ in range(2):
        told = story.say("planner", "Go", to=tuple(names[:16]), cause=asked, after_ms=5)
        for name in names:
            story.model(name, told, took_ms=900)
            story.say(name, "done", to=("planner",), cause=told)
            story.end(name, told, worked_ms=1_000)
        story.now += pause_s * S
    return story


@pytest.mark.parametrize("is_ascii", [False, True], ids=["unicode", "ascii"])
def test_a_run_looks_as_it_did(is_ascii: bool) -> None:
    """A stranger can read it; look at the file."""
    kind = "ascii" if is_ascii else "unicode"
    assert_golden(f"replay/lanes-{kind}.txt", lanes(fold(revenue_run().log), is_ascii=is_ascii))


@pytest.mark.parametrize("width", [None, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("run", [revenue_run, troubled_run, crowd])
def test_no_line_is_wider_than_the_terminal(width: int | None, run: Callable[[], Story]) -> None:
    """Whatever the names and the number of agents."""
    text = lanes(fold(run().log), width=width)

    assert max(len(line) for line in text.splitlines()) <= (width or 80)


def test_only_ascii_where_nothing_else_can_be_shown() -> None:
    """Every sign has one that any terminal has."""
    assert lanes(fold(crowd().log), is_ascii=True).isascii()


def test_every_agent_has_a_lane_and_its_figures() -> None:
    """Twenty of them, each with the time it waited and worked."""
    text = lanes(fold(crowd().log), width=100)

    for number in range(19):
        assert any(line.startswith(f"worker-{number} ") for line in text.splitlines())
    (line, *_) = [line for line in text.splitlines() if line.startswith("worker-3 ")]
    assert line.endswith("1.00 s")


def test_a_long_pause_takes_one_column_and_is_told() -> None:
    """The rest stays readable."""
    text = lanes(fold(crowd().log))

    assert "┊ nothing happened for 2 h 59 min" in text or "┊ nothing happened for 3 h 0 min" in text
    assert "long pause" in text
    assert "long pause" not in lanes(fold(revenue_run().log))


def test_a_mention_is_an_arrow_in_one_column() -> None:
    """From the lane of who wakes to the lane of who is woken, through those between."""
    story = Story()
    asked = story.ask("a")
    story.say("a", "to the last", to=("b",), cause=asked, after_ms=500)
    last = story.say("a", "to the last", to=("c",), cause=asked, after_ms=500)
    story.say("c", "back", to=("a",), cause=last, after_ms=1_000)
    rows = [line for line in lanes(fold(story.log)).splitlines() if line[:2] in {"a ", "b ", "c "}]

    by_name = {row[0]: row for row in rows}
    down = by_name["c"].index("▼")
    assert by_name["a"][down] == "┬"
    assert by_name["b"][down] in "│┄"
    up = by_name["a"].index("▲")
    assert by_name["c"][up] == "┬"
    assert up > down


def test_a_very_long_run_has_a_bounded_number_of_bands() -> None:
    """Each column is then a longer time."""
    story = Story()
    mention = story.ask("a")
    for agent in itertools.islice(itertools.cycle(["a", "b"]), 3_000):
        other = "b" if agent == "a" else "a"
        mention = story.say(agent, "your turn", to=(other,), cause=mention, after_ms=100)
    text = lanes(fold(story.log))

    assert MAX_BANDS - 2 <= text.count("waited") <= MAX_BANDS + 1


def test_what_agents_wrote_does_not_reach_the_terminal() -> None:
    """Only names are shown, and those have a grammar; a log of nothing but text draws nothing."""
    story = Story()
    story.add("a", MessagePosted(parts=(TextPart(harmful("x")),)))
    text = lanes(fold(story.log))

    assert "nothing to draw" in text
    assert "\x1b" not in text


def test_a_scale_is_monotonous_and_cuts_only_gaps() -> None:
    """Later is never further left, and a time maps to the column that begins at or before it."""
    moments = [0, S, 2 * S, 5_000 * S, 5_001 * S, 5_003 * S]
    scale = Scale(moments, [], 50)

    columns = [scale.column(at) for at in range(0, 5_003 * S, S)]
    assert columns == sorted(columns)
    assert [(gap.start, gap.end) for gap in scale.gaps] == [(2 * S, 5_000 * S)]
    assert scale.columns <= 52
    for at in moments:
        assert scale.time(scale.column(at)) <= at < scale.time(scale.column(at) + 1) + 1
    assert Scale(moments, [(2 * S, 5_000 * S)], 50).gaps == scale.gaps
    assert Scale([0, 40 * S, 41 * S], [(0, 40 * S)], 50).gaps == []


def test_a_moment_is_enough_for_a_scale() -> None:
    """A run of one event has one column."""
    assert Scale([7], [], 10).columns == 1
