"""The monitoring page of a server: what is not one is refused, whatever it says."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from threadbus.agents.cli.failures import MonitorError
from threadbus.agents.cli.monitor import look_at_monitor
from threadbus.agents.monitoring import Request, Response, serving


def pages(**bodies: bytes) -> Callable[[Request], Callable[[], Response]]:
    """Serve pages by their names; 404 for others."""

    def answer(request: Request) -> Callable[[], Response]:
        body = bodies.get(request.path[1:])
        return lambda: Response(404, b"") if body is None else Response(200, body)

    return answer


@pytest.mark.parametrize(
    ("varz", "connz", "word"),
    [
        (b"<html>", b"{}", "varz"),
        (b"[]", b"{}", "varz"),
        (b'{"max_pending": "x"}', b"{}", "varz"),
        (b"{}", b'{"connections": 7}', "connz"),
        (b"{}", b" " * 8_400_000, "8,388,608"),
    ],
)
async def test_a_page_that_is_none_is_refused(varz: bytes, connz: bytes, word: str) -> None:
    """The error has the address and says which page."""
    async with serving("127.0.0.1", 0, pages(varz=varz, connz=connz)) as url:
        with pytest.raises(MonitorError, match=word) as raised:
            await look_at_monitor(url)

    assert url in str(raised.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "ftp://x", "http://[", ""])
async def test_an_address_without_a_page_is_refused(url: str) -> None:
    """Whatever was typed."""
    with pytest.raises(MonitorError):
        await look_at_monitor(url)


async def test_connections_that_were_cut_for_being_slow_are_found() -> None:
    """Others that were closed are not; what a later server adds is passed over."""
    rows = [
        {"cid": 1, "name": "a", "reason": "Slow Consumer (Pending Bytes)"},
        {"cid": 2, "name": "b", "reason": "Client Closed"},
    ]
    connz = msgspec.json.encode({"connections": rows, "new": 1})
    async with serving("127.0.0.1", 0, pages(varz=b'{"slow_consumers": 1}', connz=connz)) as url:
        found = await look_at_monitor(url)

    assert [one.name for one in found.cut] == ["a"]
    assert found.server.slow_consumers == 1
