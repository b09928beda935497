"""The report is a document for an issue tracker that no text of an agent can break."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.golden import assert_golden
from tests.support.hostile import ATTACKS, hostile_timeline, long_run, revenue_with_findings
from tests.support.runs import troubled_run
from tests.support.story import Story
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.replay.forms.markdown import MAX_STEPS, code, escaped, fenced
from threadbus.schemas import PlanProposed, PlanRevised, PlanStep

OWN_HTML = {"<details><summary>What happened, step by step</summary>\n", "</details>\n"}


def report(timeline: Timeline) -> str:
    """Return the report of a run."""
    return "".join(FORMS["markdown"](timeline, FormOptions(now=timeline.last_at)))


def tokens(text: str) -> list[Token]:
    """Return what a parser of Markdown with tables sees."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    flat: list[Token] = []
    for token in parser.parse(text):
        flat += [token, *(token.children or [])]
    return flat


def test_a_run_looks_as_it_did() -> None:
    """A whole run: findings first, then answer, agents, plans, votes, artifacts, steps."""
    text = report(revenue_with_findings())

    assert_golden("replay/forms/revenue.md", text)
    order = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert order == [
        "Question",
        "Suspected causes",
        "Findings",
        "Answer",
        "Agents",
        "Plans",
        "Votes",
        "Artifacts",
        "See it again",
    ]


@pytest.mark.parametrize("timeline", [hostile_timeline(), fold(troubled_run().log)])
def test_no_text_is_markup(timeline: Timeline) -> None:
    """No link, picture, HTML, heading or code of an agent's own, and tables keep their columns."""
    found = tokens(report(timeline))
    html = {token.content for token in found if token.type in ("html_block", "html_inline")}

    assert {block.replace("\n\n", "\n") for block in html} <= OWN_HTML
    assert [token for token in found if token.type in ("link_open", "image")] == []
    assert {token.tag for token in found if token.type == "heading_open"} <= {"h1", "h2"}
    assert {token.tag for token in found if token.type == "em_open"} == set()
    rows: list[int] = []
    for token in found:
        if token.type == "tr_open":
            rows.append(0)
        elif token.type in ("td_open", "th_open"):
            rows[-1] += 1
    assert set(rows) <= {5, 8}


@pytest.mark.parametrize("attack", ATTACKS)
def test_escaped_text_is_shown_as_it_was(attack: str) -> None:
    """After rendering, the first line of a text has the characters that it had."""
    line = escaped(attack)
    shown = "".join([token.content for token in tokens(line) if token.type.startswith("text")])

    assert {token.type for token in tokens(line)} <= {
        "paragraph_open",
        "inline",
        "text",
        "text_special",
        "paragraph_close",
    }
    first = attack.strip().splitlines()[0].split("\u202e")[0].strip()
    assert first.replace(" ", "") in shown.replace("\u200b", "").replace(" ", "")


@pytest.mark.parametrize(
    ("text", "mention"), [("@somebody", "@somebody"), ("see #12", "#12"), ("GH-12", "GH-12")]
)
def test_trackers_find_no_mention_or_number(text: str, mention: str) -> None:
    """A tracker would tell somebody, or link an issue; the rendered text has no such word."""
    rendered = MarkdownIt("commonmark").render(escaped(text))

    assert mention in text
    assert mention not in rendered


@pytest.mark.parametrize("attack", [*ATTACKS, "`" * 9, "", "a\n````\nb"])
def test_no_text_ends_its_fence(attack: str) -> None:
    """A block of code holds all of the text, and the document goes on behind it."""
    found = tokens(f"{fenced(attack)}\n\n# After\n")

    assert [token.type for token in found if token.level == 0][:2] == ["fence", "heading_open"]


@pytest.mark.parametrize("text", ["a`b", "a``b`", "x|y", "`", "plain"])
def test_a_span_of_code_holds_its_text(text: str) -> None:
    """Also in a table, and with the signs that would end it."""
    found = tokens(f"| a |\n|---|\n| {code(text)} |\n")

    assert [token.content for token in found if token.type == "code_inline"] == [text]


def test_a_long_run_is_cut_and_says_so() -> None:
    """A report is read by people: what is missing is said, with the command that shows it."""
    text = report(fold(long_run(1_500).log))

    assert text.count("\n| ") < MAX_STEPS + 40
    assert re.search(r"[\d,]+ more steps; all of them in `busreplay \w+ --format html`\.", text)


def test_a_plan_says_what_changed() -> None:
    """A new version marks the steps that are new, gone, or given to somebody else."""
    story = Story()
    asked = story.ask("planner")
    first = (PlanStep("Read", "document"), PlanStep("Sum", "coder"), PlanStep("Draw", "coder"))
    old = story.add("planner", PlanProposed(steps=first), cause=asked)
    second = (PlanStep("Read", "document"), PlanStep("Sum", "web"), PlanStep("Check", "critic"))
    revised = PlanRevised(replaces=old, steps=second, reasons=("too slow",))
    story.add("planner", revised, cause=asked)
    text = report(fold(story.log))

    _, _, changed = text.partition("**Version 2**")
    assert "(because too slow)" in changed
    assert "\n- Read (document)\n" in changed
    assert "Sum (web), was coder's" in changed
    assert "~~Draw (coder)~~" in changed
    assert "🆕 Check (critic)" in changed
