"""Requests to an OpenAI-compatible server through the ``openai`` package.

One request is one attempt: the package's own retries are off, and what goes wrong is told apart
into what another attempt may mend (:class:`TransientError`) and what it will not
(:class:`ModelRefusedError`). No more of a body is read than the limits allow.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from email.utils import parsedate_to_datetime
from time import time
from typing import Final, Protocol, Self, cast

import msgspec
from openai import (
    APIConnectionError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    Timeout,
)

from threadbus.agents.context import current_traceparent
from threadbus.agents.errors import (
    InvalidSettingError,
    ModelOutputTooLargeError,
    ModelRefusedError,
)
from threadbus.agents.model.labels import (
    AGENT_HEADER,
    PLAYBOOK,
    PLAYBOOK_HEADER,
    TRACE_HEADER,
)
from threadbus.agents.model.messages import JsonObject
from threadbus.agents.model.settings import ModelSettings
from threadbus.agents.model.wire import (
    Answer,
    TransientError,
    decode_answer,
    server_sent_events,
)
from threadbus.schemas import shorten

_OPENAI_URL: Final = "https://api.openai.com/v1"
_MAX_ERROR_BYTES: Final = 64 * 1024
_TRANSIENT: Final = frozenset({408, 409, 425, 429})


class _Response(Protocol):
    """What is used of a response of the HTTP library that the SDK brings."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class _StreamedResponse(Protocol):
    """What is used of the SDK's streamed response."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def iter_bytes(self) -> AsyncIterator[bytes]: ...


class _StatusError(Exception):
    """A response with a status of 400 or above, its body read up to a limit."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status, headers, body)
        self.status = status
        self.headers = headers
        self.body = body


class Transport:
    """The connections to one server."""

    def __init__(self, settings: ModelSettings, agent: str) -> None:
        self._settings = settings
        self._agent = agent
        self._client: AsyncOpenAI | None = None
        self._usage_in_streams = True
        self._is_playbook = False

    @property
    def system(self) -> str:
        """Who answers: ``openai``, another server's host, or ``playbook`` once it has said so."""
        if self._is_playbook:
            return PLAYBOOK
        return "openai" if self._settings.is_openai else self._settings.server

    async def __aenter__(self) -> Self:
        settings = self._settings
        if not settings.api_key and not settings.base_url:
            raise InvalidSettingError(
                "OPENAI_API_KEY",
                "",
                "set it, or set OPENAI_BASE_URL to a server that asks for no key "
                "(the playbook server is one: docs/playbooks.md)",
            )
        self._client = AsyncOpenAI(
            # A server that asks for no key still gets the header, so that the SDK is content.
            api_key=settings.api_key.reveal() or "none",
            base_url=settings.base_url or _OPENAI_URL,
            max_retries=0,
            # The caller's own deadlines end an attempt; this one only bounds connecting.
            timeout=Timeout(
                settings.timeout.total_seconds() + 5,
                connect=settings.connect_timeout.total_seconds(),
            ),
            default_headers={AGENT_HEADER: self._agent} if self._agent else None,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [_raise_for_status]}),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def ask(
        self, model: str, body: JsonObject, *, stream: bool
    ) -> AsyncGenerator[Answer, None]:
        """Make one request and yield the answer: whole, or in chunks.

        Raises:
            TransientError: another attempt may do better.
            ModelRefusedError: it will not.
            ModelOutputTooLargeError: the body is above its limit.
            RuntimeError: the transport is not open.
        """
        while True:
            with_usage = stream and self._usage_in_streams
            sent = body | {"stream_options": {"include_usage": True}} if with_usage else body
            try:
                async with aclosing(self._ask_once(model, sent, stream)) as answers:
                    async for answer in answers:
                        yield answer
            except ModelRefusedError as error:
                # Some servers do not know the field, and refuse what they do not know.
                if not with_usage or "stream_options" not in error.reason:
                    raise
                self._usage_in_streams = False
            else:
                return

    async def _ask_once(
        self, model: str, body: JsonObject, stream: bool
    ) -> AsyncGenerator[Answer, None]:
        if self._client is None:
            raise RuntimeError("the transport is not open")
        create = cast(
            "Callable[..., AbstractAsyncContextManager[_StreamedResponse]]",
            self._client.chat.completions.with_streaming_response.create,
        )
        rest = dict(body)
        messages = rest.pop("messages")
        # Room for escapes, and for what servers send beside the text.
        limit = 6 * self._settings.max_output_chars + 1024 * 1024
        try:
            async with create(
                model=model,
                messages=messages,
                stream=stream,
                extra_body=rest,
                extra_headers=_trace_headers(),
            ) as response:
                self._is_playbook = PLAYBOOK_HEADER in response.headers
                if "text/event-stream" in response.headers.get("content-type", ""):
                    async with (
                        aclosing(_read(response)) as chunks,
                        aclosing(server_sent_events(chunks, limit)) as events,
                    ):
                        async for event in events:
                            yield self._answer(event)
                else:
                    yield self._answer(await self._whole(response, limit))
        except _StatusError as error:
            self._is_playbook = PLAYBOOK_HEADER in error.headers
            raise self._explain(error, model) from error
        except APITimeoutError as error:
            seconds = self._settings.connect_timeout.total_seconds()
            raise TransientError(f"no connection within {seconds:g} s") from error
        except APIConnectionError as error:
            reason = self._hide(str(error.__cause__ or error))
            raise TransientError(f"no connection: {reason}") from error

    def _answer(self, body: bytes) -> Answer:
        answer = decode_answer(body)
        if answer.system_fingerprint == PLAYBOOK:
            self._is_playbook = True
        return answer

    async def _whole(self, response: _StreamedResponse, limit: int) -> bytes:
        body = bytearray()
        async for chunk in _read(response):
            body += chunk
            if len(body) > limit:
                raise ModelOutputTooLargeError(self._settings.server, "bytes", limit)
        return bytes(body)

    def _explain(self, error: _StatusError, model: str) -> TransientError | ModelRefusedError:
        message, code = _server_message(error.body)
        reason = self._hide(message) or "without a message"
        should_retry = error.headers.get("x-should-retry", "")
        if should_retry in {"true", "false"}:
            transient = should_retry == "true"
        else:
            # An empty account answers 429 as well, and stays empty.
            transient = (error.status in _TRANSIENT or error.status >= 500) and (
                code != "insufficient_quota"
            )
        if transient:
            return TransientError(
                f"HTTP {error.status}: {reason}", retry_after=_retry_after(error.headers)
            )
        return ModelRefusedError(self._settings.server, model, error.status, reason)

    def _hide(self, text: str) -> str:
        return shorten(self._settings.api_key.hide_in(text), 1_000)


