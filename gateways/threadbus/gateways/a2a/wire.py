"""What the protocol's library leaves undone between its JSON and the wire, as one ASGI layer.

Coming in: a body of another kind than JSON, or one that UTF-8 cannot carry back, gets the
protocol's own error, large integers are kept exact (:mod:`.exact`), and a filter for a status that
does not exist is refused instead of being taken for no filter. Going out: integers are put back,
U+0085, U+2028 and U+2029 are escaped (readers that split lines as Python does would cut a stream
there), an event of a stream carries its position as ``id``, and the media type is plain JSON for
who does not name the protocol's own.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast
from urllib.parse import parse_qs

from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from threadbus.gateways.a2a.cards import JSON_RPC
from threadbus.gateways.a2a.exact import mark_numbers, unmark_numbers
from threadbus.gateways.a2a.view import POSITION, parse_position
from threadbus.gateways.web.limits import header

_SEPARATORS: Final = (
    ("\u0085".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_CHECKER: Final = b"https://errors.pydantic.dev"
_WRONG: Final = re.compile(r"^(\S+)\n  (.+) \[type=", re.MULTILINE)
_MAX_WRONG: Final = 8
_POSITION: Final = f'"{POSITION}"'.encode()
_JSON: Final = b"application/json"
_A2A_JSON: Final = A2A_JSON_MEDIA_TYPE.encode()
_STREAM: Final = b"text/event-stream"
_KNOWN_STATUSES: Final = frozenset(pb.TaskState.keys())
_CONTENT_TYPE: Final = -32005
_PARSE: Final = -32700
_INVALID_PARAMS: Final = -32602


class Wire:
    """The layer around the application that speaks the protocol."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap *app*, which gets a body in one piece (:class:`BodyLimit` does that)."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Mend a request, and its answer on the way out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] in {"POST", "PUT"}:
            message = await receive()
            body = message.get("body", b"")
            kind = header(scope, b"content-type").partition(";")[0].strip().lower()
            if body and not (kind == "application/json" or kind.endswith("+json")):
                error = f"Content-Type is {kind[:80] or 'missing'}, and has to be application/json."
                await _refuse(scope, send, _CONTENT_TYPE, "CONTENT_TYPE_NOT_SUPPORTED", error)
                return
            if not _is_utf8(body):
                await _refuse(scope, send, _PARSE, "PARSE_ERROR", "The body is not UTF-8.")
                return
            if _has_lone_surrogate(body):
                error = "The body has an escape of half a character (a lone surrogate)."
                await _refuse(scope, send, _PARSE, "PARSE_ERROR", error)
                return
            if _asks_for_unknown_status(_status_of(body)):
                await _refuse(scope, send, _INVALID_PARAMS, "INVALID_PARAMS", _UNKNOWN, body)
                return
            pending: list[Message] = [{**message, "body": mark_numbers(body)}]
            inner = receive

            async def once() -> Message:
                return pending.pop() if pending else await inner()

            receive = once
        elif _asks_for_unknown_status(_query_status(scope)):
            await _refuse(scope, send, _INVALID_PARAMS, "INVALID_PARAMS", _UNKNOWN)
            return
        await self._app(scope, receive, _Mending(scope, send))


_UNKNOWN: Final = f"status has to be one of {', '.join(sorted(_KNOWN_STATUSES))}."


