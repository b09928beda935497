"""What the analysis keeps of a long run is bounded, and what was forgotten is not reported."""

from __future__ import annotations

import pytest

from tests.support.analysis import found
from tests.support.story import Story
from threadbus.replay.findings import requests, scene
from threadbus.replay.findings.bounded import trim


def test_the_oldest_are_forgotten_a_quarter_at_a_time() -> None:
    """Up to a quarter more is kept, so that forgetting costs little."""
    items = dict.fromkeys(range(10), "x")
    kept = trim(items, 8)
    items.update(dict.fromkeys(range(10, 12), "y"))
    forgotten = trim(items, 8)

    assert (kept, len(forgotten), list(items)) == ([], 4, list(range(4, 12)))


def test_a_run_beyond_the_bounds_is_still_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies too far back cannot be referred to, and is no fault."""
    monkeypatch.setattr(scene, "MAX_KNOWN", 20)
    monkeypatch.setattr(requests, "MAX_REQUESTS", 8)
    story = Story()
    work = asked = story.open("planner", "coder")
    for number in range(60):
        work = story.assign("planner", "coder", f"Sum the sheet of week {number}", asked)
        story.finish("coder", work, f"Week {number} has {number}00.")
    story.say("ghost", "Boo.", cause=work)

    assert found("O1", story, now=story.now) == []
    assert [one.agent for one in found("P3", story)] == ["ghost"]
