"""How much each agent may say: what the registry has on record, and what counts where.

The limits of an agent are under a key of the registry that no agent may write: only an operator
sets them, and the record keeps who did, when, why, and what was in force before. What an agent's
own record leaves open is as the record for all says, and otherwise as the settings say.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Final, NamedTuple

from threadbus.bus._logging import ThinnedLog
from threadbus.bus._logging import log as _log
from threadbus.bus.errors import BusError, ConflictError, InvalidTransitionError
from threadbus.bus.ports import Backend, GuardFailedError, MessageHandler
from threadbus.bus.settings import BusSettings
from threadbus.schemas import (
    LOG_SUBJECTS,
    MAX_REPLACED,
    AgentName,
    LimitRecord,
    LimitSet,
    SchemaError,
    decode_entry,
    encode_entry,
    parse_agent_name,
)

EVERYBODY: Final = "*"
"""Whose limits those are that have none of their own."""

LIMITS_PREFIX: Final = "limits."
"""Keys of the registry that begin so are no agents: an agent's key has no dot."""

_EVERYBODY_KEY: Final = f"{LIMITS_PREFIX}_"
_LOOK_EVERY_S: Final = 2.0
_LOOK_S: Final = 1.0
_USES: Final = 32
_MOST_KEPT: Final = 4096
_TRIES: Final = 8


class Limit(StrEnum):
    """The limits, by the name that the settings and the records have for each."""

    EVENTS_PER_SECOND = "events_per_second"
    BURST = "burst"
    MENTIONS_PER_MINUTE = "mentions_per_minute"
    EXCHANGE = "exchange"


class Rule(NamedTuple):
    """One limit as it counts for one agent."""

    limit: Limit
    value: int
    """0: there is none."""
    set_by: str = ""
    """Who set it; empty where it comes from the settings."""
    set_at: int = 0
    reason: str = ""


class AppliedLimits(NamedTuple):
    """All limits as they count for one agent."""

    events_per_second: Rule
    burst: Rule
    mentions_per_minute: Rule
    exchange: Rule


class _Known:
    """The limits of one name, and when they are to be looked at again."""

    __slots__ = ("applied", "until", "uses")

    def __init__(self, applied: AppliedLimits) -> None:
        self.applied = applied
        self.until = 0.0
        """By the monotonic clock."""
        self.uses = _USES
        """Since they were looked at; at first a look is due."""


class LimitBook:
    """The limits on record, looked at again now and then; one for each connection.

    A look is due at the first use, and then after so many, if the last was more than a few seconds
    ago: who says little does not wait for it each time.
    """

    def __init__(self, backend: Backend, settings: BusSettings) -> None:
        self._backend = backend
        self._unreadable = ThinnedLog("unreadable limits, skipped")
        self._defaults = AppliedLimits(
            *(Rule(limit, getattr(settings, limit.value)) for limit in Limit)
        )
        self._for_all = self._defaults
        """What counts for everybody who has no limits of its own, as last looked at."""
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def _entry(self, name: str) -> _Known:
        entry = self._known.get(name)
        if entry is None:
            entry = self._known[name] = _Known(self._for_all)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return entry

    def known(self, name: str) -> AppliedLimits:
        """Return the limits of *name* as they were when last looked at."""
        return self._entry(name).applied

    def recent(self, name: str) -> AppliedLimits | None:
        """Count a use; return the limits of *name*, None where they are to be looked at first."""
        entry = self._known.get(name) or self._entry(name)
        entry.uses += 1
        if entry.uses >= _USES:
            if time.monotonic() >= entry.until:
                return None
            # Not yet: the clock is looked at again after as many.
            entry.uses = 0
        return entry.applied

    async def look(self, name: AgentName) -> AppliedLimits:
        """Return the limits of *name*, from memory where they were looked at a moment ago.

        Where the registry cannot be read, what was known stays in force.
        """
        entry = self._entry(name)
        if time.monotonic() < entry.until:
            return entry.applied
        # Before the read: others go by what is known meanwhile.
        entry.until, entry.uses = time.monotonic() + _LOOK_EVERY_S, 0
        try:
            async with asyncio.timeout(_LOOK_S):
                own, common = await self.get(name), await self.get(EVERYBODY)
        except (BusError, SchemaError, TimeoutError) as error:
            _log.warning("cannot look at the limits", agent=name, reason=str(error))
            return entry.applied
        self._for_all = self._applied(common)
        entry.applied = self._applied(own, common)
        return entry.applied

    async def learn(self) -> None:
        """Look at all limits on record, so that they are known when the registry does not answer.

        Raises:
            ReadError: the registry cannot be read.

        Cancellation: safe.
        """
        records = await self.all()
        common = records.get(EVERYBODY)
        self._for_all = self._applied(common)
        for name, record in records.items():
            self._entry(name).applied = self._applied(record, common)

    def _applied(self, *records: LimitRecord | None) -> AppliedLimits:
        sets = [record.limits for record in records if record is not None]
        return AppliedLimits(*(_rule(default, sets) for default in self._defaults))

    def forget(self) -> None:
        """Look again at the next occasion."""
        for entry in self._known.values():
            entry.until, entry.uses = 0.0, _USES

    async def get(self, name: str) -> LimitRecord | None:
        """Return what is on record for *name*; ``*`` is everybody."""
        entry = await self._backend.agents.get(_key(name))
        return None if entry is None else decode_entry(entry.value, LimitRecord)

    async def put(self, name: str, limits: LimitSet) -> LimitRecord:
        """Set the limits of *name*; what was in force is kept in the record."""
        for _ in range(_TRIES):
            entry = await self._backend.agents.get(_key(name))
            replaced: tuple[LimitSet, ...] = ()
            if entry is not None:
                before = decode_entry(entry.value, LimitRecord)
                replaced = (before.limits, *before.replaced)[:MAX_REPLACED]
            record = LimitRecord(limits=limits, replaced=replaced)
            try:
                await self._backend.agents.put(
                    _key(name),
                    encode_entry(record),
                    revision=0 if entry is None else entry.revision,
                )
            except GuardFailedError:
                continue
            self.forget()
            return record
        raise ConflictError(_key(name), _TRIES, 0)

    def hearing(self, handler: MessageHandler) -> AbstractAsyncContextManager[None]:
        """Call *handler* with each message of the log once it is stored; some may be missed."""
        return self._backend.log.tail(LOG_SUBJECTS, handler, _nothing)

    async def all(self) -> Mapping[str, LimitRecord]:
        """Return every record by the name that it is for."""
        found: dict[str, LimitRecord] = {}
        for entry in await self._backend.agents.entries(LIMITS_PREFIX):
            name = entry.key.removeprefix(LIMITS_PREFIX)
            try:
                record = decode_entry(entry.value, LimitRecord)
            except SchemaError as error:
                self._unreadable.warning(key=entry.key, reason=str(error))
                continue
            found[EVERYBODY if entry.key == _EVERYBODY_KEY else name] = record
        return dict(sorted(found.items()))


