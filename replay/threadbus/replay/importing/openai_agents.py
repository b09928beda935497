"""Traces of the OpenAI Agents SDK, as its exporters write them.

``{"object": "trace", "id": …, "workflow_name": …}`` and ``{"object": "trace.span", "id": …,
"trace_id": …, "parent_id": …, "started_at": …, "ended_at": …, "span_data": {"type": …}, …}``: one
to a line, in an array, or below ``data``.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadbus.replay.importing.chat import arguments_of
from threadbus.replay.importing.shape import (
    Json,
    count,
    first,
    moment_ns,
    record,
    records,
    text,
    word,
)
from threadbus.replay.importing.spans import Span, SpanKind

TRACE = "trace"
SPAN = "trace.span"


def traces_of(documents: Iterable[Json]) -> dict[str, tuple[Json, list[Json]]]:
    """Return each trace with its spans, by its id."""
    found: dict[str, tuple[Json, list[Json]]] = {}
    for document in documents:
        kind = document.get("object")
        if kind == TRACE:
            trace_id = word(document, "id", "trace_id")
            found[trace_id] = (document, found.get(trace_id, ({}, []))[1])
            inner = records(document.get("spans"))
            found[trace_id][1].extend(inner)
        elif kind == SPAN:
            trace_id = word(document, "trace_id")
            found.setdefault(trace_id, ({}, []))[1].append(document)
    return found


def span_of(document: Json) -> Span:
    """Return a span of the SDK as any other."""
    data = record(document.get("span_data"))
    kind = word(data, "type")
    span = Span(
        id=word(document, "id"),
        parent=word(document, "parent_id"),
        name=word(data, "name"),
        start=moment_ns(document.get("started_at")),
        end=moment_ns(document.get("ended_at")),
        error=_error(document.get("error")),
    )
    match kind:
        case "agent":
            span.kind = SpanKind.AGENT
        case "generation" | "response":
            _model(span, data)
        case "function" | "mcp_tools":
            span.kind = SpanKind.TOOL
            span.arguments = arguments_of(data)
            span.said = text(first(data, "output", "result"))
            span.name = span.name or word(data, "server") or kind
        case "handoff":
            span.kind = SpanKind.HANDOFF
            span.agent, span.to = word(data, "from_agent"), word(data, "to_agent")
        case "guardrail":
            span.kind = SpanKind.NOTE
            how = "stops the run" if data.get("triggered") else "lets it pass"
            span.said = f"guardrail {span.name or 'unnamed'} {how}"
        case "custom" if not record(data.get("data")).get("sdk_span_type"):
            span.kind = SpanKind.NOTE
            span.said = f"{span.name}: {text(data.get('data'))}"
        case "transcription" | "speech":
            _model(span, data)
        case _:
            pass
    return span


def _model(span: Span, data: Json) -> None:
    usage = record(data.get("usage"))
    span.kind = SpanKind.MODEL
    span.name = word(data, "model") or ("response" if data.get("type") == "response" else "")
    span.system = "openai"
    span.asked = _last_of(data.get("input"), "user")
    span.said = _outputs(data.get("output"))
    span.response_id = word(data, "response_id")
    span.input_tokens = count(first(usage, "input_tokens", "prompt_tokens"))
    span.output_tokens = count(first(usage, "output_tokens", "completion_tokens"))
    details = record(first(usage, "input_tokens_details", "prompt_tokens_details"))
    span.cached_tokens = count(details.get("cached_tokens"))


def _last_of(messages: object, role: str) -> str:
    if isinstance(messages, str):
        return text(messages)
    said = [text(one.get("content")) for one in records(messages) if one.get("role") == role]
    return said[-1] if said else ""


def _outputs(value: object) -> str:
    if isinstance(value, str):
        return text(value)
    said = [text(first(one, "content", "text", "data")) for one in records(value)]
    said = [one for one in said if one]
    return "\n".join(said) if said else text(record(value).get("data"))


def _error(value: object) -> str:
    error = record(value)
    if not error:
        return text(value) if isinstance(value, str) else ""
    return text(first(error, "message", "error")) or text(value)
