"""Costs: by the table that was given, and said where there is no price."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.story import Story
from threadbus.replay import ModelStep, Price, PriceFileError, Prices, TimelineFold, load_prices

TOML = """
currency = "EUR"
[models."small-1"]
input = 1
output = 10
cached_input = 0.5
[models."small-*"]
input = 3
output = 3
[models."*"]
input = 9
output = 9
"""


def test_a_table_is_read_from_toml_and_from_json(tmp_path: Path) -> None:
    """Both say the same; the name of the file decides."""
    toml, json = tmp_path / "p.toml", tmp_path / "p.json"
    toml.write_text("[models.m]\ninput = 1\noutput = 2", encoding="utf-8")
    json.write_text('{"models": {"m": {"input": 1, "output": 2}}}', encoding="utf-8")

    assert load_prices(toml) == load_prices(json) == Prices({"m": Price(1, 2)}, "USD")


def test_a_name_counts_more_than_a_pattern(tmp_path: Path) -> None:
    """Of patterns the longest that fits; a model that none fits has no price."""
    path = tmp_path / "p.toml"
    path.write_text(TOML, encoding="utf-8")
    prices = load_prices(path)

    found = [prices.find(name) for name in ("small-1", "small-2", "x")]
    assert [price.output for price in found if price is not None] == [10, 3, 9]
    assert Prices({"a*": Price(1, 1)}).find("b") is None


def test_cached_tokens_have_their_own_price() -> None:
    """They are a part of the input, however many an event claims."""
    price = Price(input=1, output=10, cached_input=0.5)

    assert price.of(1_000_000, 100_000) == pytest.approx(2.0)
    assert price.of(1_000_000, 0, 400_000) == pytest.approx(0.8)
    assert price.of(1_000_000, 0, 10**12) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[models", "Expected"),
        ("[models.m]\ninput = 1", "output"),
        ("[models.m]\ninput = -1\noutput = 2", ">= 0"),
        ("[models.m]\ninput = 1\noutput = 2\nprice = 3", "price"),
        ("models = 3", "object"),
        ("", "models"),
    ],
)
def test_a_table_that_is_none_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    """The error says where it is wrong."""
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PriceFileError, match=reason):
        load_prices(path)
    with pytest.raises(PriceFileError, match="No such file"):
        load_prices(tmp_path / "none.toml")


def test_costs_are_in_calls_turns_agents_and_totals() -> None:
    """A call without a price is counted by its model, and a playbook costs nothing."""
    story = Story()
    asked = story.ask("planner")
    story.model("planner", asked, tokens=(1_000_000, 100_000))
    story.model("planner", asked, tokens=(1_000_000, 0), system="playbook")
    folding = TimelineFold(prices=Prices({"small-1": Price(1, 10)}, "EUR"))
    timeline = folding.apply_all(story.log)
    unpriced = TimelineFold(prices=Prices({"other": Price(1, 10)})).apply_all(story.log)

    assert timeline.currency == "EUR"
    assert timeline.totals.cost == timeline.agents[story.log[1].event.sender].cost
    assert timeline.totals.cost == pytest.approx(2.0)
    assert timeline.totals.unpriced_calls == 0
    (turn,) = [turn for turn in timeline.open_turns() if turn.agent == "planner"]
    assert turn.cost == pytest.approx(2.0)
    assert [step.cost for step in turn.steps if isinstance(step, ModelStep)] == [2.0, None]
    assert (unpriced.totals.cost, unpriced.totals.unpriced_calls) == (0, 1)
    assert unpriced.unpriced == {"small-1": 1}
