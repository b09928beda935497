"""The tree is readable, complete, and safe to look at."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.cells import cell_len

from tests.support.golden import assert_golden
from tests.support.runs import EVIL, closed, harmful, revenue_run, troubled_run
from tests.support.story import MS, START, Story
from threadbus.replay import Finding, FindingKind, Timeline, fold
from threadbus.replay.closing import write_closing
from threadbus.replay.feed import FeedRenderer
from threadbus.replay.heading import Heading
from threadbus.replay.paint import Painter, painter_for
from threadbus.replay.render import MAX_DEPTH, TreeRenderer
from threadbus.replay.timeline import TimelineFold
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    ErrorInfo,
    HandlingFailed,
    HandlingStarted,
    ModelCalled,
    Recorded,
    Rejected,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadOpened,
    ToolCalled,
    ToolReturned,
)


def tree(
    timeline: Timeline,
    *,
    width: int | None = None,
    has_color: bool = False,
    is_ascii: bool = False,
    now: int | None = None,
    full: bool = False,
) -> str:
    """Return all that the tree format writes."""
    stream = io.StringIO()
    painter = Painter(stream, width=width, has_color=has_color, is_ascii=is_ascii)
    heading = Heading(painter, timeline, now)
    heading.opening()
    heading.overview()
    TreeRenderer(painter, timeline, now, full=full).tree()
    write_closing(painter, timeline, max(now or 0, timeline.last_at))
    painter.flush()
    return stream.getvalue()


def feed(log: list[Recorded | Rejected], *, width: int | None = None) -> str:
    """Return what the live feed writes."""
    stream = io.StringIO()
    folding = TimelineFold()
    painter = Painter(stream, width=width, has_color=False, is_ascii=False)
    renderer = FeedRenderer(painter, folding.timeline)
    for item in log:
        renderer.write(item, folding.apply(item))
    painter.flush()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "width", "is_ascii"),
    [("pipe", None, False), ("100", 100, False), ("60", 60, False), ("ascii", 100, True)],
)
def test_a_run_looks_as_it_did(name: str, width: int | None, is_ascii: bool) -> None:
    """A whole run, in a pipe, at two widths, and in ASCII."""
    timeline = fold(revenue_run().log)

    assert_golden(f"replay/revenue-{name}.txt", tree(timeline, width=width, is_ascii=is_ascii))


@pytest.mark.parametrize(("name", "is_ascii"), [("unicode", False), ("ascii", True)])
def test_a_run_full_of_trouble_looks_as_it_did(name: str, is_ascii: bool) -> None:
    """Failures, open ends, broken entries and harmful text."""
    rejected = Rejected(999, "bus.x", harmful("not an event"))
    timeline = fold([*troubled_run().log, rejected])
    text = tree(timeline, width=100, is_ascii=is_ascii, now=timeline.last_at + 60_000 * MS)

    assert_golden(f"replay/trouble-{name}.txt", text)


def test_the_live_feed_looks_as_it_did() -> None:
    """One line for each thing that happens."""
    assert_golden("replay/feed.txt", feed([*revenue_run().log], width=100))


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("width", [None, 60, 100])
def test_nothing_that_a_terminal_obeys_gets_through(width: int | None, is_ascii: bool) -> None:
    """No control and no format character of any event reaches the terminal."""
    timeline = fold([*closed(troubled_run()).log, Rejected(9, "x", EVIL)])
    text = tree(timeline, width=width, is_ascii=is_ascii)

    assert [c for c in text if c != "\n" and not c.isprintable()] == []
    assert text.isascii() or not is_ascii


def test_nothing_that_a_terminal_obeys_gets_through_live() -> None:
    """The feed is as safe as the tree."""
    text = feed([*closed(troubled_run()).log, Rejected(9, "x", EVIL)])

    assert [c for c in text if c != "\n" and not c.isprintable()] == []


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    """Wide characters count as two columns; nothing wraps by itself."""
    for story in (revenue_run(), closed(troubled_run())):
        for is_ascii in (False, True):
            lines = tree(fold(story.log), width=width, is_ascii=is_ascii).splitlines()
            assert [line for line in lines if cell_len(line) > width] == []


def test_full_cuts_nothing_to_the_width() -> None:
    """A text of one line that is longer than a line goes on below it, and so does a finding."""
    story = Story()
    asked = story.open("planner")
    said = " ".join(f"word{number}" for number in range(24))
    step = story.say("planner", said, cause=asked)
    found = Finding(
        detector="Z1",
        name="odd",
        kind=FindingKind.HINT,
        agent=AgentName("planner"),
        seq=story.log[-1].seq,
        at=story.now,
        evidence=(step,),
        text=f"planner says {said}",
    )
    timeline = fold(story.log)
    timeline.findings = [found]
    cut, whole = (tree(timeline, width=60, full=full) for full in (False, True))

    # The list of findings below the tree is never cut.
    assert (cut.count("word23"), whole.count("word23")) == (1, 3)
    assert [line for line in whole.splitlines() if cell_len(line) > 60] == []


def test_a_pipe_loses_nothing_to_a_width() -> None:
    """Without a terminal each entry has one line, however long it is."""
    long = " ".join(f"word{number}" for number in range(40))
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    story.say("planner", long[:240], cause=asked)
    error = ErrorInfo("E", long)
    story.add("planner", HandlingFailed(error=error), cause=asked)
    text = tree(fold(story.log))

    assert f"replies: {long[:240]}" in text
    assert f"E: {long}" in text


def test_colours_are_all_that_a_terminal_adds() -> None:
    """Without its colours the text is the same."""
    timeline = fold(revenue_run().log)
    colored = tree(timeline, width=100, has_color=True)

    assert "\x1b[31" in colored or "\x1b[1;31" in colored
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    stripped = [line.rstrip() for line in plain.splitlines()]
    assert stripped == tree(timeline, width=100).splitlines()


def test_playbook_answers_are_labelled() -> None:
    """Whoever reads is told that no model answered, in the overview and at each call."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    story.model("planner", asked, system="playbook")
    text = tree(fold(story.log))
    assert "answered by a playbook, not by a model: every model call" in text
    assert "playbook as small-1" in text

    story.model("planner", asked)
    assert "not by a model: 1 of 2 model calls" in tree(fold(story.log))


