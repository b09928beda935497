"""What can go wrong with pages and searches.

ToolError
└── WebError                         a page or a search cannot be had
    ├── AddressNotAllowedError       an address where an agent may not go
    ├── PageUnreachableError         no connection, or no such host
    ├── PageRefusedError             the server answers, but not with the page
    ├── PageTooLargeError            more bytes than allowed
    ├── PageTimeoutError             the page did not come in time
    ├── TooManyRedirectsError        sent on and on
    ├── BrowserError                 the browser cannot be started, or fails
    ├── NoSearchError                no search endpoint is set
    └── BadSearchError               the query, or what the endpoint answers
"""

from __future__ import annotations

from threadbus.agents.tools.errors import ToolError, shown
from threadbus.schemas import shorten


class WebError(ToolError):
    """A page or a search cannot be had."""


class AddressNotAllowedError(WebError, ValueError):
    """An agent may not go to an address."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"{shown(self.url)} is not fetched: {self.reason}"


class PageUnreachableError(WebError):
    """There is no connection to an address."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shown(self.url)} cannot be reached: {shorten(self.reason, 200)}; check the address"
        )


class PageRefusedError(WebError):
    """A server answers, but not with the page."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(url, status)
        self.url = url
        self.status = status

    def __str__(self) -> str:
        return f"{shown(self.url)} answers {self.status}, not a page; try another address"


class PageTooLargeError(WebError):
    """A page has more bytes than allowed."""

    def __init__(self, url: str, limit: int) -> None:
        super().__init__(url, limit)
        self.url = url
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{shown(self.url)} has more than {self.limit:,} bytes; "
            "find a smaller page, or raise BUS_WEB_BYTES"
        )


class PageTimeoutError(WebError):
    """A page did not come in time."""

    def __init__(self, url: str, limit_s: float) -> None:
        super().__init__(url, limit_s)
        self.url = url
        self.limit_s = limit_s

    def __str__(self) -> str:
        return (
            f"{shown(self.url)} did not come within {self.limit_s:g} s; "
            "try again later, or raise BUS_WEB_SECONDS"
        )


class TooManyRedirectsError(WebError):
    """A page sends on and on."""

    def __init__(self, url: str, limit: int) -> None:
        super().__init__(url, limit)
        self.url = url
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{shown(self.url)} redirects more than {self.limit} times; "
            "fetch where it leads to, or raise BUS_WEB_REDIRECTS"
        )


class BrowserError(WebError):
    """The browser cannot be started, or fails."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shown(self.url)} was not opened in a browser: {shorten(self.reason, 300)}; "
            "BUS_WEB_BROWSER names the program, as /usr/bin/chromium"
        )


class NoSearchError(WebError):
    """No search endpoint is set."""

    def __str__(self) -> str:
        return (
            "no search is set up: BUS_WEB_SEARCH_URL names a SearXNG-compatible endpoint, as "
            "https://searx.example/search; pages whose address is known can be fetched without"
        )


class BadSearchError(WebError):
    """A query cannot be used, or the endpoint answers something else."""

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(endpoint, reason)
        self.endpoint = endpoint
        self.reason = reason

    def __str__(self) -> str:
        return f"the search at {shown(self.endpoint)} failed: {shorten(self.reason, 300)}"
