"""Fetch a page and read it: text, tables and links of HTML, and every kind of document.

Redirects are followed by hand, each screened; size and time are bounded while the bytes come in.
What comes is parsed in a bounded process, as any file that nobody trusts.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from types import TracebackType
from typing import Final, Self
from urllib.parse import unquote, urljoin, urlsplit

import httpx
import msgspec

from threadbus.agents.tools.documents import NamedBytes, read_document, read_page
from threadbus.agents.tools.parsing.model import Document, DocumentLimits
from threadbus.agents.tools.web.screening import screen
from threadbus.agents.tools.web.settings import WebSettings
from threadbus.agents.tools.web_errors import (
    PageRefusedError,
    PageTimeoutError,
    PageTooLargeError,
    PageUnreachableError,
    TooManyRedirectsError,
)

USER_AGENT: Final = "threadbus (agent; +web tool)"
_OK: Final = 200
_HTML: Final = {"text/html", "application/xhtml+xml"}
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_NAMES: Final = {
    "application/pdf": "page.pdf",
    "application/json": "page.json",
    "text/csv": "page.csv",
    "text/markdown": "page.md",
}


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What came from an address."""

    url: str
    """Where it was found, after redirects."""
    status: int
    media_type: str
    content: bytes


class Web:
    """A client for pages. ``async with`` is the only way in."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            timeout=self.settings.seconds,
            # A proxy of the environment would be asked for the name, past the screen.
            trust_env=False,
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate"},
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def fetch(self, url: str) -> Fetched:
        """Fetch what is at an address.

        Raises:
            AddressNotAllowedError: an agent may not go there, or a redirect leads there.
            PageUnreachableError: no connection, or no HTTP.
            PageRefusedError: the answer is not 200.
            PageTooLargeError, PageTimeoutError, TooManyRedirectsError: over a limit.

        Cancellation: closes the connection.
        """
        at = url
        try:
            async with asyncio.timeout(self.settings.seconds):
                for _ in range(self.settings.redirects + 1):
                    found = await self._once(at)
                    if isinstance(found, Fetched):
                        return found
                    at = urljoin(at, found)
        except (TimeoutError, httpx.TimeoutException):
            raise PageTimeoutError(url, self.settings.seconds) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PageUnreachableError(at, str(error) or type(error).__name__) from error
        raise TooManyRedirectsError(url, self.settings.redirects)

    async def _once(self, url: str) -> Fetched | str:
        """Return the page, or where it redirects to."""
        if self._http is None:
            raise RuntimeError("use `async with Web(settings) as web`")
        target = await screen(url, self.settings)
        request = self._http.build_request(
            "GET",
            target.pinned,
            headers={"Host": target.host_header},
            extensions={"sni_hostname": target.host},
        )
        response = await self._http.send(request, stream=True)
        try:
            location = str(response.headers.get("location", ""))
            if response.status_code in _REDIRECTS and location:
                return location
            if response.status_code != _OK:
                raise PageRefusedError(url, response.status_code)
            content = bytearray()
            async for chunk in response.aiter_bytes(64 * 1024):
                content += chunk
                if len(content) > self.settings.bytes:
                    raise PageTooLargeError(url, self.settings.bytes)
        finally:
            await response.aclose()
        media_type = str(response.headers.get("content-type", "")).partition(";")[0]
        return Fetched(
            url=target.url,
            status=response.status_code,
            media_type=media_type.strip().lower(),
            content=bytes(content),
        )

    async def read(self, url: str) -> tuple[Fetched, Document]:
        """Fetch an address and read what is there.

        Raises:
            WebError: it cannot be fetched; see :meth:`fetch`.
            DocumentError: it cannot be read.

        Cancellation: closes the connection, or ends the process that reads.
        """
        fetched = await self.fetch(url)
        limits = DocumentLimits(file_bytes=self.settings.bytes, characters=self.settings.characters)
        named = NamedBytes(_name(fetched), fetched.content)
        if fetched.media_type in _HTML or not fetched.media_type:
            return fetched, await read_page(named, fetched.url, limits)
        return fetched, await read_document(named, limits)


def _name(fetched: Fetched) -> str:
    """Return a name whose extension fits: where content and name part, reading refuses."""
    if fetched.media_type in _NAMES:
        return _NAMES[fetched.media_type]
    if fetched.media_type.startswith("text/"):
        return "page.txt"
    return PurePosixPath(unquote(urlsplit(fetched.url).path)).name or "page"
