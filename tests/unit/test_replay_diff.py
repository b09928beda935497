"""Two runs compared: what is alike, what is not, and where that begins."""

from __future__ import annotations

import io

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.runs import harmful, revenue_run, troubled_run
from tests.support.story import MS, START, Story
from threadbus.replay import LogItem, Price, Prices
from threadbus.replay.diffing import Diff, RowKind, View, align, compare, write_diff
from threadbus.replay.forking import plan_fork
from threadbus.replay.paint import Painter
from threadbus.schemas import (
    EventId,
    MessagePosted,
    Recorded,
    TaskId,
    TextPart,
    decode_recorded_event,
    encode_event,
    make_event,
)

FORK = TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a99")
letters = st.lists(st.sampled_from("abc"), max_size=12)


def longest(a: str, b: str) -> int:
    """Return the length of the longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = 0
        for index, other in enumerate(b, 1):
            before, row[index] = (
                row[index],
                before + 1 if one == other else max(row[index], row[index - 1]),
            )
    return row[-1]


@given(letters, letters)
@settings(max_examples=300, deadline=None)
def test_an_alignment_is_the_longest_one(a: list[str], b: list[str]) -> None:
    """It is a common subsequence, in order, and no longer one exists."""
    pairs, is_exact = align(a, b)

    assert is_exact
    assert all(a[one] == b[other] for one, other in pairs)
    assert pairs == sorted(set(pairs))
    assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    assert len(pairs) == longest("".join(a), "".join(b))


@given(letters, letters)
@settings(max_examples=200, deadline=None)
def test_an_alignment_without_room_is_sound(a: list[str], b: list[str]) -> None:
    """Where it may compute nothing it still is a common subsequence, and says what it is."""
    pairs, is_exact = align(a, b, 0)

    assert all(a[one] == b[other] for one, other in pairs)
    assert pairs == sorted(pairs)
    assert is_exact or len(pairs) <= longest("".join(a), "".join(b))


def test_long_runs_are_aligned_by_what_comes_once() -> None:
    """Far beyond what a table could hold."""
    a = list(range(60_000))
    b = [*range(100, 20_000), "x", *range(20_000, 59_000), *range(-50, 0)]
    pairs, is_exact = align(a, b)

    assert not is_exact
    assert len(pairs) == 58_900
    assert align([0] * 30_000 + ["x"], ["y"] + [1] * 30_000).pairs == []


def shown(diff: Diff, view: View = View.UNIFIED, width: int | None = None) -> str:
    """Return what a person gets."""
    out = io.StringIO()
    write_diff(Painter(out, width=width, has_color=False, is_ascii=False), diff, view)
    return out.getvalue()


def retold(story: Story, task: TaskId, later_ms: int = 0) -> list[LogItem]:
    """Tell a run again under other ids and at another time."""
    ids = {item.event.id: EventId(f"{index:032x}") for index, item in enumerate(story.log, 1)}
    told: list[LogItem] = []
    for item in story.log:
        text = item.body.decode()
        for old, new in ids.items():
            text = text.replace(old, new)
        body = text.replace(story.task, task).encode()
        event = decode_recorded_event(item.event.subject.replace(story.task, task), body)
        told.append(Recorded(item.seq + 7, event, item.stored_at + later_ms * MS, body))
    return told


def test_the_same_story_is_the_same() -> None:
    """Other ids, sequences and times are no difference."""
    run = revenue_run()
    diff = compare(run.log, retold(run, FORK, 60_000))

    assert (diff.divergence, diff.changed, diff.only_a, diff.only_b) == (None, 0, 0, 0)
    assert diff.same == diff.a.steps == diff.b.steps
    assert f"no difference in {diff.same} steps" in shown(diff)


def two(text: str = "It is 9.", *, extra: bool = False) -> Story:
    """Tell a short run."""
    story = Story(start=START)
    asked = story.ask("planner")
    story.model("planner", asked, tokens=(100, 10))
    if extra:
        story.tool("planner", asked, "look", {"where": "here"}, "nothing", took_ms=2000)
    story.say("planner", text, to=("user",), cause=asked)
    story.say("planner", "Done.", cause=asked)
    return story


def test_other_words_are_a_change_at_the_same_place() -> None:
    """Numbers count; the first difference is that step, in both."""
    diff = compare(two("It is 9.").log, two("It is 8.").log)

    assert (diff.same, diff.changed, diff.only_a, diff.only_b) == (3, 1, 0, 0)
    assert diff.divergence is not None
    assert diff.divergence.after_steps == 2
    assert diff.divergence.last_common_seq == (6, 6)
    row = diff.divergence.row
    assert row.a is not None
    assert row.b is not None
    assert (row.kind, row.a.text, row.b.text) == (
        RowKind.CHANGED,
        "replies to user: It is 9.",
        "replies to user: It is 8.",
    )


def test_spaces_and_ids_in_words_are_no_difference() -> None:
    """How text was wrapped, and which event it names."""
    one = two(f"See {'ab' * 16}  and\nthere")
    other = two(f"See {'cd' * 16} and there")
    assert compare(one.log, other.log).divergence is None


def test_a_step_of_one_run_only_is_said() -> None:
    """With what it cost in time; the rest is alike."""
    diff = compare(two().log, two(extra=True).log)

    assert (diff.same, diff.changed, diff.only_a, diff.only_b) == (4, 0, 0, 2)
    text = shown(diff)
    assert "+ " in text
    assert 'planner tool look(where="here")' in text
    assert diff.b.duration_ns - diff.a.duration_ns == 2001 * MS
    assert "+2.00 s" in text
    back = compare(two(extra=True).log, two().log)
    assert (back.only_a, back.only_b) == (2, 0)


def test_figures_and_cost_are_compared() -> None:
    """Tokens by the prices of their models, and each agent's share."""
    cheap, dear = two(), two()
    dear.model("planner", dear.log[0].event.id, tokens=(1000, 100))
    dear.model("planner", dear.log[0].event.id, name="new-1", tokens=(0, 0))
    prices = Prices({"small-*": Price(2.0, 10.0)}, currency="EUR")
    diff = compare(cheap.log, dear.log, prices=prices)

    assert diff.a.cost is not None
    assert diff.b.cost is not None
    assert round(diff.b.cost - diff.a.cost, 9) == 0.003
    text = shown(diff)
    for words in ("input tokens", "+1,000", "cost", "+0.003000 EUR", "without price"):
        assert words in text


