"""Peers that go away while their request is worked on, as an ASGI layer.

A web server tells an application so, and nothing more: what waits for the end of a task would wait
on for minutes, for nobody, and a client that gives up and asks again would fill the server.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DEFAULT_GRACE_S: Final = 5.0


class UntilGone:
    """Stop working on a request a moment after its peer went away."""

    def __init__(self, app: ASGIApp, grace_s: float = DEFAULT_GRACE_S) -> None:
        """Wrap *app*.

        Args:
            app: what is stopped, by its cancellation.
            grace_s: how long it may go on all the same: what was asked is done, and only waiting
                for what comes of it is not.
        """
        self._app = app
        self._grace_s = grace_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application for as long as there is somebody to answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        gone = asyncio.Event()
        watch: asyncio.Task[None] | None = None
        is_answered = False

        async def look() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            # It is told of the end of an answer, too.
            if not is_answered:
                await asyncio.sleep(self._grace_s)
                wait.reschedule(asyncio.get_running_loop().time())

        async def hear() -> Message:
            nonlocal watch
            if watch is not None:
                await gone.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                watch = asyncio.create_task(look(), name="threadbus.web.peer")
            return message

        async def say(message: Message) -> None:
            nonlocal is_answered
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                is_answered = True

        wait = asyncio.timeout(None)
        try:
            async with wait:
                await self._app(scope, hear, say)
        except TimeoutError:
            if not wait.expired():
                raise
        finally:
            if watch is not None:
                watch.cancel()
