"""The protocol's operations over the log.

The SDK's own handler runs an executor in the process that took the request and keeps what it does
in a store. Here the work is done by agents elsewhere, and the state is a fold of the log: nothing
is saved, so its seam for stores (a versioned ``save``) has no place to be used. This handler
implements the SDK's interface instead, and its dispatchers for both bindings and for 0.3 are used
as they are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Final

import msgspec
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields

from threadbus.bus import Bus, ThreadClosedError
from threadbus.gateways.a2a.callers import Agents, Caller, caller_of
from threadbus.gateways.a2a.cards import CardSettings, agent_card, bus_card
from threadbus.gateways.a2a.failures import told
from threadbus.gateways.a2a.ids import event_of
from threadbus.gateways.a2a.index import TaskIndex
from threadbus.gateways.a2a.listing import Listing
from threadbus.gateways.a2a.log import TaskLog, stands, trimmed
from threadbus.gateways.a2a.parts import PLAIN_MESSAGE
from threadbus.gateways.a2a.push import PushConfigs
from threadbus.gateways.a2a.sealing import Seal
from threadbus.gateways.a2a.sending import Sending, check_modes
from threadbus.gateways.a2a.view import Position, TaskView, Update, parse_position
from threadbus.gateways.web.ssrf import Screen
from threadbus.schemas import AgentName, Recorded

DEFAULT_WAIT: Final = timedelta(minutes=10)
"""How long a request that is not streamed waits for the end of its task."""

_HOLD_S: Final = 10.0
LAST_EVENT: Final = "last-event-id"
"""The header by which a client says up to which update it has seen a task."""


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one gateway answers."""

    cards: CardSettings
    team: tuple[AgentName, ...] = ()
    """Who takes a message to the whole bus: the first is asked, the others may speak."""
    wait: timedelta = DEFAULT_WAIT


