"""The sequence diagram, drawn by the real Mermaid in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.browser import MERMAID, chromium, chromium_binary, mermaid_script
from tests.support.hostile import hostile_timeline, long_run, revenue_with_findings
from tests.support.require import require
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions

RUNS: dict[str, Callable[[], Timeline]] = {
    "revenue": revenue_with_findings,
    "hostile": hostile_timeline,
    "long": lambda: fold(long_run(1_000).log),
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page that holds nothing but Mermaid."""
    binary, script = chromium_binary(), mermaid_script()
    require("Chromium (apt-get install chromium)", binary)
    require(f"mermaid.min.js of the npm package mermaid, its path in {MERMAID}", script)
    assert binary is not None
    assert script is not None
    with chromium(binary, Path(tmp_path_factory.mktemp("profile"))) as context:
        opened = context.new_page()
        opened.add_script_tag(path=script)
        yield opened


@pytest.mark.parametrize("run", list(RUNS))
def test_mermaid_draws_the_diagram(page: Page, run: str) -> None:
    """The real Mermaid parses and draws it, and no text in it becomes an element."""
    timeline = RUNS[run]()
    diagram = "".join(FORMS["mermaid"](timeline, FormOptions(now=timeline.last_at)))
    kind, drawn = page.evaluate(
        """async (text) => {
          mermaid.initialize({startOnLoad: false});
          const found = await mermaid.parse(text);
          return [found.diagramType, (await mermaid.render("drawn", text)).svg];
        }""",
        diagram,
    )

    assert kind == "sequence"
    for agent in timeline.working_agents():
        assert f">{agent.agent}<" in drawn
    assert "<script" not in drawn
    assert page.evaluate("window.pwned") is None
