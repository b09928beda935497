"""One task of a remote A2A agent, driven to its end: sent, followed, asked back, resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, cast

import httpx
import structlog
from a2a.client import Client, ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, TaskNotFoundError

from threadbus.gateways.a2a.transport import MendingTransport
from threadbus.gateways.a2a.view import INTERRUPTED, TERMINAL
from threadbus.gateways.errors import RemoteError

_CONNECT_S: Final = 10.0
_SILENCE_S: Final = 120.0
"""A stream that says nothing for so long, not even a comment, is taken for dead."""
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 20.0
_TRIES: Final = 8
_LOOKS: Final = 4
"""How often a question that was just answered may still be seen before it counts as asked again."""
_log: Any = structlog.get_logger("threadbus.gateways.a2a")


class RemoteAgent:
    """A remote agent: its card, and its operations."""

    def __init__(self, url: str, token: str = "", key: str = "") -> None:
        """Prepare; nothing is asked before :meth:`card`.

        Args:
            url: where the agent is; its card is below it.
            token: a bearer token that it takes.
            key: an API key that it takes, sent as ``X-API-Key``.
        """
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if key:
            headers["X-API-Key"] = key
        self._http = httpx.AsyncClient(
            transport=MendingTransport(httpx.AsyncHTTPTransport(retries=1)),
            timeout=httpx.Timeout(_CONNECT_S, read=_SILENCE_S),
            headers=headers,
        )
        self._client: Client | None = None
        self._card = pb.AgentCard()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def card(self) -> pb.AgentCard:
        """Fetch the card; from then on the remote agent is spoken to as it says.

        Raises:
            RemoteError: it is not to be reached, or what it says is no card.
        """
        config = ClientConfig(
            httpx_client=self._http,
            supported_protocol_bindings=["JSONRPC", "HTTP+JSON"],
            # Where it does not stream, the answer to a message comes at once and is asked for.
            polling=True,
        )
        try:
            async with asyncio.timeout(_CONNECT_S):
                self._client = await create_client(self.url, config)
                # The library keeps it there, and does not say so.
                self._card = cast("pb.AgentCard", getattr(self._client, "_card"))  # noqa: B009
        except (A2AError, httpx.HTTPError, TimeoutError, ValueError) as error:
            raise RemoteError(self.url, _told(error)) from error
        return self._card

    @property
    def client(self) -> Client:
        """The operations, once the card is known."""
        if self._client is None:
            raise RemoteError(self.url, "its card was not read")
        return self._client

    @property
    def streams(self) -> bool:
        """Whether its card offers streams."""
        return self._card.capabilities.streaming


class RemoteTask:
    """What is known of one task, and its updates."""

    def __init__(self, agent: RemoteAgent) -> None:
        self._agent = agent
        self.task = pb.Task()
        self.message: pb.Message | None = None
        """What the remote agent answered instead of a task."""

    @property
    def stands(self) -> bool:
        """Whether it ended, or waits for an answer."""
        state = self.task.status.state
        return self.message is not None or state in TERMINAL or state in INTERRUPTED

    async def updates(self, message: pb.Message | None) -> AsyncGenerator[pb.StreamResponse]:
        """Send *message*, or take the task up again without one; give what comes until it stands.

        A connection that is lost is made again: by a subscription where the card offers streams,
        else by asking how it stands.

        Raises:
            RemoteError: the remote agent refuses, or is not to be reached in several tries.
        """
        tries, pause, looks = 0, _FIRST_PAUSE_S, 0
        pending = message
        before = pb.TaskStatus()
        before.CopyFrom(self.task.status)
        while True:
            try:
                async with aclosing(self._once(pending)) as responses:
                    async for response in responses:
                        pending, tries, pause = None, 0, _FIRST_PAUSE_S
                        self._take(response)
                        yield response
                        # After an answer some begin with the task as it was: still the question.
                        if self.stands and self._is_news(before):
                            return
            except (A2AClientError, httpx.HTTPError, TimeoutError) as error:
                tries += 1
                _log.info("a remote agent was lost", url=self._agent.url, reason=_told(error))
                if tries >= _TRIES:
                    raise RemoteError(self._agent.url, _told(error)) from error
            except A2AError as error:
                raise RemoteError(self._agent.url, _told(error)) from error
            if self.stands:
                looks += 1
                if self._is_news(before) or looks > _LOOKS:
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _is_news(self, before: pb.TaskStatus) -> bool:
        """Whether it stands elsewhere than before the answer was sent."""
        now = self.task.status
        if self.message is not None or now.state not in INTERRUPTED or now.state != before.state:
            return True
        said = now.message.message_id
        return bool(said) and said != before.message.message_id

    async def _once(self, message: pb.Message | None) -> AsyncGenerator[pb.StreamResponse]:
        client = self._agent.client
        if message is not None:
            responses = client.send_message(pb.SendMessageRequest(message=message))
        elif self._agent.streams:
            responses = client.subscribe(pb.SubscribeToTaskRequest(id=self.task.id))
        else:
            yield pb.StreamResponse(task=await client.get_task(pb.GetTaskRequest(id=self.task.id)))
            return
        try:
            async for response in responses:
                yield response
        except A2AClientError:
            raise
        except A2AError:
            if message is not None:
                raise
            # What has ended cannot be subscribed to: how it ended can be asked for.
            yield pb.StreamResponse(task=await client.get_task(pb.GetTaskRequest(id=self.task.id)))

    def _take(self, response: pb.StreamResponse) -> None:
        match response.WhichOneof("payload"):
            case "task":
                self.task.CopyFrom(response.task)
            case "message":
                self.message = response.message
            case "status_update":
                self.task.id = self.task.id or response.status_update.task_id
                self.task.context_id = self.task.context_id or response.status_update.context_id
                self.task.status.CopyFrom(response.status_update.status)
            case _:
                return

    async def cancel(self) -> None:
        """Cancel it, if the remote agent still can be told."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._agent.client.cancel_task(pb.CancelTaskRequest(id=self.task.id))
        except (A2AError, httpx.HTTPError, TimeoutError) as error:
            _log.info("a remote task was not cancelled", reason=_told(error))


def _told(error: BaseException) -> str:
    kind = "TaskNotFound" if isinstance(error, TaskNotFoundError) else type(error).__name__
    return f"{kind}: {error}"