class Handler(RequestHandler):
    """Every operation, for every card of the gateway; the call says which card it is."""

    def __init__(
        self,
        bus: Bus,
        log: TaskLog,
        agents: Agents,
        settings: HandlerSettings,
        push: tuple[Seal, Screen] | None = None,
    ) -> None:
        """Prepare to answer.

        Args:
            bus: where everything is.
            log: the bus as A2A tasks.
            agents: who there is.
            settings: how to answer.
            push: how configurations of push notifications are sealed and screened; None where
                there are none.
        """
        index = TaskIndex(bus, log)
        self._bus = bus
        self._log = log
        self._agents = agents
        self._settings = settings
        self._sending = Sending(bus, log, index, agents, settings.team)
        self._listing = Listing(log, index)
        self._push = None if push is None else PushConfigs(bus, index, *push, self._sending.bus_of)

    # messages

    async def on_message_send(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> pb.Task | pb.Message:
        """Deliver a message; return the task once it ended, or it is the client's turn."""
        with told():
            caller = await self._checked(params, context)
            config = params.configuration
            wait_s = self._settings.wait.total_seconds()
            async with aclosing(
                self._sending.converse(caller, params.message, timeout_s=wait_s)
            ) as steps:
                view: TaskView | None = None
                async for view, update in steps:
                    if update is None:
                        await self._also_push(caller, params, view)
                    if config.return_immediately or stands(view, ends_interrupted=True):
                        break
            if view is None:
                raise TaskNotFoundError
            return view.plain_message or trimmed(view.task(), _history_length(config))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Deliver a message; give the task, then its updates until it ends or needs the client.

        Where the agent says that it may answer by a plain message, the beginning is held back until
        it is known that it does not, for a few seconds at most.
        """
        with told():
            caller = await self._checked(params, context)
            length = _history_length(params.configuration)
            hold_s = await self._hold_s(caller, params.message)
            held: list[Event] | None = None if hold_s is None else []
            converse = self._sending.converse(caller, params.message, timeout_s=hold_s)
            view: TaskView | None = None
            async with aclosing(converse) as steps:
                async for view, update in steps:
                    if update is None:
                        await self._also_push(caller, params, view)
                    event: Event
                    event = trimmed(view.task(), length) if update is None else update[1]
                    if held is None:
                        yield event
                    elif view.plain_message is not None:
                        yield view.plain_message
                        return
                    else:
                        held.append(event)
                        if view.may_be_plain:
                            continue
                        for event in held:
                            yield event
                        held = None
                    if stands(view, ends_interrupted=True) and _is_last(update):
                        return
            if hold_s is None or view is None:
                return
            # Nobody waits longer for a beginning.
            for event in held or ():
                yield event
            async with aclosing(self._log.updates(view, caller.agent)) as updates:
                async for update in updates:
                    yield update[1]
                    if stands(view, ends_interrupted=True) and _is_last(update):
                        return

    async def _hold_s(self, caller: Caller, message: pb.Message) -> float | None:
        """Return for how long a stream may wait whether it is one message; None where it is not."""
        if message.task_id:
            return None
        team = await self._agents.team(caller.card, self._settings.team)
        agent = await self._agents.find(team.asked[0])
        says_so = agent is not None and PLAIN_MESSAGE in agent.record.card.output_modes
        return _HOLD_S if says_so else None

    async def _checked(self, params: pb.SendMessageRequest, context: ServerCallContext) -> Caller:
        validate_proto_required_fields(params)
        _history_length(params.configuration)
        caller = caller_of(context)
        check_modes(params.message, await self._card(caller))
        if params.configuration.HasField("task_push_notification_config"):
            # Before the message does anything.
            await self._configs.check(params.configuration.task_push_notification_config)
        return caller

    async def _also_push(
        self, caller: Caller, params: pb.SendMessageRequest, view: TaskView
    ) -> None:
        if params.configuration.HasField("task_push_notification_config"):
            config = pb.TaskPushNotificationConfig()
            config.CopyFrom(params.configuration.task_push_notification_config)
            # The same message again configures nothing again.
            config.id = config.id or event_of(caller.agent, params.message.message_id, "push")
            # Of a new task everything, of one that goes on what is to come.
            after = view.bus.last_seq if params.message.task_id else 0
            await self._configs.create(caller, view, config, after)

    # tasks

    async def on_get_task(
        self, params: pb.GetTaskRequest, context: ServerCallContext
    ) -> pb.Task | None:
        """Return a task as the log has it now."""
        with told():
            validate_proto_required_fields(params)
            length = _history_length(params)
            view = await self._sending.visible(caller_of(context), params.id)
            return trimmed(view.task(), length)

    async def on_list_tasks(
        self, params: pb.ListTasksRequest, context: ServerCallContext
    ) -> pb.ListTasksResponse:
        """Return a page of the caller's tasks."""
        with told():
            _history_length(params)
            return await self._listing.page(caller_of(context), params)

    async def on_cancel_task(
        self, params: pb.CancelTaskRequest, context: ServerCallContext
    ) -> pb.Task | None:
        """End a task; the agents that work on it stop."""
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.id)
            if view.is_terminal:
                raise TaskNotCancelableError
            try:
                await self._sending.bus_of(caller).tasks.cancel(view.bus.task)
            except ThreadClosedError as error:
                raise TaskNotCancelableError from error
            return (await self._sending.visible(caller, params.id)).task()

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Give the task, then its updates until it ends.

        A client that sends ``Last-Event-ID`` with the position of the last update it has seen gets
        the task as it was then, and every later update, also of a task that has ended meanwhile.
        """
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.id)
            seen = _seen(context)
            if seen is None:
                if view.is_terminal:
                    raise UnsupportedOperationError("The task has ended.")
                yield view.task()
            else:
                async with aclosing(self._since(view, seen)) as missed:
                    async for event, now in missed:
                        view = now
                        yield event
            async with aclosing(self._log.updates(view, caller.agent)) as updates:
                async for _, update in updates:
                    yield update

    async def _since(self, now: TaskView, seen: Position) -> AsyncGenerator[tuple[Event, TaskView]]:
        """Give a task as it was at a position, then what came until now."""
        view = self._log.begin(now.bus.task)
        is_given = False
        async with aclosing(self._bus.read(now.bus.task)) as entries:
            async for entry in entries:
                if not isinstance(entry, Recorded):
                    continue
                if not is_given and entry.seq > seen.seq:
                    is_given = True
                    yield view.task(), view
                for position, update in await self._log.fold(view, entry):
                    if position > seen:
                        if not is_given:
                            is_given = True
                            yield view.task(), view
                        yield update, view
        if not is_given:
            yield view.task(), view

    # cards

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        """Return the card with what only those see who have a token."""
        with told():
            caller = caller_of(context)
            if not self._settings.cards.secured or not caller.is_authenticated:
                raise ExtendedAgentCardNotConfiguredError
            return await self._card(caller, extended=True)

    async def _card(self, caller: Caller, *, extended: bool = False) -> pb.AgentCard:
        cards = self._settings.cards
        if not caller.card:
            return bus_card(await self._agents.living(), cards, extended=extended)
        agent = await self._agents.find(caller.card)
        if agent is None:
            raise UnsupportedOperationError(f"There is no agent {caller.card} any more.")
        return agent_card(agent, cards, extended=extended)

    # push notifications

    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """Have the updates of a task sent to an address, from now on."""
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.task_id)
            return await self._configs.create(caller, view, params, view.bus.last_seq)

    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """Return where the updates of a task are sent."""
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.task_id)
            return await self._configs.get(caller, view.bus.task, params.id)

    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """Return everywhere the updates of a task are sent."""
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.task_id)
            found = await self._configs.all(caller, view.bus.task)
            return pb.ListTaskPushNotificationConfigsResponse(configs=found)

    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Stop sending the updates of a task to an address."""
        with told():
            validate_proto_required_fields(params)
            caller = caller_of(context)
            view = await self._sending.visible(caller, params.task_id)
            await self._configs.delete(caller, view.bus.task, params.id)

    @property
    def _configs(self) -> PushConfigs:
        if self._push is None:
            raise PushNotificationNotSupportedError
        return self._push


def _history_length(
    config: pb.SendMessageConfiguration | pb.GetTaskRequest | pb.ListTasksRequest,
) -> int | None:
    if not config.HasField("history_length"):
        return None
    if config.history_length < 0:
        raise InvalidParamsError("historyLength has to be 0 or more.")
    return config.history_length


def _is_last(update: tuple[Position, Update] | None) -> bool:
    """Whether it is what ended the wait: an answer's artifact comes with the end, before it."""
    return update is None or isinstance(update[1], pb.TaskStatusUpdateEvent)


def _seen(context: ServerCallContext) -> Position | None:
    headers: Mapping[str, str] = context.state.get("headers", {})
    return parse_position(headers.get(LAST_EVENT, ""))
