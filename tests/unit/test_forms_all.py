"""What every form has in common."""

from __future__ import annotations

import pytest

from tests.support.hostile import hostile_timeline, revenue_with_findings
from tests.support.runs import troubled_run
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.schemas import AgentName


def written(timeline: Timeline, form: str) -> str:
    """Return a run in a form."""
    return "".join(FORMS[form](timeline, FormOptions(now=timeline.last_at)))


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("timeline", [hostile_timeline(), fold(troubled_run().log)])
def test_no_form_has_a_control_character(form: str, timeline: Timeline) -> None:
    """Nothing that a terminal would obey, or that would reorder its text."""
    text = written(timeline, form)

    assert not {sign for sign in text if not sign.isprintable()} - {"\n"}


@pytest.mark.parametrize("form", list(FORMS))
def test_the_same_run_is_the_same_text(form: str) -> None:
    """Written twice, a form has the same bytes, so that two of them can be compared."""
    assert written(revenue_with_findings(), form) == written(revenue_with_findings(), form)


@pytest.mark.parametrize("form", list(FORMS))
def test_findings_and_suspects_are_in_every_form(form: str) -> None:
    """Each finding is there by its detector and text, and who reads it finds the step."""
    timeline = revenue_with_findings()
    text = written(timeline, form)

    for finding in timeline.findings:
        assert finding.detector in text
    bare = written(fold([]), form)
    assert "D0" not in bare


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_costs_and_what_is_missing_are_said(form: str) -> None:
    """Where prices were given the costs are there; and whatever is not as it was is named."""
    timeline = revenue_with_findings()
    plain = written(timeline, form)
    planner = timeline.agents[AgentName("planner")]
    planner.cost = timeline.totals.cost = 0.0123
    timeline.currency, timeline.redacted, timeline.left_out = "EUR", "names", 1_234
    timeline.unpriced = {"other-2": 1}
    timeline.is_complete = False
    text = written(timeline, form)

    assert text.count("0.0123 EUR") == 2
    for words in ("Redacted (names)", "1,234 turns and steps", "other-2", "Only the first"):
        assert words in text
        assert words not in plain


@pytest.mark.parametrize("form", list(FORMS))
def test_an_empty_run_has_every_form(form: str) -> None:
    """Nothing in, a document that says so out."""
    assert written(fold([]), form)
