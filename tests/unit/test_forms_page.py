"""The page holds its data safely and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.support.hostile import hostile_timeline, long_run, revenue_with_findings
from tests.support.runs import revenue_run, troubled_run
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.replay.forms.html import embedded

UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|src="
)


class _Parts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, str] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        kind = dict(attrs).get("type") or ""
        self._inside = f"{tag} {kind}".strip() if tag in ("script", "style", "title") else ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def page(timeline: Timeline) -> str:
    """Return the page of a run."""
    return "".join(FORMS["html"](timeline, FormOptions(now=timeline.last_at)))


# The script reads the data as it is, so the test does too.
def data_of(timeline: Timeline) -> dict[str, Any]:
    """Return what the page's script reads."""
    found: dict[str, Any] = json.loads(_Parts(page(timeline)).blocks["script application/json"])
    return found


@pytest.mark.parametrize(
    "timeline", [hostile_timeline(), revenue_with_findings(), fold(troubled_run().log), fold([])]
)
def test_the_page_has_the_elements_that_it_wants_and_no_others(timeline: Timeline) -> None:
    """No text of a run becomes an element, an attribute or a script."""
    text = page(timeline)
    parts = _Parts(text)
    tags = [tag for tag, _ in parts.tags]

    assert tags == [tag for tag, _ in _Parts(page(fold(revenue_run().log))).tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    attributes = {name for _, found in parts.tags for name in found}
    assert not {name for name in attributes if name.startswith("on")}
    assert "src" not in attributes
    assert "pwned" not in parts.blocks["script"]


def test_the_policy_allows_the_own_script_and_style_and_nothing_else() -> None:
    """The hashes in the policy are those of what the page holds."""
    text = page(revenue_with_findings())
    parts = _Parts(text)
    (policy,) = [found["content"] for _, found in parts.tags if "http-equiv" in found]
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))

    assert rules["default-src"] == "'none'"
    for name, block in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(parts.blocks[block].encode()).digest()
        assert rules[name] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_the_script_builds_no_element_from_text() -> None:
    """What would parse a text as HTML or run it is not used, and nothing is loaded."""
    parts = _Parts(page(fold([])))

    assert UNSAFE.findall(parts.blocks["script"]) == []
    assert re.findall(r"url\(|@import|https?:", parts.blocks["style"]) == []
    assert re.findall(r"fetch\(|XMLHttp|WebSocket|https?:", parts.blocks["script"]) == []


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "\u2028\u2029", "a&amp;b", '"\\', "刘备 🎉"]
)
def test_data_stays_inside_its_block(text: str) -> None:
    """The JSON has no sign that HTML or an older script would take for its end."""
    written = embedded({"x": text})

    assert json.loads(written) == {"x": text}
    assert not re.search("[<>&\u2028\u2029]", written)


def test_the_data_is_the_run() -> None:
    """Steps in log order, each with its agent, thread, turn and cause."""
    timeline = revenue_with_findings()
    data = data_of(timeline)
    steps, agents = data["steps"], [one["name"] for one in data["agents"]]

    assert [step["s"] for step in steps] == sorted(step["s"] for step in steps)
    assert agents == ["user", "planner", "document", "coder"]
    assert [agent.get("person", False) for agent in data["agents"]] == [True, False, False, False]
    read = next(step for step in steps if step["v"].startswith("tool read_document"))
    assert agents[read["a"]] == "document"
    assert agents[data["turns"][read["u"]]["by"]] == "planner"
    assert steps[read["c"]]["v"] == "assigns document"
    assert data["answer"]["accepted"] is True
    assert "4,120,000" in data["answer"]["text"]
    assert [one["s"] for one in data["findings"]] == [one.seq for one in timeline.findings]
    assert data["suspects"][0]["at"] == 0 or steps[data["suspects"][0]["at"]]


@pytest.mark.parametrize("timeline", [hostile_timeline(), fold(troubled_run().log)])
def test_texts_have_no_signs_that_reorder_or_control(timeline: Timeline) -> None:
    """What would reorder a line in a browser is an escape in the data already."""
    for text in re.findall(r"[^\x00-\x7f]", json.dumps(data_of(timeline), ensure_ascii=False)):
        assert text.isprintable() or text in "\u200c\u200d"


def test_every_place_is_one_that_there_is() -> None:
    """Whatever the log left out, the script finds what the data refers to."""
    for timeline in (hostile_timeline(), fold(troubled_run().log), fold(long_run(400).log)):
        data = data_of(timeline)
        sizes = {name: len(data[name]) for name in ("agents", "threads", "turns", "steps")}
        for step in data["steps"]:
            assert 0 <= step["a"] < sizes["agents"]
            assert 0 <= step["h"] < sizes["threads"]
            assert -1 <= step.get("u", -1) < sizes["turns"]
            assert -1 <= step.get("c", -1) < sizes["steps"]
            assert -1 <= step.get("ab", -1) < sizes["steps"]
        for turn in data["turns"]:
            assert 0 <= turn["a"] < sizes["agents"]
            assert 0 <= turn["h"] < sizes["threads"]
