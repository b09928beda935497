"""A small OpenAI-compatible server that answers from a playbook: no model is asked."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final, Self

import msgspec

from threadbus.agents.errors import InvalidSettingError, PlaybookError
from threadbus.agents.model.labels import AGENT_HEADER, PLAYBOOK, PLAYBOOK_HEADER
from threadbus.agents.model.playbook.book import Playbook, load_playbook
from threadbus.agents.model.playbook.connection import (
    HttpConnection,
    HttpError,
    HttpRequest,
    HttpResponse,
)
from threadbus.agents.model.playbook.director import Director, Reply
from threadbus.agents.model.playbook.render import error_body, events, whole, whole_body
from threadbus.agents.model.playbook.wire import BadRequestError, ChatRequest, parse_request

MAX_CONNECTIONS: Final = 512
_DRAIN_S: Final = 5.0

_log = logging.getLogger(__name__)


class PlaybookServer:
    """Serves one playbook inside ``async with``; :attr:`base_url` is for ``OPENAI_BASE_URL``.

    Leaving answers what is being asked, for a few seconds, and then closes every connection.
    """

    def __init__(
        self, playbook: Playbook | Path | str, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        """Prepare to serve.

        Args:
            playbook: a playbook, or the path of a file with one.
            host: the address to listen on.
            port: the port; 0 picks a free one.
        """
        self._source = playbook
        self._host = host
        self._port = port
        self._director: Director | None = None
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], HttpConnection] = {}
        self._group = asyncio.TaskGroup()

    @property
    def base_url(self) -> str:
        """The address for an OpenAI client, ending in ``/v1``."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def playbook(self) -> Playbook:
        """What is served."""
        return self._open_director.book

    @property
    def _open_director(self) -> Director:
        if self._director is None:
            raise RuntimeError("the playbook server is not open: use it inside `async with`")
        return self._director

    async def __aenter__(self) -> Self:
        source = self._source
        if not isinstance(source, Playbook):
            source = await asyncio.to_thread(load_playbook, source)
        self._director = Director(source)
        try:
            self._server = await asyncio.start_server(
                self._accept, self._host, self._port, start_serving=False
            )
        except (OSError, OverflowError) as error:
            raise InvalidSettingError(
                "address of the playbook server",
                f"{self._host}:{self._port}",
                f"it cannot be listened on ({error}); port 0 picks a free one",
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]
        await self._group.__aenter__()
        await self._server.start_serving()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._tasks.values():
            connection.stop()
        try:
            if self._tasks and kind is None:
                await asyncio.wait(self._tasks, timeout=_DRAIN_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await self._group.__aexit__(None, None, None)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy = len(self._tasks) >= MAX_CONNECTIONS
        connection = HttpConnection(reader, writer, _busy if busy else self._answer, _error_page)
        if self._server is None or not self._server.is_serving():
            writer.transport.abort()
            return
        task = self._group.create_task(
            self._serve(connection), name=f"threadbus.playbook[{self._port}].connection"
        )
        self._tasks[task] = connection
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, connection: HttpConnection) -> None:
        try:
            await connection.serve()
        # A mistake in one answer must not take the others down with it.
        except Exception:
            _log.exception("a connection of the playbook server failed")

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return self._complete(request)
            case "GET", "/v1/models":
                model = {"id": PLAYBOOK, "object": "model", "created": 0, "owned_by": "threadbus"}
                return _json({"object": "list", "data": [model]})
            case "GET", "/health":
                return _json(
                    {
                        "status": "ok",
                        "system": PLAYBOOK,
                        "note": "answers come from a playbook; no model is asked",
                        "playbook": self.playbook.file,
                        "title": self.playbook.title,
                        "plays": len(self.playbook.play),
                        "connections": len(self._tasks),
                    }
                )
            case _, "/v1/chat/completions" | "/v1/models" | "/health":
                raise HttpError(405, f"{request.path} does not take {request.method}")
            case _:
                raise HttpError(
                    404,
                    f"there is no {request.path}; a playbook server has POST /v1/chat/completions, "
                    "GET /v1/models and GET /health",
                )

    def _complete(self, request: HttpRequest) -> HttpResponse:
        agent = request.headers.get(AGENT_HEADER.lower(), "")
        try:
            chat = parse_request(request.body)
            reply = self._open_director.answer(agent, chat)
        except BadRequestError as error:
            raise HttpError(400, str(error)) from error
        except PlaybookError as error:
            raise HttpError(422, str(error)) from error
        return _respond(reply, chat)


def _respond(reply: Reply, chat: ChatRequest) -> HttpResponse:
    delay = reply.delay_ms / 1_000
    fail = reply.fail
    if fail is not None and fail.status is not None:
        wait = {} if fail.retry_after is None else {"Retry-After": f"{fail.retry_after:g}"}
        body = error_body(fail.message, "playbook_failure")
        return HttpResponse(fail.status, body, headers=_LABEL | wait, delay=delay)
    if chat.stream:
        include_usage = chat.stream_options is not None and chat.stream_options.include_usage
        stream = events(reply, include_usage=include_usage)
        return HttpResponse(200, stream, "text/event-stream; charset=utf-8", _LABEL, delay=delay)
    body = whole_body(reply)
    length = None if fail is not None and fail.garbage else len(body)
    return HttpResponse(200, whole(reply, body), headers=_LABEL, length=length, delay=delay)


_LABEL: Final = {PLAYBOOK_HEADER: PLAYBOOK}
_KINDS: Final = {400: "invalid_request_error", 404: "not_found_error", 422: "playbook_error"}


def _json(value: object) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), headers=_LABEL)


async def _busy(_: HttpRequest) -> HttpResponse:
    raise HttpError(503, f"more than {MAX_CONNECTIONS} connections are open")


def _error_page(error: HttpError) -> HttpResponse:
    kind = _KINDS.get(error.status, "server_error" if error.status >= 500 else "request_error")
    return HttpResponse(error.status, error_body(error.message, kind), headers=_LABEL)