def test_findings_are_compared() -> None:
    """A run that repeats itself has more of them."""
    calm, loud = two(), two()
    for _ in range(4):
        loud.say("planner", "I say this again and again, in just these words.", to=("user",))
    diff = compare(calm.log, loud.log)

    assert sum(diff.b.findings.values()) > sum(diff.a.findings.values())
    assert "finding R1" in shown(diff)


def forked(seq: int) -> list[LogItem]:
    """Fork the revenue run and let the planner say something of its own."""
    plan = plan_fork(revenue_run().log, seq, FORK, now=START + 3_600_000 * MS)
    events = [*plan.copies, plan.last]
    events.append(
        make_event(
            MessagePosted(parts=(TextPart("Something else."),)),
            task=FORK,
            thread=events[0].thread,
            sender=events[-1].sender,
            at=START + 3_601_000 * MS,
        )
    )
    return [
        Recorded(1000 + index, event, START + 3_600_000 * MS + index * MS, encode_event(event))
        for index, event in enumerate(events)
    ]


def test_a_fork_differs_from_its_origin_from_the_fork_on() -> None:
    """Exactly there: all that was copied is alike, nothing after it is before the fork."""
    run = revenue_run()
    steps = {row.a.seq for row in compare(run.log, run.log).rows if row.a is not None}
    for item in run.log[:-4]:
        diff = compare(run.log, forked(item.seq))
        before = sum(seq <= item.seq for seq in steps)
        assert diff.relation == "b is a fork of a"
        assert diff.fork_point is not None
        assert diff.fork_point[0] == item.seq
        assert diff.divergence is not None
        assert diff.divergence.after_steps == before
        assert diff.divergence.last_common_seq is not None
        assert diff.divergence.last_common_seq[0] <= item.seq
        row = diff.divergence.row
        assert row.a is None or row.a.seq > item.seq
    assert compare(forked(42), run.log).relation == "a is a fork of b"


def test_lines_fit_and_cannot_harm_a_terminal() -> None:
    """Whatever the view, the width and what agents said."""
    diff = compare(revenue_run().log, troubled_run().log)
    for view in View:
        for width in (40, 100, 160):
            text = shown(diff, view, width)
            assert harmful("")[0] not in text
            rows = text.splitlines()[-10:]
            assert all(len(row) <= 2 * width for row in rows)
    assert len(msgspec.json.encode(diff)) > 1000


def test_much_that_is_alike_is_left_out() -> None:
    """Only what differs is shown, with what stands around it."""
    one, other = two(), two()
    for story in (one, other):
        for number in range(500):
            story.say("planner", f"step {number}")
    other.say("planner", "and more")
    text = shown(compare(one.log, other.log))

    assert "steps alike" in text
    assert len(text.splitlines()) < 40
