"""Tools and results into the types of the SDK. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import mcp_types as types
import msgspec

from threadbus.gateways.mcp.failures import Failure
from threadbus.gateways.mcp.references import SCHEME
from threadbus.gateways.mcp.results import Result
from threadbus.gateways.mcp.toolbox import Tool
from threadbus.schemas import FilePart, Part

MAX_RESULT_BYTES: Final = 400_000
"""Bytes of one result as JSON: it goes twice, and common clients take 1 MiB at once."""

ERROR_META: Final = "threadbus/error"
QUESTION: Final = "answer"
"""The field of the form that a person is asked with, and the key of the request."""


def tool_of(tool: Tool) -> types.Tool:
    """Return a tool as hosts list it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=tool.ends,
            idempotent_hint=tool.repeatable,
            open_world_hint=True,
        ),
    )


def result_of(result: Result, attached: Sequence[Part] = ()) -> types.CallToolResult:
    """Return a result: structured, and the same as JSON text for hosts that show text only."""
    body = msgspec.json.encode(result)
    if len(body) > MAX_RESULT_BYTES:
        return failure_of(
            Failure(
                text=f"The result has {len(body):,} bytes, more than the {MAX_RESULT_BYTES:,} that "
                "fit. Ask for less (limit, max_messages), or read the thread's resource.",
                kind="ResultTooLarge",
            )
        )
    room = MAX_RESULT_BYTES - len(body)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=body.decode())]
    for part in attached:
        if isinstance(part, FilePart) and len(part.content) * 2 < room:
            room -= len(part.content) * 2
            content.append(_file(part))
    return types.CallToolResult(
        content=content, structured_content=msgspec.json.decode(body), is_error=False
    )


def failure_of(failure: Failure) -> types.CallToolResult:
    """Return an error that the model sees; programs find its kind in ``_meta``."""
    meta: dict[str, Any] = {ERROR_META: {"kind": failure.kind, **failure.details}}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=failure.text)], is_error=True, _meta=meta
    )


def question_form() -> dict[str, Any]:
    """Return the form that a person is asked with."""
    return {
        "type": "object",
        "properties": {QUESTION: {"type": "string", "title": "Answer"}},
        "required": [QUESTION],
    }


def input_required(question: str, state: str) -> types.InputRequiredResult:
    """Return what has the host ask its person and make the call again."""
    request = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=question, requested_schema=question_form())
    )
    return types.InputRequiredResult(input_requests={QUESTION: request}, request_state=state)


def answer_in(elicited: types.ElicitResult) -> str | None:
    """Return what a person answered; None where they would not."""
    value = (elicited.content or {}).get(QUESTION)
    return str(value) if elicited.action == "accept" and value is not None else None


def _file(part: FilePart) -> types.ContentBlock:
    data = base64.b64encode(part.content).decode()
    kind = part.media_type.partition("/")[0]
    if kind == "image":
        return types.ImageContent(type="image", data=data, mime_type=part.media_type)
    if kind == "audio":
        return types.AudioContent(type="audio", data=data, mime_type=part.media_type)
    return types.EmbeddedResource(
        type="resource",
        resource=types.BlobResourceContents(
            uri=f"{SCHEME}files/{part.name or 'unnamed'}", mime_type=part.media_type, blob=data
        ),
    )