class Limits:
    """The limits of agents, as one name on the bus sees and sets them."""

    def __init__(self, book: LimitBook, name: AgentName) -> None:
        self._book = book
        self._name = name

    async def of(self, name: str) -> AppliedLimits:
        """Return what counts for an agent: its own limits, those of everybody, the settings.

        Raises:
            InvalidNameError: the name is outside the grammar.

        Cancellation: safe.
        """
        return await self._book.look(parse_agent_name(name))

    def hearing(self, handler: MessageHandler) -> AbstractAsyncContextManager[None]:
        """Call *handler* with each message of the log once it is stored; some may be missed."""
        return self._book.hearing(handler)

    async def learn(self) -> None:
        """Look at all limits on record, for whoever must know them when the registry is slow.

        Raises:
            ReadError: the registry cannot be read.

        Cancellation: safe.
        """
        await self._book.learn()

    def recent(self, name: AgentName) -> AppliedLimits | None:
        """Return the same for one more of many uses; None now and then, when a look is due."""
        return self._book.recent(name)

    async def on_record(self) -> Mapping[str, LimitRecord]:
        """Return who has limits on record; ``*`` stands for everybody else.

        Raises:
            ReadError: the registry cannot be read.
        """
        return await self._book.all()

    async def set(
        self,
        name: str,
        *,
        events_per_second: int | None = None,
        burst: int | None = None,
        mentions_per_minute: int | None = None,
        exchange: int | None = None,
        reason: str = "",
    ) -> LimitRecord:
        """Set the limits of an agent, or of everybody who has none; clients see it in seconds.

        Args:
            name: whose; ``*`` is everybody.
            events_per_second: events that it may append, on average.
            burst: events that it may append at once after a quiet time.
            mentions_per_minute: mentions by it in one super-task that another one answers.
            exchange: messages between it and another one before anything else has to come of it.
            reason: why.

        What is not given is left to everybody's limits and to the settings.

        Raises:
            InvalidTransitionError: nothing is given.
            SchemaError: a limit is below 1, or the name outside the grammar.
            PermissionDeniedError: only operators set limits.

        Cancellation: they may or may not be set.
        """
        given = {
            "events_per_second": events_per_second,
            "burst": burst,
            "mentions_per_minute": mentions_per_minute,
            "exchange": exchange,
        }
        if all(value is None for value in given.values()):
            raise InvalidTransitionError(
                "setting no limit", "nothing was given", [limit.value for limit in Limit]
            )
        return await self._book.put(
            name, LimitSet(**given, set_by=self._name, set_at=time.time_ns(), reason=reason)
        )

    async def clear(self, name: str, *, reason: str = "") -> LimitRecord:
        """Leave an agent to everybody's limits again; who did so and what was before stays.

        Raises:
            PermissionDeniedError: only operators set limits.
        """
        return await self._book.put(
            name, LimitSet(set_by=self._name, set_at=time.time_ns(), reason=reason)
        )


def _nothing() -> None:
    """What was missed while there was no connection was not said to this server either."""


def _key(name: str) -> str:
    return _EVERYBODY_KEY if name == EVERYBODY else LIMITS_PREFIX + parse_agent_name(name)


def _rule(default: Rule, sets: list[LimitSet]) -> Rule:
    for limits in sets:
        value: int | None = getattr(limits, default.limit.value)
        if value is not None:
            return Rule(default.limit, value, limits.set_by, limits.set_at, limits.reason)
    return default
