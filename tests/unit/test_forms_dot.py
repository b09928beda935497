"""The causal graph has an edge for each cause, and no text can break it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.golden import assert_golden
from tests.support.hostile import hostile_timeline, long_run, revenue_with_findings
from tests.support.require import require
from tests.support.runs import revenue_run, troubled_run
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions
from threadbus.replay.forms.dot import MAX_NODES

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def graph(timeline: Timeline) -> str:
    """Return the graph of a run."""
    return "".join(FORMS["dot"](timeline, FormOptions(now=timeline.last_at)))


def edges(text: str) -> list[tuple[str, str, bool]]:
    """Return the edges: from, to, and whether it is dashed."""
    found = re.findall(r"^  (n\d+) -> (n\d+)( \[style=dashed[^\]]*\])?;$", text, re.MULTILINE)
    return [(start, end, bool(style)) for start, end, style in found]


def node(text: str, words: str) -> str:
    """Return the one node whose label has these words."""
    (name,) = re.findall(rf"^    (n\d+) \[label=\"[^\n]*{re.escape(words)}", text, re.MULTILINE)
    return str(name)


def test_a_run_looks_as_it_did() -> None:
    """A whole run, with findings at their steps."""
    assert_golden("replay/forms/revenue.dot", graph(revenue_with_findings()))


def test_edges_are_causes_and_dashed_ones_what_a_step_is_about() -> None:
    """A mention leads to the first step of its turn, and on along the turn."""
    text = graph(fold(revenue_run().log))
    found = edges(text)

    assigned, read = node(text, "assigns document"), node(text, "tool read_document")
    handed = node(text, "The report says 4,210,000.")
    assert (assigned, read, False) in found
    assert (assigned, handed, True) in found
    assert (assigned, handed, False) not in found


@pytest.mark.parametrize("timeline", [hostile_timeline(), fold(troubled_run().log)])
def test_no_text_is_anything_but_text(timeline: Timeline) -> None:
    """Without its strings the graph has nothing but what this form writes itself."""
    bare = STRING.sub("S", graph(timeline))

    assert "pwned" not in bare
    assert '"' not in bare
    assert bare.count("{") == bare.count("}")
    allowed = re.compile(
        r"digraph run \{|  (?:label=S;|labelloc=.*|node \[.*|edge \[.*|\})|\}|"
        r"  subgraph cluster_\d+ \{|    label=S; color=S; fontcolor=S;|"
        r"    n\d+ \[label=S, color=S(?:, penwidth=2.5)?, tooltip=S\];|"
        r"  n\d+ -> n\d+(?: \[style=dashed, constraint=false\])?;"
    )
    assert [line for line in bare.splitlines() if not allowed.fullmatch(line)] == []


def test_a_long_run_is_cut_and_says_so() -> None:
    """Only so many steps are drawn; the title says how many are missing and where they are."""
    text = graph(fold(long_run(4_000).log))

    assert len(re.findall(r"^    n\d+ \[", text, re.MULTILINE)) == MAX_NODES
    assert re.search(r"label=\"A long run \(the first 2,000 steps; [\d,]+ left out", text)
    assert "--format html" in text


@pytest.mark.parametrize("timeline", [revenue_with_findings(), hostile_timeline(), fold([])])
def test_graphviz_draws_it(timeline: Timeline) -> None:
    """The real program takes it without a word, whatever agents wrote."""
    dot = shutil.which("dot")
    require("Graphviz (apt-get install graphviz)", dot)
    assert dot is not None
    drawn = subprocess.run(
        [dot, "-Tsvg"],
        input=graph(timeline).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (drawn.returncode, drawn.stderr) == (0, b"")
    assert b"<script" not in drawn.stdout
