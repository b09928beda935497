"""Inboxes: durable pull consumers on the work queue that the server fills from the log.

The consumer's own state is in memory (``mem_storage``): the work queue records what is not yet
acknowledged, so after a restart of the server the consumer is simply made again.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._logging import log as _log
from threadbus.bus._nats.api import api, look
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.consumers import create_consumer
from threadbus.bus._nats.frames import header, status
from threadbus.bus._nats.inbox_message import NatsInboxMessage
from threadbus.bus._nats.layout import Layout
from threadbus.bus._nats.log import NatsLog
from threadbus.bus._nats.overdue import Overdue
from threadbus.bus._nats.places import MentionPlaces
from threadbus.bus._nats.sources import watch_sources
from threadbus.bus._nats.waiting import oldest_in, pending_in
from threadbus.bus.errors import ClosedError, ReadError, ReadTimeoutError
from threadbus.bus.facts import WaitingMention
from threadbus.bus.ports import Haste
from threadbus.schemas import AgentName, push_subject

_EXPIRES_S: Final = 30.0
_HEARTBEAT_S: Final = 2.0
_SILENCE_S: Final = 2.5 * _HEARTBEAT_S
_DELETE_S: Final = 1.0
_ATTACH_S: Final = 15.0
_RETRY_S: Final = 0.2
_TELL_EVERY_S: Final = 10.0
_PLACED_AT_ONCE: Final = 32
_NOT_FOUND: Final = 10014


class NatsInboxPull:
    """One agent's inbox, pulled as far as there is room."""

    def __init__(
        self,
        client: DirectClient,
        agent: AgentName,
        stream: str,
        ack_wait: timedelta,
        places: MentionPlaces | None = None,
        *,
        sole: bool = False,
    ) -> None:
        self._client = client
        self._places = places
        self._overdue = Overdue() if sole else None
        self._agent = agent
        self._stream = stream
        self._ack_wait = ack_wait
        self._queue: deque[NatsInboxMessage] = deque()
        self._held: set[NatsInboxMessage] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._asked = 0
        self.reply = client.new_inbox()
        self._asked_at = 0.0
        self._heard_at = 0.0
        self._tell_at = 0.0
        self._gone = False
        self._closed = False

    @property
    def consumer(self) -> str:
        """The name of the consumer."""
        return f"agent-{self._agent}"

    async def create(self) -> None:
        """Create the consumer, or find it."""
        try:
            answer = await create_consumer(self._client, self._agent, self._stream, self._ack_wait)
        except (NatsError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ReadTimeoutError(f"the inbox of {self._agent}", reason) from error
        if answer.error is not None:
            raise ReadError(f"the inbox of {self._agent}", answer.error.description)
        self._gone = False

    async def next(self, room: int) -> NatsInboxMessage:
        """Return the next mention; at most *room* are asked for ahead.

        Cancellation: safe; a mention that has arrived stays in the queue.
        """
        while True:
            if self._closed:
                raise ClosedError("the inbox")
            if self._queue:
                if self._places is not None and not self._queue[0].is_placed:
                    await self._place(self._places)
                    continue
                if self._asked + len(self._queue) <= room // 2:
                    await self._ask(room)
                message = self._queue.popleft()
                message.holder = self._held
                self._held.add(message)
                return message
            if self._gone:
                await self._recreate()
                continue
            if self._asked <= room // 2 or time.monotonic() > self._asked_at + _EXPIRES_S:
                await self._ask(room)
            if not self._queue and not self._gone:
                await self._wait()

    async def _place(self, places: MentionPlaces) -> None:
        """Find out where in the log the mentions are that have arrived; they stay in the queue."""
        some = [message for message in self._queue if not message.is_placed][:_PLACED_AT_ONCE]
        try:
            async with asyncio.TaskGroup() as tasks:
                for message in some:
                    tasks.create_task(message.find_place(places), name="threadbus.inbox.place")
        except* ReadTimeoutError as group:
            reason = str(group.exceptions[0])
            _log.warning("the log does not answer, trying on", reason=reason)
            await asyncio.sleep(_RETRY_S)

    async def _wait(self) -> None:
        """Wait until something arrives, or until a heartbeat is overdue."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        if self._timer is None:
            # It outlives the wait: one for each mention would be set only to be cancelled.
            self._look_later(_SILENCE_S)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _look_later(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look_for_silence)

    def _look_for_silence(self) -> None:
        self._timer = None
        left_s = self._heard_at + _SILENCE_S - time.monotonic()
        if not self._waiters:
            return
        if left_s > 0:
            self._look_later(left_s)
            return
        # The consumer, the server or the request is gone.
        self._asked = 0
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _ask(self, room: int) -> None:
        batch = max(1, room) - self._asked - len(self._queue)
        if batch <= 0:
            return
        request = {
            "batch": batch,
            "expires": int(_EXPIRES_S * 1e9),
            "idle_heartbeat": int(_HEARTBEAT_S * 1e9),
        }
        # Ahead of need it can go behind the answer to what has just come.
        haste = Haste.LAST if self._asked else Haste.AT_ONCE
        self._asked += batch
        self._asked_at = self._heard_at = time.monotonic()
        try:
            self._client.post(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self.consumer}",
                msgspec.json.encode(request),
                reply=self.reply,
                haste=haste,
            )
        except NatsError:
            self._asked -= batch
            await asyncio.sleep(_RETRY_S)

    async def _recreate(self) -> None:
        try:
            try:
                await self.create()
            except ReadError:
                # In a cluster the copies of a consumer may be left without a majority when one
                # server after another dies. A new one is made of what the work queue still has.
                await self._delete()
                await self.create()
        except ReadError as error:
            if time.monotonic() >= self._tell_at:
                self._tell_at = time.monotonic() + _TELL_EVERY_S
                _log.warning("inbox not there yet", agent=self._agent, reason=str(error))
            await asyncio.sleep(_RETRY_S)

    async def _delete(self) -> None:
        """Take the consumer away; of one without a leader that happens without an answer."""
        subject = f"CONSUMER.DELETE.{self._stream}.{self.consumer}"
        with contextlib.suppress(NatsError, TimeoutError):
            await api(self._client, subject, timeout_s=_DELETE_S)

    def on_frame(self, _subject: bytes, reply: bytes, body: bytes, raw: bytes) -> None:
        """Take in what the consumer sends."""
        self._heard_at = time.monotonic()
        code = status(raw)
        if code == 0:
            self._asked = max(0, self._asked - 1)
            # The copies of an event come through several sources: as far as they are here they
            # are put into the order of the log.
            message = NatsInboxMessage(self._client, reply, body, raw)
            if self._places is not None and self._places.come_from_several:
                message.order = message.stored_at
            if self._overdue is not None:
                self._overdue.came(message)
                message.on_delayed = self._overdue.expect
            bisect.insort(self._queue, message, key=lambda one: one.order)
        elif code == 100:
            return
        elif code in {404, 408}:
            left = int(header(raw, b"Nats-Pending-Messages") or 0)
            self._asked = max(0, self._asked - left) if left else 0
        else:
            # 409 the consumer was deleted or is overloaded, 503 nobody answers: look again.
            self._asked = 0
            self._gone = True
        self._wake()

    def on_reconnected(self) -> None:
        """Forget what was asked of the old connection."""
        self._asked = 0
        self._gone = True
        self._wake()

    def end(self) -> None:
        """Tell whoever waits for a mention that there will be none."""
        self._closed = True
        self._wake()

    def close(self) -> list[NatsInboxMessage]:
        """Stop; returns what had arrived and was not settled, in the order of the log."""
        self.end()
        if self._timer is not None:
            self._timer.cancel()
        if self._overdue is not None:
            self._overdue.close()
        left = sorted((*self._held, *self._queue), key=lambda one: one.order)
        self._queue.clear()
        return left


class NatsInboxes:
    """Every inbox reached through one connection."""

    def __init__(self, client: DirectClient, log: NatsLog) -> None:
        self._client = client
        self._log = log
        self._layout = Layout()
        self._places: MentionPlaces | None = None
        self._pulls: set[NatsInboxPull] = set()
        self._streams: Counter[str] = Counter()

    def spread(self, layout: Layout) -> None:
        """Take in over which streams the log and the inboxes are spread."""
        self._layout = layout
        is_one = layout == Layout()
        self._places = None if is_one else MentionPlaces(self._client, self._log, layout)

    @property
    def streams(self) -> Sequence[str]:
        """Every stream that has inboxes."""
        return self._layout.inbox_streams

    def stream_of(self, agent: str) -> str:
        """Return the stream that has the inbox of *agent*."""
        return self._layout.inbox_stream(agent)

    @asynccontextmanager
    async def pull(
        self, agent: str, stream: str, ack_wait: timedelta, *, sole: bool = False
    ) -> AsyncGenerator[NatsInboxPull]:
        """Attach to the inbox of *agent*, creating it where it is not."""
        name = AgentName(agent)
        pull = NatsInboxPull(self._client, name, stream, ack_wait, self._places, sole=sole)
        await _created(pull)
        self._pulls.add(pull)
        self._streams[stream] += 1
        listening = self._client.start_listening(pull.reply, pull.on_frame)
        try:
            yield pull
        finally:
            self._pulls.discard(pull)
            self._streams -= Counter([stream])
            # What is on its way to here would be leased to nobody.
            await self._client.finish_listening(listening)
            for message in pull.close():
                await message.nak(timedelta(0))

    def close(self) -> None:
        """End what is attached: nothing comes over this connection any more."""
        for pull in self._pulls:
            pull.end()

    async def watch(self) -> None:
        """Have stalled sources of the inboxes set up again, whether any is pulled here or not."""
        await watch_sources(self._client, lambda: self._streams or self.streams)

    def on_reconnected(self) -> None:
        """Ask again on the new connection."""
        for pull in self._pulls:
            pull.on_reconnected()

    async def push(self, agent: str, stream: str, ack_wait: timedelta) -> None:
        """Have the mentions of *agent* pushed to ``inbox.<agent>``, instead of pulled."""
        name = AgentName(agent)
        await self.remove(agent, stream)
        answer = await create_consumer(
            self._client,
            name,
            stream,
            ack_wait,
            deliver_subject=push_subject(name),
            deliver_group=agent,
        )
        if answer.error is not None:
            raise ReadError(f"the inbox of {agent}", answer.error.description)

    async def remove(self, agent: str, stream: str) -> None:
        """Take the consumer away; what waits stays in the stream."""
        what = f"the inbox of {agent}"
        answer = await look(self._client, f"CONSUMER.DELETE.{stream}.agent-{agent}", what)
        if answer.error is not None and answer.err_code != _NOT_FOUND:
            raise ReadError(f"the inbox of {agent}", answer.error.description)

    async def pending(self, stream: str) -> Mapping[str, int]:
        """Return how many mentions wait for each agent."""
        return await pending_in(self._client, stream)

    async def oldest(self, agent: str, stream: str) -> WaitingMention | None:
        """Return the mention that has waited longest for *agent*."""
        return await oldest_in(self._client, AgentName(agent), stream)


async def _created(pull: NatsInboxPull) -> None:
    """Create the consumer; tried again where the server has just started."""
    deadline = time.monotonic() + _ATTACH_S
    while True:
        try:
            return await pull.create()
        except ReadTimeoutError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_RETRY_S)
