"""Whatever becomes of a log, every form of what is left of it is sound."""

from __future__ import annotations

import json

from hypothesis import given, settings

from tests.support.replay_logs import LOGS
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.schemas import Recorded, Rejected


def written(timeline: Timeline, form: str) -> str:
    """Return a run in a form."""
    return "".join(FORMS[form](timeline, FormOptions(now=timeline.last_at)))


@settings(deadline=None, max_examples=40)
@given(LOGS)
def test_any_log_has_every_form(log: list[Recorded | Rejected]) -> None:
    """None fails, what begins ends, and JSON is JSON."""
    timeline = fold(log)

    diagram = written(timeline, "mermaid")
    assert diagram.count("\n  activate ") == diagram.count("\n  deactivate ")
    assert diagram.count("\n  rect ") == diagram.count("\n  end\n")
    assert written(timeline, "dot").endswith("}\n")
    assert written(timeline, "markdown").endswith("```\n")
    page = written(timeline, "html").partition('<script type="application/json" id="run">')[2]
    data = json.loads(page.partition("</script>")[0])
    steps = [step for step in data["steps"] if step["t"] >= 0]
    assert len(steps) == len(data["steps"])
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in json.loads(written(timeline, "chrome-trace"))["traceEvents"]:
        if event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"])
            spans.setdefault((event["pid"], event["tid"]), []).append(span)
    for track in spans.values():
        stack: list[float] = []
        for start, end in sorted(track, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)
