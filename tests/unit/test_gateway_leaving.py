"""What a gateway does for a peer that goes away before it is answered."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from threadbus.gateways.web.leaving import UntilGone

SCOPE: Scope = {"type": "http"}
BODY: Message = {"type": "http.request", "body": b"x", "more_body": False}


class Peer:
    """A peer that sends a body, in two pieces, and leaves when the test says so."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.sent: list[Message] = []
        self._pieces: list[Message] = [{**BODY, "more_body": True}, BODY]

    async def receive(self) -> Message:
        """Give the body, then wait for the end."""
        if self._pieces:
            return self._pieces.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Keep what is answered; a server tells of the end of an answer as of a peer that left."""
        self.sent.append(message)
        if not message.get("more_body", True):
            self.left.set()


async def _body(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass


async def test_nobody_is_waited_for() -> None:
    """What waits is stopped once its peer is gone, and so is what listens for that."""
    is_waiting, ends = asyncio.Event(), list[str]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _body(receive)
        listens = asyncio.ensure_future(receive())
        is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append((await listens)["type"])

    peer = Peer()
    async with asyncio.timeout(30):
        call = asyncio.create_task(UntilGone(app, 0.01)(SCOPE, peer.receive, peer.send))
        await is_waiting.wait()
        assert not call.done()
        peer.left.set()
        await call

    assert ends == ["http.disconnect"]
    assert peer.sent == []


async def test_what_was_asked_is_done() -> None:
    """What is done at once is done for a peer that left at once, too."""
    is_done = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal is_done
        await _body(receive)
        for _ in range(20):
            await asyncio.sleep(0)
        is_done = True

    peer = Peer()
    peer.left.set()
    await UntilGone(app, 60)(SCOPE, peer.receive, peer.send)

    assert is_done


async def test_the_end_of_an_answer_is_no_leaving() -> None:
    """What an application still does after its answer is not stopped."""
    is_done = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal is_done
        await _body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        for _ in range(20):
            await asyncio.sleep(0)
        is_done = True

    peer = Peer()
    await UntilGone(app, 0.0)(SCOPE, peer.receive, peer.send)

    assert is_done
    assert len(peer.sent) == 2


@pytest.mark.parametrize("error", [TimeoutError("of its own"), ValueError("x")])
async def test_errors_stay_errors(error: Exception) -> None:
    """An error of the application, also one of time, is raised as it is."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _body(receive)
        raise error

    peer = Peer()
    with pytest.raises(type(error), match=str(error)):
        await UntilGone(app)(SCOPE, peer.receive, peer.send)
