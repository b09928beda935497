"""The web tools against a site of our own: reading, following, bounds, and where nobody may go."""

from __future__ import annotations

import asyncio
import gzip
import socket
from typing import Any

import msgspec
import pytest

from tests.support.local_site import Page, Site, local_site
from tests.support.tool_files import make_pdf
from threadbus.agents.errors import InvalidSettingError
from threadbus.agents.tools import DocumentKind
from threadbus.agents.tools.web import Web, WebSettings, search
from threadbus.agents.tools.web_errors import (
    AddressNotAllowedError,
    BadSearchError,
    NoSearchError,
    PageRefusedError,
    PageTimeoutError,
    PageTooLargeError,
    PageUnreachableError,
    TooManyRedirectsError,
)

ARTICLE = b"""<html><head><title>Bees</title><script>var hidden = 1</script></head><body>
<nav><a href="/">Home</a></nav><article><h1>Bees</h1>
<p>A hive holds some 50,000 bees in summer, and far fewer in winter when they cluster.</p>
<p>Read on in <a href="winter.html#cold">the chapter on winter</a> or write to
<a href="mailto:a@b.example">us</a>.</p></article></body></html>"""


def settings(site: Site, **more: Any) -> WebSettings:
    """Allow this site and nothing else that is not public."""
    return WebSettings(allow=(site.host,), **more)


async def test_a_page_is_read_with_its_links() -> None:
    """Its main text is there, its scripts are not, and relative links are whole addresses."""
    async with (
        local_site({"/book/bees.html": Page(ARTICLE)}) as site,
        Web(settings(site)) as web,
    ):
        fetched, document = await web.read(site.url("/book/bees.html"))
    text = document.render()

    assert (document.kind, document.title) == (DocumentKind.PAGE, "Bees")
    assert "A hive holds some 50,000 bees" in text
    assert "hidden" not in text
    assert f"| the chapter on winter | {site.url('/book/winter.html')} |" in text
    assert "mailto" not in text
    assert fetched.url == site.url("/book/bees.html")
    assert site.asked == [f"/book/bees.html {site.host}"]


async def test_a_document_at_an_address_is_read_as_one() -> None:
    """A PDF goes the way of every PDF."""
    page = Page(make_pdf(["The harbour has 12 berths."]), media_type="application/pdf")
    async with local_site({"/harbour": page}) as site, Web(settings(site)) as web:
        _, document = await web.read(site.url("/harbour"))

    assert document.kind is DocumentKind.PDF
    assert "12 berths" in document.render()


async def test_a_redirect_is_followed() -> None:
    """The page says where it was found."""
    pages = {
        "/old": Page(status=301, headers={"Location": "/new"}),
        "/new": Page(b"<p>moved here</p>"),
    }
    async with local_site(pages) as site, Web(settings(site)) as web:
        fetched = await web.fetch(site.url("/old"))

    assert (fetched.url, fetched.content) == (site.url("/new"), b"<p>moved here</p>")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://localhost/x",
        "http://2130706433/x",
        "http://[::1]/x",
        "http://[::ffff:10.0.0.1]/x",
        "http://[fec0::1]/x",
        "http://169.254.169.254/latest/meta-data",
        "http://10.1.2.3/",
        "ftp://8.8.8.8/",
        "file:///etc/passwd",
        "http://user:word@8.8.8.8/",
        "http://8.8.8.8/a b",
        "http://8.8.8.8/" + "x" * 3000,
        "http://[8.8.8.8/",
        "",
    ],
)
async def test_what_is_not_public_is_refused(url: str) -> None:
    """Loopback, private and metadata addresses are out in every notation, and so is no web."""
    async with Web(WebSettings()) as web:
        with pytest.raises(AddressNotAllowedError):
            await web.fetch(url)