async def _raise_for_status(response: _Response) -> None:
    """Read an error here: the SDK would read all of it, whatever its size."""
    if response.status_code < 400:
        return
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MAX_ERROR_BYTES:
            break
    raise _StatusError(response.status_code, response.headers, body[:_MAX_ERROR_BYTES])


async def _read(response: _StreamedResponse) -> AsyncGenerator[bytes, None]:
    chunks = response.iter_bytes().__aiter__()
    while True:
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        # Whatever the HTTP library raises while it reads a body: the connection broke.
        except Exception as error:
            raise TransientError(f"the connection broke: {shorten(str(error), 200)}") from error
        yield chunk


class _ErrorDetail(msgspec.Struct):
    message: str = ""
    code: str | int | None = None


class _ErrorBody(msgspec.Struct):
    """The forms that errors take: OpenAI's, and those of frameworks under other servers."""

    error: _ErrorDetail | str | None = None
    message: str = ""
    detail: msgspec.Raw = msgspec.Raw(b"")


def _server_message(body: bytes) -> tuple[str, str]:
    try:
        parsed = msgspec.json.decode(body, type=_ErrorBody, strict=False)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace").strip(), ""
    match parsed.error:
        case _ErrorDetail(message=message, code=code):
            return message, str(code or "")
        case str() as message:
            return message, ""
        case None:
            return parsed.message or bytes(parsed.detail).decode("utf-8", "replace"), ""


def _trace_headers() -> dict[str, str]:
    """Return what lets a server that is traced itself put its spans beneath the turn."""
    parent = current_traceparent()
    return {TRACE_HEADER: parent} if parent else {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait: ``retry-after-ms`` or ``retry-after``."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            seconds = float(milliseconds) / 1_000
        else:
            seconds = float(headers["retry-after"])
    except KeyError:
        return None
    except ValueError:
        try:
            seconds = parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None
