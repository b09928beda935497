"""Open a page in a real browser, for pages that scripts make.

The browser has no network of its own: each of its requests is fetched by :class:`Web`, so it is
screened, pinned and bounded like any other, and what slips past the interception meets a proxy
that is not there. Only GET is let through. Every page gets a browser and a profile of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from threadbus.agents.tools.documents import NamedBytes, read_page
from threadbus.agents.tools.errors import MissingExtraError
from threadbus.agents.tools.parsing.model import Document, DocumentLimits
from threadbus.agents.tools.web.fetching import Fetched, Web
from threadbus.agents.tools.web_errors import (
    BrowserError,
    PageTimeoutError,
    PageTooLargeError,
    WebError,
)

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright, Route, WebSocketRoute

MAX_REQUESTS: Final = 200
"""Requests of one page, its scripts, styles and data included."""
_TIMES: Final = 3
"""A page in a browser may take so many times as long, and as much, as one that is fetched."""
BROWSER_TIMES: Final = _TIMES + 1
"""How many times as long it takes with the fetch before it."""
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


async def browse(web: Web, url: str) -> tuple[Fetched, Document]:
    """Open an address in a browser, let its scripts run, and read what they made of it.

    Args:
        web: an open client, whose settings name the browser (``BUS_WEB_BROWSER``).
        url: the address.

    Raises:
        MissingExtraError: ``threadbus[browser]`` is not installed.
        BrowserError: the browser cannot be started, or fails.
        WebError: the page cannot be fetched; see :meth:`Web.fetch`.
        DocumentError: it cannot be read.

    Cancellation: ends the browser.
    """
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError:
        raise MissingExtraError(url, "browser", "playwright") from None
    first = await web.fetch(url)
    seconds = web.settings.seconds * _TIMES
    try:
        async with asyncio.timeout(seconds), async_playwright() as playwright:
            text = await _rendered(playwright, web, first, seconds)
    except TimeoutError:
        raise PageTimeoutError(url, seconds) from None
    except Error as error:
        raise BrowserError(url, error.message) from error
    limits = DocumentLimits(characters=web.settings.characters)
    document = await read_page(NamedBytes("page.html", text.encode()), first.url, limits)
    return first, document


async def _rendered(playwright: Playwright, web: Web, first: Fetched, seconds: float) -> str:
    browser: Browser = await playwright.chromium.launch(
        executable_path=web.settings.browser or None, headless=True, args=list(_FLAGS)
    )
    try:
        context = await browser.new_context(service_workers="block", accept_downloads=False)
        gate = _Gate(web, first)
        await context.route("**/*", gate.answer)
        await context.route_web_socket("**/*", _refuse)
        page = await context.new_page()
        await page.goto(first.url, wait_until="networkidle", timeout=seconds * 1_000)
        text = await page.content()
    finally:
        await browser.close()
    if len(text) > web.settings.bytes:
        raise PageTooLargeError(first.url, web.settings.bytes)
    return text


async def _refuse(route: WebSocketRoute) -> None:
    await route.close(reason="agents have no web sockets")


class _Gate:
    """Answers what the browser asks for, out of what :class:`Web` fetches."""

    def __init__(self, web: Web, first: Fetched) -> None:
        self._web = web
        self._first = first
        self._requests = 0
        self._bytes = 0

    async def answer(self, route: Route) -> None:
        request = route.request
        self._requests += 1
        is_over = self._requests > MAX_REQUESTS or self._bytes > self._web.settings.bytes * _TIMES
        if request.method != "GET" or is_over:
            await route.abort("blockedbyclient")
            return
        try:
            is_first = request.url == self._first.url
            found = self._first if is_first else await self._web.fetch(request.url)
        except WebError:
            await route.abort("failed")
            return
        self._bytes += len(found.content)
        await route.fulfill(
            status=found.status,
            content_type=found.media_type or "application/octet-stream",
            body=found.content,
        )