def test_threads_hang_inside_one_another_to_some_depth() -> None:
    """A long chain of threads and a circle are drawn once each, and not too far to the right."""
    story = Story()
    story.add("user", TaskOpened(title="T"), mentions=("planner",))
    for number in range(2_000):
        parent = f"t-{number - 1}" if number else "main"
        data = ThreadOpened(title=f"Thread {number}.", parent=parent)
        story.add("planner", data, thread=f"t-{number}")
    story.add("planner", ThreadOpened(title="Circle A", parent="c-b"), thread="c-a")
    story.add("planner", ThreadOpened(title="Circle B", parent="c-a"), thread="c-b")
    story.add("planner", ThreadOpened(title="Own parent", parent="c-c"), thread="c-c")
    text = tree(fold(story.log))

    for number in (0, 1, 5, 6, 1999):
        assert text.count(f"thread Thread {number}. (") == 1
    assert [text.count(f"({name})") for name in ("c-a", "c-b", "c-c")] == [1, 1, 1]
    deepest = max(line.index("thread Thread") for line in text.splitlines() if "(t-" in line)
    assert deepest <= 9 + 3 * (MAX_DEPTH + 1)


def test_what_is_open_has_its_age() -> None:
    """In a run that goes on, age is counted to now; in one that is over, to its end."""
    story = Story()
    story.add("user", TaskOpened(title="T"), mentions=("planner",))
    now = START + MS + 185_000 * MS
    assert "planner ← user · no answer for 3 min 5 s" in tree(fold(story.log), now=now)

    story.add("user", TaskClosed(outcome=TaskStatus.CANCELLED), after_ms=2_000)
    assert "planner ← user · no answer for 2.00 s" in tree(fold(story.log))