class _Mending:
    """The way out of one request."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        # The protocol's own media type is for those who know it; all others get plain JSON.
        known = header(scope, b"accept") + header(scope, b"content-type")
        self._wants_plain = "a2a+json" not in known
        self._is_stream = self._is_file = False
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_file = any(name == b"content-disposition" for name, _ in message["headers"])
            self._is_stream = _content_type(message).startswith(_STREAM)
            if self._is_stream or self._is_file:
                await self._send(message)
                return
            self._start = message
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        body = message.get("body", b"")
        if self._is_file:
            # Content of somebody's, byte for byte.
            await self._send(message)
            return
        if self._is_stream:
            await self._send({**message, "body": _numbered(_mended(body))})
            return
        self._body += body
        if message.get("more_body", False) or self._start is None:
            return
        whole = bytes(self._body)
        if b"json" in _content_type(self._start):
            whole = _readable(_mended(whole))
        await self._send({**self._start, "headers": self._headers(self._start, len(whole))})
        await self._send({"type": "http.response.body", "body": whole})

    def _headers(self, start: Message, length: int) -> list[tuple[bytes, bytes]]:
        headers: list[tuple[bytes, bytes]] = []
        for name, value in start["headers"]:
            if name == b"content-length":
                headers.append((name, str(length).encode()))
            elif name == b"content-type" and self._wants_plain and value.startswith(_A2A_JSON):
                headers.append((name, _JSON))
            else:
                headers.append((name, value))
        return headers


def _content_type(start: Message) -> bytes:
    return next((bytes(value) for name, value in start["headers"] if name == b"content-type"), b"")


def _mended(body: bytes) -> bytes:
    for raw, escaped in _SEPARATORS:
        if raw in body:
            body = body.replace(raw, escaped)
    return unmark_numbers(body)


def _readable(body: bytes) -> bytes:
    """Return an answer with the protocol's error in place of what checks requests of 0.3 says.

    That names its own classes, and has the code for what is no request at all.
    """
    if _CHECKER not in body:
        return body
    answer = cast("dict[str, Any]", json.loads(body))
    error = cast("dict[str, Any]", answer.get("error") or {})
    said = error.get("data")
    if not isinstance(said, str):
        # An agent may speak of it, too.
        return body
    wrong = "; ".join(f"{place}: {what}" for place, what in _WRONG.findall(said)[:_MAX_WRONG])
    told = {"code": _INVALID_PARAMS, "message": f"Invalid params: {wrong}", "data": None}
    return json.dumps({**answer, "error": told}).encode()


def _numbered(event: bytes) -> bytes:
    """Give an event of a stream its position as ``id``, for ``Last-Event-ID``."""
    if not event.startswith(b"data:") or _POSITION not in event:
        return event
    # Only the update's own metadata counts: what an agent made may look the same.
    found: Any = json.loads(event[5:])
    found = found.get("result", found)
    update: Any = found.get("statusUpdate") or found.get("artifactUpdate") or found
    position = str(update.get("metadata", {}).get(POSITION, ""))
    if parse_position(position) is None:
        return event
    return b"id: " + position.encode() + b"\r\n" + event


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_lone_surrogate(body: bytes) -> bool:
    """Whether a JSON text holds what no UTF-8 carries: the library would fail while it answers."""
    if not _SURROGATE.search(body):
        return False
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        # The library says what is wrong with it.
        return False
    return False


def _status_of(body: bytes) -> object:
    """Return the status filter of a JSON-RPC request; None where it has none."""
    if b'"ListTasks"' not in body:
        return None
    try:
        request: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    params = cast("dict[str, Any]", request).get("params")
    return cast("dict[str, Any]", params).get("status") if isinstance(params, dict) else None


def _query_status(scope: Scope) -> object:
    query: bytes = scope.get("query_string", b"")
    if b"status=" not in query or not scope["path"].rstrip("/").endswith("/tasks"):
        return None
    return parse_qs(query.decode("latin-1"), keep_blank_values=True).get("status", [None])[-1]


def _asks_for_unknown_status(status: object) -> bool:
    if status is None:
        return False
    if isinstance(status, int):
        return status not in pb.TaskState.values()
    return not isinstance(status, str) or status not in _KNOWN_STATUSES


async def _refuse(
    scope: Scope, send: Send, code: int, reason: str, error: str, body: bytes = b""
) -> None:
    """Answer with an error in the form of the binding that the path belongs to."""
    details: list[dict[str, Any]] = [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
            "metadata": {},
        }
    ]
    if scope["path"].rstrip("/").endswith(f"/{JSON_RPC}") or scope["path"] == "/":
        status = 200
        said: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": _request_id(body),
            "error": {"code": code, "message": error, "data": details},
        }
    else:
        status = 415 if code == _CONTENT_TYPE else 400
        said = {
            "error": {
                "code": status,
                "status": "INVALID_ARGUMENT",
                "message": error,
                "details": details,
            }
        }
    answer = json.dumps(said).encode()
    headers = [
        (b"content-type", _JSON),
        (b"content-length", str(len(answer)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _request_id(body: bytes) -> str | int | None:
    if not body:
        return None
    found: object = cast("dict[str, Any]", json.loads(body)).get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
