"""Push notifications: where the updates of a task are sent, and the sending.

A configuration is a super-task of its own, opened by the client and put to the agent
:data:`PUSHER`, which every gateway runs a replica of. So it is in the log, survives everybody, is
delivered by the durable inbox and leased while it is worked on: a gateway that dies gives it back,
and another one goes on after the last update whose delivery is on record. A delivery that fails is
tried again with growing pauses, outside of every request. What is secret in it is sealed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

import httpx
from a2a.compat.v0_3.conversions import to_compat_task
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf import json_format

from threadbus.agents import Agent, AgentLimits, GiveUpError, Mention
from threadbus.bus import Bus, SteadyLog, ThreadClosedError
from threadbus.gateways.a2a.callers import Caller
from threadbus.gateways.a2a.exact import unmark_numbers
from threadbus.gateways.a2a.ids import PUSH_AT, PUSH_ID, PUSH_TASK, event_of, push_of
from threadbus.gateways.a2a.index import Row, TaskIndex
from threadbus.gateways.a2a.log import TaskLog
from threadbus.gateways.a2a.sealing import Seal
from threadbus.gateways.a2a.view import Position, TaskView, parse_position
from threadbus.gateways.errors import AddressRefusedError, AddressUnknownError, SealError
from threadbus.gateways.text import escape_line_ends
from threadbus.gateways.web.ssrf import Screen, Target, post_pinned
from threadbus.schemas import (
    MAX_WORD_CHARS,
    AgentName,
    DataPart,
    MessagePosted,
    Parts,
    Recorded,
    TaskId,
    TaskOpened,
    TextPart,
    clean_text,
    derive_event_id,
    new_event_id,
)

PUSHER: Final = AgentName("a2a-push")
MAX_CONFIGS: Final = 16
"""Configurations of one task of one client."""
MAX_TIMES: Final = 64
"""How often one configuration of a task may be set anew."""
MAX_SECRET_CHARS: Final = 4096

_ATTEMPTS: Final = 12
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0
_SEND_S: Final = 15.0
_GONE: Final = 410
_log: Final = SteadyLog("threadbus.gateways.a2a")


class PushConfigs:
    """The configurations of clients."""

    def __init__(
        self,
        bus: Bus,
        index: TaskIndex,
        seal: Seal,
        screen: Screen,
        bus_of: Callable[[Caller], Bus],
    ) -> None:
        self._bus = bus
        self._index = index
        self._seal = seal
        self._screen = screen
        self._bus_of = bus_of

    async def check(self, config: pb.TaskPushNotificationConfig) -> None:
        """Check a configuration before anything is done for it.

        Raises:
            AddressRefusedError: nothing may be sent to its address.
            InvalidParamsError: a field is too long or cannot be sent as a header.
        """
        # A name that is not known now may be later; it is looked up again for each update.
        with suppress(AddressUnknownError):
            await self._screen.check(config.url)
        if len(config.id) > MAX_WORD_CHARS or clean_text(config.id) != config.id:
            raise InvalidParamsError(
                f"A configuration's id has at most {MAX_WORD_CHARS} characters."
            )
        secret = (config.token, config.authentication.scheme, config.authentication.credentials)
        if not all(len(text) <= MAX_SECRET_CHARS and _fits_header(text) for text in secret):
            raise InvalidParamsError(
                f"Token and credentials are printable ASCII, at most {MAX_SECRET_CHARS} characters."
            )

    async def create(
        self, caller: Caller, view: TaskView, config: pb.TaskPushNotificationConfig, after: int
    ) -> pb.TaskPushNotificationConfig:
        """Have the updates after a sequence of the log sent, or change where they are sent."""
        await self.check(config)
        task = view.bus.task
        kept = pb.TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.task_id, kept.id = task, config.id or new_event_id()
        rows = await self._rows(caller, task)
        if kept.id not in rows and len(rows) >= MAX_CONFIGS:
            raise InvalidParamsError(f"A task has at most {MAX_CONFIGS} push configurations.")
        sealed = self._seal.seal(json_format.MessageToDict(kept), task)
        content = DataPart({"sealed": sealed, "after": after, "old": caller.is_old})
        bus = self._bus_of(caller)
        if kept.id in rows:
            if await self._read(rows[kept.id], task) == kept:
                # As it is, it goes on from the last delivery.
                return kept
            await self._end(bus, rows[kept.id])
        for nth in range(MAX_TIMES):
            holder = push_of(task, caller.agent, kept.id, nth)
            if await self._is_taken(bus, holder):
                continue
            await bus.tasks.open(
                content,
                to=[PUSHER],
                title=f"push updates of {task}",
                labels={PUSH_TASK: task, PUSH_ID: kept.id},
                task=holder,
                event_id=event_of(caller.agent, holder, "push"),
            )
            return kept
        raise InvalidParamsError(f"One configuration is set at most {MAX_TIMES} times.")

    async def _is_taken(self, bus: Bus, holder: TaskId) -> bool:
        async with aclosing(bus.read(holder)) as entries:
            async for _ in entries:
                return True
        return False

    async def _end(self, bus: Bus, row: Row) -> None:
        try:
            await bus.tasks.cancel(row.task, "set anew or taken away")
        except ThreadClosedError:
            return

    async def _rows(self, caller: Caller, task: TaskId) -> dict[str, Row]:
        return {
            row.labels[PUSH_ID]: row
            for row in await self._index.rows(caller.agent)
            if row.labels.get(PUSH_TASK) == task
            and row.opener == caller.agent
            and not row.ended_at
            and PUSH_ID in row.labels
        }

    async def all(self, caller: Caller, task: TaskId) -> list[pb.TaskPushNotificationConfig]:
        """Return the caller's configurations of a task, by id."""
        rows = await self._rows(caller, task)
        found = [await self._read(row, task) for _, row in sorted(rows.items())]
        return [config for config in found if config is not None]

    async def get(self, caller: Caller, task: TaskId, config: str) -> pb.TaskPushNotificationConfig:
        """Return one configuration.

        Raises:
            TaskNotFoundError: there is none.
        """
        row = (await self._rows(caller, task)).get(config)
        found = None if row is None else await self._read(row, task)
        if found is None:
            raise TaskNotFoundError("There is no such push configuration.")
        return found

    async def delete(self, caller: Caller, task: TaskId, config: str) -> None:
        """Stop sending. Idempotent."""
        row = (await self._rows(caller, task)).get(config)
        if row is not None:
            await self._end(self._bus_of(caller), row)

    async def _read(self, row: Row, task: TaskId) -> pb.TaskPushNotificationConfig | None:
        async with aclosing(self._bus.read(row.task)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded) and isinstance(entry.event.data, TaskOpened):
                    return opened(entry.event.data.parts, task, self._seal).config
        return None