def test_the_end_says_how_it_ended() -> None:
    """With an answer, without one, or not yet."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    assert "No answer yet" in tree(fold(story.log))

    story.add("planner", AnswerSubmitted(parts=(TextPart("y\n" * 15_000),)), cause=asked)
    text = tree(fold(story.log))
    assert "Answer by planner, not accepted yet" in text
    assert "10,000 more characters" in text

    ended = tree(fold(closed(Story()).log))
    assert "Ended as failed without an answer" in ended


def test_long_lists_are_cut_and_counted() -> None:
    """Very many open mentions or broken entries do not bury the answer."""
    story = Story()
    for _ in range(50):
        story.add("user", TaskOpened(title="T"), mentions=("planner",))
    rejected = [Rejected(n, "bus.x", "broken") for n in range(300)]
    text = tree(fold([*story.log, *rejected]))

    assert "and 30 more" in text
    assert "and 280 more" in text


def test_an_unfinished_tool_and_turn_say_so() -> None:
    """A turn that has begun and not ended is told apart from one that has not begun."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    story.add("planner", HandlingStarted(), cause=asked)
    story.add("planner", ToolCalled(call_id="1", tool="run", arguments={"a": 1}), cause=asked)
    text = tree(fold(story.log), now=START + 5_001 * MS)

    assert "has worked for 5.00 s, not finished" in text
    assert "tool run(a=1) · has not returned" in text


def test_odd_arguments_are_shown_as_they_are() -> None:
    """Arguments may be any JSON, and longer than what is kept of them."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    for number, arguments in enumerate([[1, 2], "text", None, {"code": "x" * 999}, {}]):
        call = ToolCalled(call_id=str(number), tool="run", arguments=arguments)
        story.add("planner", call, cause=asked)
        back = ToolReturned(call_id=str(number), tool="run", duration_ns=MS)
        story.add("planner", back, cause=asked)
    text = tree(fold(story.log))

    assert "run([1,2])" in text
    assert 'run("text")' in text
    assert text.count("run()") == 2
    assert f'run(code="{"x" * 58}…)' in text


def test_a_model_that_was_cut_short_says_so() -> None:
    """A finish reason that costs content is shown, and retries are."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    call = ModelCalled(
        model="m", started_at=START, duration_ns=MS, finish_reason="length", attempts=3
    )
    story.add("planner", call, cause=asked)

    assert "3 attempts · stopped by length" in tree(fold(story.log))


class _Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute in the base class
        return self._encoding

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "encoding", "is_ascii"),
    [
        ({"LANG": "en_US.UTF-8"}, "utf-8", False),
        ({}, "utf-8", False),
        ({"LANG": "C"}, "utf-8", True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LANG": "POSIX", "LC_CTYPE": "C.UTF-8"}, "utf-8", True),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, "utf-8", False),
        ({"LANG": "en_US.ISO-8859-1"}, "iso8859-1", True),
        ({"LANG": "C.UTF-8"}, "utf-8", False),
    ],
)
def test_the_locale_decides_on_ascii(
    environ: dict[str, str], encoding: str, is_ascii: bool
) -> None:
    """In the C locale, or where the encoding cannot hold more, everything is ASCII."""
    assert painter_for(_Terminal(encoding), environ).is_ascii is is_ascii


def test_a_width_is_only_that_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has none; a terminal has at least 40 columns."""
    monkeypatch.setenv("COLUMNS", "12")

    assert painter_for(io.StringIO(), {}).width is None
    assert painter_for(_Terminal(), {}).width == 40


def test_the_document_holds_the_whole_story() -> None:
    """What JSON says can be read back into the same timeline."""
    timeline = fold(troubled_run().log)

    assert msgspec.json.decode(msgspec.json.encode(timeline), type=Timeline) == timeline