async def test_a_redirect_into_a_private_network_is_refused() -> None:
    """Each address on the way is screened, not only the first."""
    page = Page(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
    async with local_site({"/x": page}) as site, Web(settings(site)) as web:
        with pytest.raises(AddressNotAllowedError, match="not public"):
            await web.fetch(site.url("/x"))


async def test_the_connection_goes_to_the_ip_that_was_screened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that resolves to something else the second time leads nowhere else."""
    async with local_site({"/": Page(b"<p>the right one</p>")}) as site:
        port = int(site.host.rpartition(":")[2])
        asked: list[str] = []

        async def resolve(host: str, *args: Any, **kwargs: Any) -> list[Any]:
            asked.append(host)
            ip = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve, raising=False)
        host = f"site.example:{port}"
        async with Web(WebSettings(allow=(host,))) as web:
            fetched = await web.fetch(f"http://{host}/")

    assert fetched.content == b"<p>the right one</p>"
    assert asked[0] == "site.example"
    assert site.asked == [f"/ {host}"]


async def test_an_endless_page_ends_at_the_limit() -> None:
    """No more than the limit is taken in, whatever the server claims."""
    page = Page(b"x" * 65_536, endless=True)
    async with local_site({"/": page}) as site, Web(settings(site, bytes=100_000)) as web:
        with pytest.raises(PageTooLargeError, match="100,000 bytes"):
            await web.fetch(site.url("/"))


async def test_a_compressed_bomb_ends_at_the_limit() -> None:
    """The limit holds for what the bytes unpack to."""
    bomb = gzip.compress(b"\0" * 20_000_000)
    page = Page(bomb, headers={"Content-Encoding": "gzip"})
    async with local_site({"/": page}) as site, Web(settings(site, bytes=100_000)) as web:
        with pytest.raises(PageTooLargeError):
            await web.fetch(site.url("/"))


async def test_a_page_that_does_not_come_ends_in_time() -> None:
    """The wait is bounded, redirects and all."""
    page = Page(gate=asyncio.Event())
    async with local_site({"/": page}) as site, Web(settings(site, seconds=0.2)) as web:
        with pytest.raises(PageTimeoutError, match=r"0\.2 s"):
            await web.fetch(site.url("/"))


async def test_redirects_in_a_circle_end() -> None:
    """The limit and its setting are named."""
    page = Page(status=302, headers={"Location": "/"})
    async with local_site({"/": page}) as site, Web(settings(site, redirects=3)) as web:
        with pytest.raises(TooManyRedirectsError, match="BUS_WEB_REDIRECTS"):
            await web.fetch(site.url("/"))
        assert len(site.asked) == 4


async def test_a_missing_page_and_a_closed_port_are_told_apart() -> None:
    """The one answers 404, the other does not answer."""
    async with local_site({}) as site, Web(settings(site)) as web:
        with pytest.raises(PageRefusedError, match="404"):
            await web.fetch(site.url("/nowhere"))
    async with Web(settings(site)) as web:
        with pytest.raises(PageUnreachableError):
            await web.fetch(site.url("/"))


async def test_search_asks_the_endpoint_that_is_set() -> None:
    """The query travels whole, and results are bounded."""
    results = [
        {"url": f"https://x.example/{n}", "title": f"T{n}", "content": "…"} for n in range(30)
    ]
    page = Page(msgspec.json.encode({"results": results}), media_type="application/json")
    async with local_site({"/search": page}) as site:
        chosen = settings(site, search_url=site.url("/search"))
        async with Web(chosen) as web:
            found = await search(web, "bees & winter", limit=3)

    assert [one.url for one in found] == [f"https://x.example/{n}" for n in range(3)]
    assert site.asked[0].startswith("/search?q=bees+%26+winter&format=json ")


async def test_search_without_an_endpoint_says_what_to_set() -> None:
    """Nothing is asked anywhere."""
    async with Web(WebSettings()) as web:
        with pytest.raises(NoSearchError, match="BUS_WEB_SEARCH_URL"):
            await search(web, "bees")


async def test_search_that_answers_a_page_says_so() -> None:
    """Many SearXNG servers do not allow JSON."""
    async with (
        local_site({"/search": Page(b"<html>results</html>")}) as site,
        Web(settings(site, search_url=site.url("/search"))) as web,
    ):
        with pytest.raises(BadSearchError, match="format=json"):
            await search(web, "bees")


def test_settings_come_from_the_environment() -> None:
    """What does not fit is refused with its variable."""
    chosen = WebSettings.from_env(
        {"BUS_WEB_ALLOW": "a.example, 10.0.0.0/8", "BUS_WEB_SECONDS": "3", "BUS_WEB_X": "y"}
    )

    assert (chosen.allow, chosen.seconds) == (("a.example", "10.0.0.0/8"), 3.0)
    with pytest.raises(InvalidSettingError, match="BUS_WEB_SECONDS"):
        WebSettings.from_env({"BUS_WEB_SECONDS": "soon"})
    with pytest.raises(InvalidSettingError, match="BUS_WEB_ALLOW"):
        WebSettings.from_env({"BUS_WEB_ALLOW": "10.0.0/8"})
    with pytest.raises(InvalidSettingError, match="BUS_WEB_SEARCH_URL"):
        WebSettings.from_env({"BUS_WEB_SEARCH_URL": "searx.example"})
