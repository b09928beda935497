"""The registry: who there is, who holds a name, and who is living.

An agent's record is one key, its heartbeats are another for each instance, which goes away by
itself. A name is held by the holder in the record for as long as one instance of it is living.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from threadbus.bus._logging import ThinnedLog
from threadbus.bus.errors import (
    UnknownAgentError,
)
from threadbus.bus.ports import Backend, GuardFailedError, KeyEntry
from threadbus.bus.settings import BusSettings
from threadbus.bus.store_errors import (
    AgentNameTakenError,
)
from threadbus.schemas import (
    AgentCard,
    AgentName,
    AgentRecord,
    InvalidNameError,
    Presence,
    SchemaError,
    canonical_agent_name,
    decode_entry,
    encode_entry,
    nearest_names,
    new_event_id,
    parse_agent_name,
)

_EntryT = TypeVar("_EntryT", AgentRecord, Presence)

_NOT_IN_NAMES: Final = re.compile("[^a-z0-9_-]+")
_TRIES: Final = 8
_KNOWN_FOR_S: Final = 5.0


def new_instance() -> str:
    """Make the name of one running instance: host, process and a random suffix."""
    host = _NOT_IN_NAMES.sub("-", socket.gethostname().lower()).strip("-_")[:40]
    return f"{host or 'host'}-{os.getpid()}-{new_event_id()[-6:]}"


class LivingAgent(msgspec.Struct, frozen=True):
    """A record and the heartbeats of its instances; none when nobody is living."""

    record: AgentRecord
    instances: tuple[Presence, ...]

    @property
    def name(self) -> AgentName:
        """The agent's name."""
        return AgentName(self.record.card.name)

    @property
    def is_living(self) -> bool:
        """Whether an instance has a heartbeat within the time to live."""
        return bool(self.instances)


