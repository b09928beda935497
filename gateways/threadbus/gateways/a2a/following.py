"""One task of a remote A2A agent, driven to its end: sent, followed, asked back, resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import httpx
from a2a.client import Client, ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)

from threadbus.bus import SteadyLog
from threadbus.gateways.a2a.exact import unmark_values
from threadbus.gateways.a2a.receiving import Bell
from threadbus.gateways.a2a.remote import (
    CONNECT_S,
    SILENCE_S,
    UNREADABLE,
    RemoteAgent,
    told,
)
from threadbus.gateways.a2a.view import INTERRUPTED, TERMINAL
from threadbus.gateways.errors import RemoteError
from threadbus.schemas import shorten

_STATES: Final = frozenset(pb.TaskState.values()) - {pb.TASK_STATE_UNSPECIFIED}
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 20.0
_TRIES: Final = 8
_LOOKS: Final = 4
"""How often a question that was just answered may still be seen before it counts as asked again."""
_LONGEST_QUIET_S: Final = 60.0
"""A task whose updates are pushed is looked at this often all the same: one may be lost."""
_BETWEEN_RINGS_S: Final = 0.05
_FAREWELL_S: Final = 2.0
_REFUSALS: Final = (
    PushNotificationNotSupportedError,
    InvalidParamsError,
    UnsupportedOperationError,
)
_log: Final = SteadyLog("threadbus.gateways.a2a")


class RemoteTask:
    """What is known of one task, and its updates."""

    def __init__(self, agent: RemoteAgent, bell: Bell | None = None, traceparent: str = "") -> None:
        """Prepare.

        Args:
            agent: whose task it is.
            bell: where its updates may be pushed to; without one they are streamed or asked for.
            traceparent: the trace in which a message is sent.
        """
        said = {"traceparent": traceparent} if traceparent else None
        self._context = ClientCallContext(service_parameters=said)
        self._agent = agent
        self._bell = bell if agent.pushes else None
        self._is_pushed = False
        self._quiet_s = _FIRST_PAUSE_S
        self._has_changed = False
        self.task = pb.Task()
        self.message: pb.Message | None = None
        """What the remote agent answered instead of a task."""

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return self.message is not None or self.task.status.state in TERMINAL

    @property
    def stands(self) -> bool:
        """Whether it ended, or waits for an answer."""
        return self.is_over or self.task.status.state in INTERRUPTED

    async def updates(self, message: pb.Message | None) -> AsyncGenerator[pb.StreamResponse]:
        """Send *message*, or take the task up again without one; give what comes until it stands.

        A connection that is lost is made again. Updates are pushed where that is possible, else
        streamed where the card offers streams, else asked for.

        Raises:
            RemoteError: the remote agent refuses, or is not to be reached in several tries.
        """
        tries, pause, looks, was_rung = 0, _FIRST_PAUSE_S, 0, False
        pending = message
        before = pb.TaskStatus()
        before.CopyFrom(self.task.status)
        self._quiet_s = _FIRST_PAUSE_S
        while True:
            try:
                async with aclosing(self._once(pending)) as responses:
                    async for response in responses:
                        pending, tries = None, 0
                        self._take(response)
                        if self._has_changed or self.stands:
                            pause = _FIRST_PAUSE_S
                        if not self.task.id and self.message is None:
                            raise RemoteError(self._agent.url, "its answer names no task")
                        yield response
                        # After an answer some begin with the task as it was: still the question.
                        if self.stands and self._is_news(before):
                            return
            except (A2AClientError, httpx.HTTPError, TimeoutError) as error:
                tries += 1
                _log.info("a remote agent was lost", url=self._agent.url, reason=told(error))
                if tries >= _TRIES:
                    raise RemoteError(self._agent.url, told(error)) from error
            except (A2AError, *UNREADABLE) as error:
                raise RemoteError(self._agent.url, told(error)) from error
            if self.stands:
                # A ring may tell of what was before the answer.
                looks += not was_rung
                if self._is_news(before) or looks > _LOOKS:
                    return
            if self._bell is not None and self._is_pushed and not tries:
                was_rung = await self._listen(self._bell, was_rung=was_rung)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _listen(self, bell: Bell, *, was_rung: bool) -> bool:
        """Wait until it is time to look: it rang, or was quiet for long."""
        if self._has_changed and not was_rung:
            # Found by looking: as long as pushes do not come, looks have to.
            self._quiet_s = _FIRST_PAUSE_S
        is_rung = await bell.wait(self._quiet_s)
        self._quiet_s = min(self._quiet_s * 2, _LONGEST_QUIET_S)
        if is_rung:
            # A burst of notifications is one look.
            await asyncio.sleep(_BETWEEN_RINGS_S)
        return is_rung

    def _is_news(self, before: pb.TaskStatus) -> bool:
        """Whether it stands elsewhere than before the answer was sent."""
        now = self.task.status
        if self.message is not None or now.state not in INTERRUPTED or now.state != before.state:
            return True
        said = now.message.message_id
        return bool(said) and said != before.message.message_id

    async def _once(self, message: pb.Message | None) -> AsyncGenerator[pb.StreamResponse]:
        if self._bell is not None and self.task.id and not self._is_pushed:
            await self._have_pushed(self._bell)
        client = self._client()
        if message is not None:
            async for response in self._send(client, message):
                yield response
            return
        if self._is_pushed or not self._agent.streams:
            yield await self._look(client)
            return
        try:
            subscribed = client.subscribe(pb.SubscribeToTaskRequest(id=self.task.id))
            async for response in self._bounded(subscribed):
                yield response
        except A2AClientError:
            raise
        except A2AError:
            # What has ended cannot be subscribed to: how it ended can be asked for.
            yield await self._look(client)

    def _client(self) -> Client:
        return self._agent.client if self._bell is None else self._agent.asking

    async def _look(self, client: Client) -> pb.StreamResponse:
        return pb.StreamResponse(task=await client.get_task(pb.GetTaskRequest(id=self.task.id)))

    async def _send(self, client: Client, message: pb.Message) -> AsyncGenerator[pb.StreamResponse]:
        request = pb.SendMessageRequest(message=message)
        if self._agent.is_grpc:
            unmark_values(request)
        is_asked = self._bell is not None and not self._is_pushed
        if is_asked and self._bell is not None:
            config = request.configuration.task_push_notification_config
            config.CopyFrom(_config(self._bell))
        try:
            async for response in self._bounded(
                client.send_message(request, context=self._context)
            ):
                self._is_pushed = self._is_pushed or is_asked
                yield response
        except _REFUSALS as error:
            if not is_asked or self._is_pushed:
                raise
            # Nothing was done: the same message again, without the push.
            self._go_without_push(error)
            request.configuration.ClearField("task_push_notification_config")
            again = self._client().send_message(request, context=self._context)
            async for response in self._bounded(again):
                yield response

    async def _have_pushed(self, bell: Bell) -> None:
        """Have the updates of a task pushed that was begun before."""
        config = _config(bell)
        config.task_id = self.task.id
        try:
            await self._agent.asking.create_task_push_notification_config(config)
        except (A2AError, httpx.HTTPError, *UNREADABLE) as error:
            self._go_without_push(error)
        else:
            self._is_pushed = True

    def _go_without_push(self, error: BaseException) -> None:
        _log.info("updates are not pushed", url=self._agent.url, reason=told(error))
        self._bell = None

    async def _bounded(self, responses: Any) -> AsyncGenerator[pb.StreamResponse]:
        """Give responses; over gRPC a silence is no error by itself."""
        async with aclosing(responses):
            while True:
                try:
                    async with asyncio.timeout(SILENCE_S if self._agent.is_grpc else None):
                        response = await anext(responses)
                except StopAsyncIteration:
                    return
                yield response

    def _take(self, response: pb.StreamResponse) -> None:
        self._has_changed = True
        match response.WhichOneof("payload"):
            case "task":
                self._check(response.task.id, response.task.status)
                self._has_changed = self.task != response.task
                self.task.CopyFrom(response.task)
            case "message":
                self.message = response.message
            case "status_update":
                update = response.status_update
                self._check(update.task_id, update.status)
                self.task.id = self.task.id or update.task_id
                self.task.context_id = self.task.context_id or update.context_id
                self.task.status.CopyFrom(update.status)
            case "artifact_update":
                self._check(response.artifact_update.task_id)
            case _:
                return

    def _check(self, task: str, status: pb.TaskStatus | None = None) -> None:
        """Check that an answer is about this task, and says where it stands.

        Raises:
            RemoteError: nobody would know what to wait for.
        """
        if task and self.task.id and task != self.task.id:
            raise RemoteError(self._agent.url, f"its answer is about another task, {shorten(task)}")
        if status is not None and status.state not in _STATES:
            number = f" ({status.state})" if status.state else ""
            raise RemoteError(self._agent.url, f"its task is in a state that is none{number}")

    async def say_farewell(self) -> None:
        """Take the configuration of the pushes away, if the remote agent still can be told."""
        if self._bell is None or not self._is_pushed or not self.task.id:
            return
        request = pb.DeleteTaskPushNotificationConfigRequest(
            task_id=self.task.id, id=self._bell.name
        )
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._agent.asking.delete_task_push_notification_config(request)
        except (A2AError, httpx.HTTPError, TimeoutError, *UNREADABLE) as error:
            _log.info("a push configuration was not taken away", reason=told(error))

    async def cancel(self) -> None:
        """Cancel it, if the remote agent still can be told."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._agent.client.cancel_task(pb.CancelTaskRequest(id=self.task.id))
        except (A2AError, httpx.HTTPError, TimeoutError, *UNREADABLE) as error:
            _log.info("a remote task was not cancelled", reason=told(error))


def _config(bell: Bell) -> pb.TaskPushNotificationConfig:
    # Twice, because some send only the one and some only the other.
    return pb.TaskPushNotificationConfig(
        id=bell.name,
        url=bell.url,
        token=bell.token,
        authentication=pb.AuthenticationInfo(scheme="Bearer", credentials=bell.token),
    )
