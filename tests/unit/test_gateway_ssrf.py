"""Addresses that somebody else chose: what is sent to, and what never."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from threadbus.agents.tools.net import MAX_URL_CHARS
from threadbus.gateways.errors import (
    AddressRefusedError,
    AddressUnknownError,
    InvalidOptionError,
)
from threadbus.gateways.web.ssrf import Screen, Target, post_pinned


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://2130706433/x",
        "https://0x7f000001/x",
        "https://0177.0.0.1/x",
        "https://127.1/x",
        "https://0.0.0.0/x",
        "https://10.0.0.1/x",
        "https://172.16.5.4/x",
        "https://192.168.1.1/x",
        "https://100.64.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00:ec2::254]/x",
        "https://[::1]/x",
        "https://[::]/x",
        "https://[fe80::1]/x",
        "https://[fec0::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://[2002:7f00:1::]/x",
        "https://[64:ff9b::a00:1]/x",
        "https://[::127.0.0.1]/x",
        "https://192.0.0.192/opc/v1",
        "https://192.88.99.1/x",
        "https://[3fff::1]/x",
        "https://[64:ff9b:1::a00:1]/x",
        "https://LOCALHOST/x",
        "https://127\u30020\u30020\u30021/x",
        "https://\u2460\u2461\u2466.0.0.1/x",
        "https://224.0.0.1/x",
        "https://255.255.255.255/x",
        "http://8.8.8.8/x",
        "ftp://8.8.8.8/x",
        "file:///etc/passwd",
        "gopher://8.8.8.8/x",
        "https:///x",
        "https://user@8.8.8.8/x",
        "https://user:word@8.8.8.8/x",
        "https://8.8.8.8:99999/x",
        "https://8.8.8.8/a b",
        "https://8.8.8.8/\n",
        "https://[8.8.8.8/x",
        "https://8.8.8.8/" + "x" * MAX_URL_CHARS,
        "",
        "//8.8.8.8/x",
    ],
)
async def test_refused(url: str) -> None:
    """Private, loopback, link-local and metadata addresses are refused in every notation."""
    with pytest.raises(AddressRefusedError, match="nothing is sent to"):
        await Screen().check(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://8.8.8.8/x?y", ("8.8.8.8", 443, "8.8.8.8")),
        ("https://8.8.8.8:8443/", ("8.8.8.8", 8443, "8.8.8.8")),
        ("https://[2001:4860:4860::8888]/", ("2001:4860:4860::8888", 443, "2001:4860:4860::8888")),
    ],
)
async def test_taken(url: str, target: tuple[str, int, str]) -> None:
    """A public address over https is taken, and says where the connection goes."""
    assert (await Screen().check(url))[1:] == target


async def test_allow_list() -> None:
    """A host that is allowed, or a network, may be private and http; nothing beside it."""
    by_host, by_port = Screen(["localhost"]), Screen(["localhost:81"])
    by_network = Screen(["127.0.0.0/8"])

    assert (await by_host.check("http://localhost:80/x")).host == "localhost"
    assert (await by_port.check("http://localhost:81/x")).port == 81
    assert (await by_network.check("http://127.1/x")).ip == "127.0.0.1"
    for screen, url in (
        (by_host, "http://127.0.0.1/x"),
        (by_port, "http://localhost:82/x"),
        (by_network, "http://10.0.0.1/x"),
    ):
        with pytest.raises(AddressRefusedError):
            await screen.check(url)


@pytest.mark.parametrize("entry", ["", "a/b", " host", "10.0.0.1/8"])
def test_bad_allow_list(entry: str) -> None:
    """What is neither a host nor a network is refused at the start."""
    with pytest.raises(InvalidOptionError, match="--push-allow"):
        Screen([entry])


async def test_unknown_name() -> None:
    """A name that cannot be resolved is an error of its own: it may be known later."""
    with pytest.raises(AddressUnknownError):
        await Screen().check("https://no-such-host.invalid/")


async def test_one_private_address_among_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a public and a private address is refused: either might be connected to."""

    async def both(*_: Any, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 443)) for ip in ("8.8.8.8", "10.0.0.1")
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    with pytest.raises(AddressRefusedError):
        await Screen().check("https://rebinds.example/")


async def test_pinned_and_no_redirect() -> None:
    """The connection goes to the screened IP, under the name; no redirect is followed."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = Target(f"http://hooks.example:{port}/path?q=1", "hooks.example", port, "127.0.0.1")
    async with server, httpx.AsyncClient(trust_env=False) as http:
        status = await post_pinned(http, target, b"{}", {"X-Token": "t"})

    assert status == 302
    assert len(heard) == 1
    assert heard[0].startswith(b"POST /path?q=1 HTTP/1.1\r\n")
    assert f"host: hooks.example:{port}".encode() in heard[0].lower()
