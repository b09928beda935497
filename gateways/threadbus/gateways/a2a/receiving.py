"""Push notifications from remote agents: a door that rings.

What is sent to it wakes whoever follows that task; what happened is then asked of the remote agent
itself. So a notification that comes twice, late, in another order, or from somebody who has found
out the token changes nothing, and one that was lost is made up for by the next look.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Final

from starlette.types import Receive, Scope, Send

from threadbus.bus import SteadyLog
from threadbus.gateways.errors import InvalidOptionError
from threadbus.gateways.web.limits import (
    DEFAULT_BODY_TIMEOUT_S,
    Rate,
    client_of,
    header,
    read_away,
    refuse,
)
from threadbus.gateways.web.serving import Address, parse_base, serving

MAX_NOTIFICATION_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one notification; they are counted and thrown away."""

_PATH: Final = "/a2a/notifications/"
_MAX_CONNECTIONS: Final = 500
_PER_SECOND: Final = 500.0
_BURST: Final = 2000
_STOP: Final = timedelta(seconds=2)
_log: Final = SteadyLog("threadbus.gateways.a2a")


class Bell:
    """Where the notifications of one remote task arrive."""

    def __init__(self, url: str, name: str, token: str) -> None:
        self.url = url
        """Where the remote agent sends them."""
        self.name = name
        """The same for every attempt, so that one configuration replaces the other."""
        self.token = token
        """What the remote agent has to send along."""
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake whoever waits; several rings before that are one."""
        self._rung.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return whether it rang within *timeout_s* seconds.

        Cancellation: safe.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Bells:
    """Takes the notifications of every remote task that this process follows."""

    def __init__(self) -> None:
        # A restart makes another one: whoever goes on with a task tells the remote agent so.
        self._secret = secrets.token_bytes(32)
        self._bells: dict[str, set[Bell]] = {}
        self._rate = Rate(_PER_SECOND, _BURST)
        self.url = ""
        """Where remote agents reach this, without a slash at the end."""

    def limit(self, per_second: float, burst: int) -> None:
        """Take only so many notifications of one sender, on average and at once."""
        self._rate = Rate(per_second, burst)

    @contextmanager
    def hung(self, name: str) -> Generator[Bell]:
        """Take the notifications for *name* for as long as the context lasts."""
        bell = Bell(f"{self.url}{_PATH}{name}", name, self._token(name))
        self._bells.setdefault(name, set()).add(bell)
        try:
            yield bell
        finally:
            self._bells[name].discard(bell)
            if not self._bells[name]:
                del self._bells[name]

    def _token(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one notification."""
        if scope["type"] != "http":
            return
        if self._rate.take(client_of(scope)) > 0:
            await refuse(send, 429, f"more than {self._rate}; try again later")
            return
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(_PATH):
            await refuse(send, 404, "only notifications are taken here, by POST")
            return
        name = path.removeprefix(_PATH)
        # Before anything of the body is read; and nobody learns which names there are.
        if not self._is_from_the_remote(name, scope):
            _log.warning("a notification without its token was refused", client=client_of(scope))
            await refuse(send, 401, "the token is not the one that was asked for")
            return
        size = await read_away(receive, MAX_NOTIFICATION_BYTES, DEFAULT_BODY_TIMEOUT_S)
        # What it says is asked for anyway, so this counts even where its body is too large.
        for bell in self._bells.get(name, ()):
            bell.ring()
        if size is None or size > MAX_NOTIFICATION_BYTES:
            limit = f"{MAX_NOTIFICATION_BYTES:,} bytes within {DEFAULT_BODY_TIMEOUT_S:g} s"
            await refuse(send, 413, f"a notification has at most {limit}")
            return
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def _is_from_the_remote(self, name: str, scope: Scope) -> bool:
        wanted = self._token(name).encode()
        scheme, _, credentials = header(scope, b"authorization").partition(" ")
        bearer = credentials.strip() if scheme.lower() == "bearer" else ""
        given = (header(scope, b"x-a2a-notification-token"), bearer)
        # Each is compared to the end, in a time that says nothing of where they differ.
        is_right = [hmac.compare_digest(one.encode(), wanted) for one in given]
        return any(is_right)


@asynccontextmanager
async def receiving(address: Address, url: str = "") -> AsyncGenerator[Bells]:
    """Take notifications for as long as the context lasts.

    Args:
        address: where to listen.
        url: where remote agents reach that; the address itself when empty.

    Raises:
        InvalidOptionError: nobody could reach it so.
        ListenError: the address cannot be listened on.

    Cancellation: stops it as leaving does.
    """
    url = parse_base(url, "--push-url") if url else ""
    if not url and address.host in {"0.0.0.0", "::"}:  # noqa: S104 - refused
        raise InvalidOptionError(
            "--push-http", str(address), "with it goes --push-url, which remote agents can reach"
        )
    bells = Bells()
    async with serving(
        bells, address, stop_deadline=_STOP, max_connections=_MAX_CONNECTIONS
    ) as served:
        bells.url = url or served.url
        yield bells
