"""The teams: names that reach somebody, and tools that may take as long as their limits say."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from threadbus.agents import Mention, load_agent
from threadbus.agents.model import Tool
from threadbus.agents.teams.anemoi import document, web
from threadbus.agents.teams.anemoi.names import EVERYBODY, WORKERS
from threadbus.agents.teams.anemoi.prompts import PLANNER_PROMPT
from threadbus.agents.teams.report import document as plain_document
from threadbus.agents.teams.report import planner
from threadbus.agents.teams.script import TEAMS, load_team
from threadbus.agents.tools import DocumentLimits
from threadbus.agents.tools.web import Web, WebSettings

LIMITS = DocumentLimits()
READING = LIMITS.time + LIMITS.model_time


def tools_of(module: object, *arguments: object) -> dict[str, Tool]:
    """Return the tools that a worker gives its model."""
    return cast("dict[str, Tool]", vars(module)["_tools"](cast("Mention", None), *arguments))


@pytest.mark.parametrize("seconds", [20, 600])
def test_pages_may_take_as_long_as_is_set(seconds: float) -> None:
    """No tool ends before BUS_WEB_SECONDS and what reading may take."""
    tools = tools_of(web, Web(WebSettings(seconds=seconds, browser="/usr/bin/chromium")))
    page = timedelta(seconds=seconds)
    assert tools["web_search"].timeout > page
    assert tools["fetch_page"].timeout > page + READING
    assert tools["open_in_browser"].timeout > 4 * page + READING


@pytest.mark.parametrize("name", TEAMS)
def test_agents_have_the_names_that_their_team_teaches(name: str) -> None:
    """Whoever is named to a model, or by the code of a team, is reached by that name."""
    script = load_team(name)
    agents = {key: load_agent(target).name for key, target in script.agents.items()}
    assert agents == {key: key for key in agents}
    assert set(script.to) | set(script.participants) == set(agents)
    if name == "anemoi":
        assert set(EVERYBODY) == set(agents)
        assert all(f"- {worker}:" in PLANNER_PROMPT for worker in WORKERS)


def test_a_colleague_may_take_longer_than_it_reads() -> None:
    """Who gives work out does not leave it while a document is being read."""
    assert tools_of(planner)["assign"].timeout > READING


@pytest.mark.parametrize("module", [document, plain_document])
def test_reading_may_take_as_long_as_its_limits(module: object) -> None:
    """A long recording or scan ends at the limit of reading, which says what was too much."""
    assert tools_of(module, {})["read_file"].timeout > READING