class Opened(NamedTuple):
    """A configuration as it was set."""

    config: pb.TaskPushNotificationConfig
    after: int
    """The sequence after which updates are sent."""
    is_old: bool
    """Whether they have the form of 0.3: the whole task each time."""


def opened(parts: Parts, task: str, seal: Seal) -> Opened:
    """Return a configuration.

    Raises:
        SealError: it was not sealed by a gateway with this key.
    """
    data: Any = parts[0].data if parts and isinstance(parts[0], DataPart) else None
    try:
        sealed, after, is_old = str(data["sealed"]), int(data["after"]), bool(data.get("old"))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise SealError("", "there is nothing sealed") from None
    config = pb.TaskPushNotificationConfig()
    json_format.ParseDict(seal.open(sealed, task), config)
    return Opened(config, after, is_old)


def pusher(log: TaskLog, seal: Seal, screen: Screen, http: httpx.AsyncClient) -> Agent:
    """Return the agent that sends; run it in every gateway, as a replica of one holder."""
    agent = Agent(
        PUSHER,
        description="Sends the updates of tasks to where A2A clients want them.",
        limits=AgentLimits(concurrency=1000, turn_timeout=timedelta(days=30)),
    )

    @agent.on_mention
    async def deliver(mention: Mention) -> None:
        data = mention.event.data
        if not isinstance(data, TaskOpened):
            raise GiveUpError("only a gateway's own configurations are taken")
        task = data.labels.get(PUSH_TASK, "")
        try:
            wanted = opened(data.parts, task, seal)
        except SealError as error:
            raise GiveUpError("it was not sealed by this gateway") from error
        done = await _delivered(mention)

        async def post(body: bytes) -> None:
            await _post_until_taken(screen, http, wanted, body)

        # No reply: the configuration stays, to be read, until it is taken away.
        await _deliver_all(mention, log, TaskId(task), wanted, done, post)

    return agent