class Registry:
    """The registry and the heartbeats of one bus."""

    def __init__(self, backend: Backend, settings: BusSettings) -> None:
        self._backend = backend
        self._ttl = settings.presence_ttl
        self._ack_wait = settings.ack_wait
        self._known: dict[str, float] = {}
        self._unreadable = ThinnedLog("unreadable entry, skipped")

    async def register(
        self,
        card: AgentCard,
        *,
        holder: str,
        takeover: bool = False,
        replicas: int = 1,
        push: bool = False,
    ) -> AgentRecord:
        """Take a name, or renew what the same holder registered.

        Args:
            card: how the agent presents itself; an empty description keeps the registered one.
            holder: who holds the name: an instance, or a group of replicas.
            takeover: replace whoever holds the name; it is told and stops.
            replicas: how many instances share the inbox.
            push: have mentions pushed to ``inbox.<name>`` in queue group ``<name>``, for an agent
                that subscribes instead of pulling; it answers each with ``+ACK``.

        Raises:
            AgentNameTakenError: somebody else holds the name and is living.
            InvalidNameError: the name is outside the grammar; names one that would do.
            LimitExceededError: the card is too large.

        Cancellation: safe; register again.
        """
        name = parse_agent_name(card.name)
        for _ in range(_TRIES):
            entry = await self._backend.agents.get(name)
            held = None if entry is None else self._decode(entry, AgentRecord)
            if held is not None and held.holder != holder and not takeover:
                living = await self.presence(name)
                if any(beat.holder == held.holder and _may_live(beat) for beat in living):
                    raise AgentNameTakenError(name, held.holder, held.host, held.pid)
            if held is not None and not card.description and held.card.description:
                card = msgspec.structs.replace(card, description=held.card.description)
            record = AgentRecord(
                card=card,
                holder=holder,
                host=socket.gethostname(),
                pid=os.getpid(),
                registered_at=time.time_ns(),
                inbox_stream=self._backend.inboxes.stream_of(name),
                replicas=replicas,
                push=push,
            )
            try:
                await self._backend.agents.put(
                    name, encode_entry(record), revision=0 if entry is None else entry.revision
                )
            except GuardFailedError:
                # Another process registered the name in between: look again who holds it.
                continue
            if push:
                await self._backend.inboxes.push(name, record.inbox_stream, self._ack_wait)
            return record
        raise AgentNameTakenError(name, "several that register at once", "", 0)

    async def update(self, card: AgentCard) -> AgentRecord:
        """Change the card of a registered agent; who holds the name stays.

        Raises:
            UnknownAgentError: nobody registered it.
            InvalidNameError: the name is outside the grammar.
            SchemaError: the card is outside its limits.
        """
        parse_agent_name(card.name)
        for _ in range(_TRIES):
            entry = await self._backend.agents.get(card.name)
            held = None if entry is None else self._decode(entry, AgentRecord)
            if entry is None or held is None:
                raise await self.unknown(card.name)
            record = msgspec.structs.replace(held, card=card)
            try:
                await self._backend.agents.put(
                    card.name, encode_entry(record), revision=entry.revision
                )
            except GuardFailedError:
                continue
            return record
        raise AgentNameTakenError(card.name, "several that update it at once", "", 0)

    async def deregister(self, name: str) -> None:
        """Take an agent out of the registry. Idempotent. Its events and its inbox stay."""
        await self._backend.agents.delete(parse_agent_name(name))
        self._known.pop(name, None)

    async def get(self, name: str) -> AgentRecord | None:
        """Return the record of one agent."""
        entry = await self._backend.agents.get(parse_agent_name(name))
        return None if entry is None else self._decode(entry, AgentRecord)

    async def list(self) -> Sequence[AgentRecord]:
        """Return every registered agent by name."""
        # Other keys, those of the limits, have a dot in them.
        entries = [one for one in await self._backend.agents.entries() if "." not in one.key]
        records = [
            record for entry in entries if (record := self._decode(entry, AgentRecord)) is not None
        ]
        return sorted(records, key=lambda record: record.card.name)

    async def agents(self) -> Sequence[LivingAgent]:
        """Return every registered agent with the heartbeats of its instances."""
        beats: dict[str, list[Presence]] = {}
        for beat in await self.presence():
            beats.setdefault(beat.agent, []).append(beat)
        return [
            LivingAgent(
                record,
                tuple(
                    beat for beat in beats.get(record.card.name, []) if beat.holder == record.holder
                ),
            )
            for record in await self.list()
        ]

    async def living(self) -> Sequence[LivingAgent]:
        """Return the agents that have a living instance."""
        return [agent for agent in await self.agents() if agent.is_living]

    async def presence(self, name: str = "") -> Sequence[Presence]:
        """Return the heartbeats of one agent, or of all."""
        entries = await self._backend.presence.entries(f"{parse_agent_name(name)}." if name else "")
        return [beat for entry in entries if (beat := self._decode(entry, Presence)) is not None]

    def _decode(self, entry: KeyEntry, kind: type[_EntryT]) -> _EntryT | None:
        try:
            return decode_entry(entry.value, kind)
        except SchemaError as error:
            self._unreadable.warning(key=entry.key, reason=str(error))
            return None

    async def rivals(self, name: str, holder: str) -> Sequence[Presence]:
        """Return the heartbeats of instances that run under *name* and not for *holder*."""
        beats = await self.presence(name)
        return [beat for beat in beats if beat.holder != holder and _may_live(beat)]

    async def beat(self, presence: Presence) -> None:
        """Record a heartbeat; it counts for ``presence_ttl``.

        Raises:
            InvalidNameError: the agent or the instance is outside the grammar of names.
            SchemaError: the heartbeat is outside its limits.
        """
        key = _presence_key(presence.agent, presence.instance)
        await self._backend.presence.put(key, encode_entry(presence), ttl=self._ttl)

    async def leave(self, name: str, instance: str) -> None:
        """Take a heartbeat away at once, when an instance stops in order. Idempotent.

        Raises:
            InvalidNameError: the agent or the instance is outside the grammar of names.
        """
        await self._backend.presence.delete(_presence_key(name, instance))

    async def check_known(self, names: Sequence[str]) -> None:
        """Check that each name is registered; what was found a moment ago is not looked up again.

        Raises:
            UnknownAgentError: one is not; has the nearest names.
        """
        now = time.monotonic()
        for name in names:
            if self._known.get(name, 0.0) > now:
                continue
            if await self._backend.agents.get(parse_agent_name(name)) is None:
                raise await self.unknown(name)
            self._known[name] = now + _KNOWN_FOR_S

    async def unknown(self, name: str) -> UnknownAgentError:
        """Return the error for a name that nobody registered, with the nearest ones."""
        records = await self.list()
        return UnknownAgentError(name, nearest_names(name, [r.card.name for r in records]))

    @asynccontextmanager
    async def watching(self, name: str, handler: Callable[[], None]) -> AsyncGenerator[None]:
        """Call *handler* whenever the record of *name* may have changed, or once too often."""
        async with self._backend.agents.watch(parse_agent_name(name), handler):
            yield


def _presence_key(name: str, instance: str) -> str:
    canonical = canonical_agent_name(instance)
    if canonical != instance:
        raise InvalidNameError("instance name", instance, canonical)
    return f"{parse_agent_name(name)}.{instance}"


def _may_live(beat: Presence) -> bool:
    """Whether a heartbeat is not known to be that of a dead process of this machine.

    Without this, an agent that was killed could not be started again before its time to live is up.
    """
    if beat.host != socket.gethostname() or beat.pid <= 0:
        return True
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
