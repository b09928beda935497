"""An agent's inbox as events: mentions under a lease, acknowledged last.

Mentions come in the order of the log as long as the agent stands at one place among the mentions of
each event. Those at different places come through different sources of the server and may overtake
each other by moments; who needs the order of a thread to the letter looks into the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

from threadbus.bus._logging import ThinnedLog
from threadbus.bus._logging import log as _log
from threadbus.bus.following import decode_entry
from threadbus.bus.log import EventLog
from threadbus.bus.ports import Backend, InboxMessage, InboxPort, InboxPull, StoredMessage
from threadbus.bus.settings import BusSettings
from threadbus.bus.speaker import Speaker
from threadbus.schemas import (
    AgentName,
    ErrorInfo,
    Event,
    MentionDeadLettered,
    Recorded,
    Rejected,
    SchemaError,
    TaskForked,
    parse_event_subject,
)


class Delivery:
    """One mention that the agent holds until it settles it."""

    __slots__ = ("_message", "recorded")

    def __init__(self, message: InboxMessage, recorded: Recorded) -> None:
        self._message = message
        self.recorded = recorded

    @property
    def event(self) -> Event:
        """The event that mentions the agent."""
        return self.recorded.event

    @property
    def seq(self) -> int:
        """Its sequence in the log."""
        return self.recorded.seq

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before; not known across a restart of the server."""
        return self._message.deliveries > 1

    async def ack(self) -> None:
        """Say that it was handled and what came of it is in the log; it never comes again."""
        await self._message.ack()

    async def nak(self, delay: timedelta = timedelta(0)) -> None:
        """Give it back; it comes again after *delay*, maybe to another replica."""
        await self._message.nak(delay)

    async def in_progress(self) -> None:
        """Extend the lease by ``ack_wait`` from now."""
        await self._message.in_progress()


class _Shared(InboxMessage):
    """One message that several deliveries hold: acknowledged once each of them is."""

    def __init__(self, message: InboxMessage, holders: int) -> None:
        self._message = message
        self._holders = holders

    @property
    def subject(self) -> str:
        return self._message.subject

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def seq(self) -> int:
        return self._message.seq

    @property
    def relayed(self) -> bool:
        return self._message.relayed

    @property
    def misplaced(self) -> bool:
        return self._message.misplaced

    @property
    def stored_at(self) -> int:
        return self._message.stored_at

    @property
    def deliveries(self) -> int:
        # What it stands for was delivered before, where it was first said.
        return self._message.deliveries + 1

    async def ack(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            await self._message.ack()

    async def nak(self, delay: timedelta) -> None:
        await self._message.nak(delay)

    async def in_progress(self) -> None:
        await self._message.in_progress()


class Inbox(AsyncIterator[Delivery]):
    """An attached inbox; see :meth:`threadbus.bus.Bus.inbox`."""

    def __init__(self, pull: InboxPull, log: EventLog, speaker: Speaker, room: int) -> None:
        self._pull = pull
        self._log = log
        self._no_events = ThinnedLog("a mention is not an event")
        self._speaker = speaker
        self._room = room
        self._ready: deque[Delivery] = deque()

    async def __anext__(self) -> Delivery:
        return await self.next()

    async def next(self) -> Delivery:
        """Return the next mention.

        What is no event is acknowledged, reported to whoever sent it, and passed over.

        Cancellation: safe; nothing is lost.
        """
        while True:
            if self._ready:
                return self._ready.popleft()
            message = await self._pull.next(self._room)
            entry = decode_entry(
                StoredMessage(
                    message.seq,
                    message.subject,
                    message.body,
                    message.stored_at,
                    message.relayed,
                    message.misplaced,
                )
            )
            if isinstance(entry, Recorded) and isinstance(entry.event.data, TaskForked):
                self._ready.extend(await self._woken(message, entry, entry.event.data))
            elif isinstance(entry, Recorded):
                self._log.learn(entry)
                return Delivery(message, entry)
            else:
                await self._report(entry)
                await message.ack()

    async def _woken(
        self, message: InboxMessage, entry: Recorded, data: TaskForked
    ) -> list[Delivery]:
        """Return what this agent had not settled where a super-task was forked.

        Only copies can be named: nobody is woken a second time by what was said here.
        """
        name = self._speaker.name
        wanted = {wake.event for wake in data.wakes if wake.agent == name}
        found: list[Recorded] = []
        if wanted:
            async with aclosing(self._log.read(entry.event.task)) as entries:
                async for known in entries:
                    if known.seq >= entry.seq or not wanted:
                        break
                    if isinstance(known, Recorded) and known.event.id in wanted:
                        wanted.discard(known.event.id)
                        if name in known.event.addressees and known.event.copy_of is not None:
                            found.append(known)
        if not found:
            _log.warning("a fork wakes this agent for nothing", task=entry.event.task)
            await message.ack()
        shared = _Shared(message, len(found))
        return [Delivery(shared, known) for known in found]

    async def _report(self, entry: Rejected) -> None:
        """Tell the sender, as far as the subject says who that is."""
        self._log.rejected += 1
        self._no_events.warning(seq=entry.seq, reason=entry.reason)
        try:
            where = parse_event_subject(entry.subject)
        except SchemaError:
            return
        await self._speaker.note(
            MentionDeadLettered(error=ErrorInfo("malformed_event", entry.reason)),
            task=where.task,
            thread=where.thread,
            mentions=[where.sender],
        )


async def count_pending(inboxes: InboxPort, stream: str | None) -> dict[str, int]:
    """Return how many mentions wait for each agent, in one stream of inboxes or in all."""
    counts: dict[str, int] = {}
    for name in inboxes.streams if stream is None else (stream,):
        counts |= await inboxes.pending(name)
    return counts


@asynccontextmanager
async def open_inbox(
    backend: Backend,
    log: EventLog,
    speaker: Speaker,
    settings: BusSettings,
    *,
    stream: str,
    room: int,
    fresh: bool,
) -> AsyncGenerator[Inbox]:
    """Attach to the inbox of *speaker*; what was pulled and not settled goes back at the end."""
    if fresh:
        await backend.inboxes.remove(speaker.name, stream)
    name = AgentName(speaker.name)
    async with backend.inboxes.pull(name, stream, settings.ack_wait, sole=fresh) as pull:
        yield Inbox(pull, log, speaker, room)
