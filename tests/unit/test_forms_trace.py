"""The trace is what viewers of Chrome traces draw: nested spans, arrows with two ends."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.support.golden import assert_golden
from tests.support.hostile import hostile_timeline, long_run, revenue_with_findings
from tests.support.runs import troubled_run
from tests.support.story import Story
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.schemas import ToolCalled, ToolReturned

RUNS = [
    revenue_with_findings(),
    hostile_timeline(),
    fold(troubled_run().log),
    fold(long_run(700).log),
]


def written(timeline: Timeline) -> str:
    """Return the trace of a run."""
    return "".join(FORMS["chrome-trace"](timeline, FormOptions(now=timeline.last_at)))


# The document is made of parts of many shapes, as other programs read it.
def events(timeline: Timeline) -> list[dict[str, Any]]:
    """Return the trace events."""
    document = json.loads(written(timeline))
    assert document["displayTimeUnit"] == "ms"
    found: list[dict[str, Any]] = document["traceEvents"]
    return found


def test_a_run_looks_as_it_did() -> None:
    """A whole run, with findings at their steps."""
    assert_golden("replay/forms/revenue.trace.json", written(revenue_with_findings()))


@pytest.mark.parametrize("timeline", RUNS)
def test_every_track_is_named_and_every_time_is_right(timeline: Timeline) -> None:
    """A process for each agent, a named track for each thread; nothing before the opening."""
    found = events(timeline)
    processes = {one["pid"] for one in found if one["name"] == "process_name"}
    tracks = {(one["pid"], one["tid"]) for one in found if one["name"] == "thread_name"}

    for one in found:
        assert one["pid"] in processes
        if one["ph"] != "M":
            assert (one["pid"], one["tid"]) in tracks
            assert one["ts"] >= 0
            assert one.get("dur", 0) >= 0


@pytest.mark.parametrize("timeline", RUNS)
def test_spans_of_a_track_are_nested(timeline: Timeline) -> None:
    """No span begins in another one and ends after it: viewers would not draw that."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in events(timeline):
        if one["ph"] == "X":
            span = (one["ts"], one["ts"] + one["dur"])
            tracks.setdefault((one["pid"], one["tid"]), []).append(span)

    assert tracks
    for spans in tracks.values():
        stack: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


@pytest.mark.parametrize("timeline", RUNS)
def test_arrows_have_two_ends_in_spans(timeline: Timeline) -> None:
    """Each mention is an arrow from a span of who asked to the turn that it woke."""
    found = events(timeline)
    ends = Counter((one["id"], one["ph"]) for one in found if one["ph"] in "sf")
    spans = [one for one in found if one["ph"] == "X"]

    assert set(ends.values()) == {1}
    assert {key for key, phase in ends if phase == "s"} == {k for k, p in ends if p == "f"}
    for arrow in (one for one in found if one["ph"] in "sf"):
        assert any(
            (span["pid"], span["tid"]) == (arrow["pid"], arrow["tid"])
            and span["ts"] <= arrow["ts"] <= span["ts"] + span["dur"]
            for span in spans
        )


def test_calls_at_one_time_lie_on_tracks_of_their_own() -> None:
    """Two tools that overlap, neither inside the other, are both drawn in full."""
    story = Story()
    asked = story.ask("coder")
    story.model("coder", asked, took_ms=5)
    story.add("coder", ToolCalled(call_id="a", tool="first"), cause=asked, after_ms=1)
    story.add("coder", ToolCalled(call_id="b", tool="second"), cause=asked, after_ms=10)
    for call, took in (("a", 50), ("b", 80)):
        data = ToolReturned(call_id=call, tool="t", duration_ns=took * 1_000_000)
        story.add("coder", data, cause=asked, after_ms=40)
    story.end("coder", asked, worked_ms=96)
    found = {one["name"]: one for one in events(fold(story.log)) if one.get("cat") == "tool"}

    assert found["tool first()"]["dur"] == 50_000
    assert found["tool second()"]["dur"] == 80_000
    assert found["tool first()"]["tid"] != found["tool second()"]["tid"]


def test_findings_are_instants_of_their_agent() -> None:
    """A finding is marked on the lane of the agent that it is about."""
    timeline = revenue_with_findings()
    found = [one for one in events(timeline) if one.get("cat", "").startswith("finding,")]

    assert [one["args"]["seq"] for one in found] == [one.seq for one in timeline.findings]
    assert {one["ph"] for one in found} == {"i"}
