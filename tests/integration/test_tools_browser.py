"""Pages in a real browser: what scripts make is read, and nothing gets past the screen."""

from __future__ import annotations

import pytest

from tests.support.browser import chromium_binary
from tests.support.local_site import Page, local_site
from tests.support.require import require
from threadbus.agents.tools.web import Web, WebSettings, browse
from threadbus.agents.tools.web_errors import BrowserError

MADE = b"""<html><head><title>Empty</title></head><body><div id="to"></div><script>
fetch("/data.json").then(r => r.json()).then(d => {
  document.getElementById("to").innerHTML = "<p>The ferry carried " + d.count + " people.</p>";
});
fetch("http://127.0.0.1:%d/secret").catch(() => 0);
fetch("/write", {method: "POST", body: "x"}).catch(() => 0);
</script></body></html>"""


async def test_what_scripts_make_is_read_and_nothing_else_is_reached() -> None:
    """Data is fetched through the screen; another port and a POST are not let through."""
    binary = chromium_binary()
    require("Chromium (apt-get install chromium)", binary)
    data = Page(b'{"count": "41,942"}', media_type="application/json")
    async with local_site({"/secret": Page(b"secret")}) as private:
        port = int(private.host.rpartition(":")[2])
        pages = {"/": Page(MADE % port), "/data.json": data, "/write": Page(b"written")}
        async with local_site(pages) as site:
            settings = WebSettings(allow=(site.host,), browser=binary or "", seconds=30)
            async with Web(settings) as web:
                plain = (await web.read(site.url("/")))[1].render()
                found = (await browse(web, site.url("/")))[1].render()

    assert "41,942" not in plain
    assert "The ferry carried 41,942 people." in found
    assert private.asked == []
    assert not any(line.startswith("/write") for line in site.asked)


async def test_a_browser_that_is_not_there_says_what_to_set() -> None:
    """The variable is named."""
    async with local_site({"/": Page(b"<p>here</p>")}) as site:
        settings = WebSettings(allow=(site.host,), browser="/nowhere/chromium")
        async with Web(settings) as web:
            with pytest.raises(BrowserError, match="BUS_WEB_BROWSER"):
                await browse(web, site.url("/"))
