"""The dashboard, the alerts and the page about them name only metrics that are exposed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.tree import ROOT
from threadbus.agents.monitoring import (
    FAMILIES,
    FROM_LOG,
    SAMPLED,
    Counts,
    Family,
    Histogram,
    Kind,
    Sample,
    Shown,
    render,
)
from threadbus.agents.monitoring.counts import label_key

DASHBOARD = ROOT / "ops" / "grafana" / "threadbus.json"
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yaml"
ALERT_TESTS = ROOT / "ops" / "prometheus" / "alerts_test.yaml"
PAGE = ROOT / "docs" / "operations" / "monitoring.md"
METRIC = re.compile(r"threadbus_[a-z_]+")
SELECTED = re.compile(r"(threadbus_[a-z_]+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
LEGEND = re.compile(r"\{\{ ?\$?(?:labels\.)?([a-z]+)")


def exposed() -> dict[str, set[str]]:
    """Return each name that a scrape with one series of every metric has, and its labels."""
    values = {family.name: ("x",) * len(family.labels) for family in (*FROM_LOG, *SAMPLED)}
    numbers = {f.name: {label_key(values[f.name]): 1} for f in FROM_LOG if f.kind is Kind.COUNTER}
    durations = {
        f.name: {label_key(values[f.name]): Histogram.empty()}
        for f in FROM_LOG
        if f.kind is Kind.HISTOGRAM
    }
    gauges = {f.name: {values[f.name]: 1.0} for f in SAMPLED}
    counts = Counts(seq=1, since=1, numbers=numbers, durations=durations)
    text = render(Shown(counts, 0, Sample(gauges=gauges), 1.0, is_up=True))[0].decode()
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


EXPOSED = exposed()


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    """Return its panels, without the rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Give the title of each panel with a query and its legend."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def expressions() -> list[str]:
    """Return the expressions of the alerts, each as one line."""
    text = ALERTS.read_text(encoding="utf-8")
    found = re.findall(
        r"^ +expr: (?:>-\n)?(.*?)\n +(?:for|labels):", text, re.MULTILINE | re.DOTALL
    )
    return [re.sub(r"\s+", " ", one) for one in found]


def check(expression: str) -> None:
    """Check the names in an expression, and the labels that it selects or groups by."""
    known: set[str] = set()
    for name, selected in SELECTED.findall(expression):
        assert name in EXPOSED, f"{name} is not exposed: {expression}"
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selected))
        assert labels <= EXPOSED[name], f"{name} has no label of {labels}: {expression}"
        known |= EXPOSED[name]
    for group in GROUPED.findall(expression):
        assert set(re.split(r",\s*", group)) <= known, expression
    assert expression.count("(") == expression.count(")")


def test_a_scrape_of_everything_has_everything() -> None:
    """The table and what is exposed are the same, so that the other tests mean something."""

    def shown_as(family: Family) -> set[str]:
        name = family.full_name
        if family.kind is Kind.HISTOGRAM:
            return {f"{name}_{part}" for part in ("bucket", "count", "sum")}
        return {name}

    wanted = set[str]().union(*map(shown_as, FAMILIES.values()))
    assert {name for name in EXPOSED if not name.endswith("_created")} == wanted


@pytest.mark.parametrize(("title", "expression", "legend"), list(queries()))
def test_each_query_of_the_dashboard_asks_for_what_there_is(
    title: str, expression: str, legend: str
) -> None:
    """Names, labels, and what the legend says of them."""
    check(expression)
    names = METRIC.findall(expression)
    assert names, title
    labels = set[str]().union(*(EXPOSED[name] for name in names))
    assert set(LEGEND.findall(legend)) <= labels


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """Unique ids, no panels over one another, a data source that is chosen when it is looked at."""
    everything = dashboard()["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels())
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    assert set(variables) == {"datasource", "agent"}
    check(variables["agent"]["definition"].replace(", agent", ""))


def test_every_metric_is_on_the_dashboard() -> None:
    """What nobody sees need not be exposed; the first three are for queries of your own."""
    asked = " ".join(expression for _, expression, _ in queries())
    unseen = {
        family.name
        for family in FAMILIES.values()
        if not re.search(rf"{family.full_name}\b|{family.full_name}_bucket", asked)
    }
    assert unseen == {"server_info", "counting_since_timestamp_seconds"}


@pytest.mark.parametrize("expression", expressions())
def test_each_alert_asks_for_what_there_is(expression: str) -> None:
    """`promtool check rules` looks at the grammar, this at the names and labels."""
    check(re.sub(r'absent\(up\{job="threadbus"\}\)|up\{job="threadbus"\}', "1", expression))


def test_each_alert_says_what_to_do() -> None:
    """As many summaries and actions as alerts, and two severities."""
    text = ALERTS.read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", text)

    assert len(alerts) == len(set(alerts)) == len(expressions()) == 17
    assert len(re.findall(r"^ +summary: ", text, re.MULTILINE)) == len(alerts)
    assert len(re.findall(r"^ +action: ", text, re.MULTILINE)) == len(alerts)
    assert set(re.findall(r"severity: (\w+)", text)) == {"page", "ticket"}


def test_the_tests_of_the_alerts_feed_what_there_is() -> None:
    """A series by another name would let an alert be silent and its test pass."""
    text = ALERT_TESTS.read_text(encoding="utf-8")
    for name in METRIC.findall(text):
        assert name in EXPOSED
    for name in re.findall(r"alertname: (\w+)", text):
        assert f"alert: {name}\n" in ALERTS.read_text(encoding="utf-8")


def test_the_page_has_every_metric_and_no_other() -> None:
    """Each with its kind and labels, in the table that is made from the code."""
    text = PAGE.read_text(encoding="utf-8")
    for family in FAMILIES.values():
        labels = ", ".join(family.labels) or "-"
        line = f"| `{family.full_name}` | {family.kind} | {labels} | {family.about} |"
        assert line in text, f"missing in {PAGE.name}:\n{line}"
    known = set(EXPOSED) | {family.full_name for family in FAMILIES.values()}
    assert set(METRIC.findall(text)) <= known