async def _delivered(mention: Mention) -> Position:
    """Return the last update whose delivery is on record."""
    done = Position(0, 0)
    for recorded in await mention.history():
        data = recorded.event.data
        if isinstance(data, MessagePosted) and recorded.event.sender == mention.agent:
            done = max(done, parse_position(data.labels.get(PUSH_AT, "")) or done)
    return done


async def _deliver_all(
    mention: Mention,
    log: TaskLog,
    task: TaskId,
    wanted: Opened,
    done: Position,
    post: Callable[[bytes], Awaitable[None]],
) -> None:
    view = log.begin(task)
    after = wanted.after
    is_first = after == 0

    async def send(position: Position, event: Any) -> None:
        if wanted.is_old:
            old = to_compat_task(view.task()).model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            body = json.dumps(old)
        else:
            body = json_format.MessageToJson(to_stream_response(event), indent=None)
        await post(unmark_numbers(escape_line_ends(body).encode()))
        await mention.append(
            MessagePosted(
                parts=(TextPart(f"delivered {position}"),), labels={PUSH_AT: str(position)}
            ),
            event_id=derive_event_id(mention.event.id, mention.agent, f"push:{position}"),
        )

    async with mention.bus.waits.following(task) as entries:
        if is_first:
            async for entry in entries:
                if isinstance(entry, Recorded):
                    await log.fold(view, entry)
                    place = Position(entry.seq, 0)
                    if place > done:
                        await send(place, view.task())
                    break
        viewer = mention.sender
        async with aclosing(log.updates_from(entries, view, viewer)) as updates:
            async for position, update in updates:
                if position.seq > after and position > done:
                    await send(position, update)
    if view.exists and not view.shows(viewer):
        raise GiveUpError("who wanted them takes part in the task no more")
    if not view.is_terminal:
        # The gateway stops; another one goes on.
        await asyncio.Event().wait()


async def _post_until_taken(
    screen: Screen, http: httpx.AsyncClient, wanted: Opened, body: bytes
) -> None:
    """Post until the receiver takes it.

    Raises:
        GiveUpError: it did not in all attempts, is gone, or nothing may be sent there any more.
    """
    config = wanted.config
    version = "0.3" if wanted.is_old else "1.0"
    headers = {"Content-Type": "application/json", "A2A-Version": version}
    if config.token:
        headers["X-A2A-Notification-Token"] = config.token
    if config.authentication.scheme:
        said = f"{config.authentication.scheme} {config.authentication.credentials}"
        headers["Authorization"] = said.strip()
    pause = _FIRST_PAUSE_S
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            target: Target = await screen.check(config.url)
            async with asyncio.timeout(_SEND_S):
                status = await post_pinned(http, target, body, headers)
        except AddressUnknownError:
            reason = "its host is not known"
        except AddressRefusedError as error:
            raise GiveUpError("nothing may be sent to the address any more") from error
        except (httpx.HTTPError, TimeoutError) as error:
            reason = type(error).__name__
        else:
            if 200 <= status < 300:
                return
            if status == _GONE:
                raise GiveUpError("the receiver is gone")
            reason = f"status {status}"
        _log.info("a push was not taken", attempt=attempt, reason=reason)
        if attempt < _ATTEMPTS:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause = min(pause * 2, _LONGEST_PAUSE_S)
    raise GiveUpError(f"the receiver took nothing in {_ATTEMPTS} attempts")


def _fits_header(text: str) -> bool:
    return text.isascii() and (not text or text.isprintable())
