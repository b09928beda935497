"""The web worker: searches, fetches pages, follows links, and quotes what it found."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from threadbus.agents.agent import Agent
from threadbus.agents.mention import Mention, Reply
from threadbus.agents.model import ChatMessage, Tool, make_tool
from threadbus.agents.teams.anemoi.members import asked_in, member
from threadbus.agents.teams.anemoi.prompts import WEB_PROMPT
from threadbus.agents.teams.anemoi.reading import READ_TIMEOUT
from threadbus.agents.tools.web import BROWSER_TIMES, Web, WebSettings, browse, search
from threadbus.schemas import Skill

_ROUNDS: Final = 16
_REST: Final = timedelta(seconds=30)

agent = Agent(
    "web",
    display_name="Web",
    description="Searches the web, reads pages and files there, follows links, quotes sources.",
    skills=[
        Skill(
            id="browse",
            name="Find on the web",
            description="Searches, fetches pages and follows links; quotes with addresses.",
            tags=("web", "search", "pages"),
        )
    ],
)


class Address(msgspec.Struct):
    """What fetch_page takes."""

    url: str


class Query(msgspec.Struct):
    """What web_search takes."""

    query: str


def _tools(mention: Mention, web: Web) -> dict[str, Tool]:
    async def fetch_page(address: Address) -> str:
        await mention.progress(f"fetching {address.url[:200]}")
        fetched, document = await web.read(address.url)
        return f"Address: {fetched.url}\n{document.render()}"

    async def web_search(query: Query) -> str:
        await mention.progress(f"searching for {query.query[:200]}")
        found = await search(web, query.query)
        lines = [f"{n}. {one.title}\n{one.url}\n{one.content}" for n, one in enumerate(found, 1)]
        return "\n".join(lines) or "Nothing was found."

    async def open_in_browser(address: Address) -> str:
        await mention.progress(f"opening {address.url[:200]} in a browser")
        fetched, document = await browse(web, address.url)
        return f"Address: {fetched.url}\n{document.render()}"

    tools = {
        "web_search": make_tool(
            "web_search", "Search the web.", Query, web_search, timeout=web.settings.time + _REST
        ),
        "fetch_page": make_tool(
            "fetch_page",
            "Fetch an address and read it: a page with its links, or a PDF, table or other file.",
            Address,
            fetch_page,
            timeout=web.settings.time + READ_TIMEOUT,
        ),
    }
    if web.settings.browser:
        tools["open_in_browser"] = make_tool(
            "open_in_browser",
            "Open an address in a browser, for pages that are empty without their scripts.",
            Address,
            open_in_browser,
            timeout=BROWSER_TIMES * web.settings.time + READ_TIMEOUT,
        )
    return tools


async def _work(mention: Mention) -> Reply:
    asked = await asked_in(mention)
    async with Web(WebSettings.from_env()) as web:
        run = await mention.thinking.run(
            [ChatMessage.system(WEB_PROMPT), ChatMessage.user(asked)],
            _tools(mention, web),
            max_rounds=_ROUNDS,
        )
    return run.text


member(agent, WEB_PROMPT, _work)
