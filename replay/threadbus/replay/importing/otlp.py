"""OTLP in JSON: ``{"resourceSpans": [{"resource": …, "scopeSpans": [{"spans": […]}]}]}``.

One trace is one run, and keeps its id. What a span is about is told by the conventions for
generative AI (``gen_ai.operation.name``), or those of OpenInference (``openinference.span.kind``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

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

_OPERATIONS: Final = {
    "invoke_agent": SpanKind.AGENT,
    "create_agent": SpanKind.OTHER,
    "invoke_workflow": SpanKind.OTHER,
    "chat": SpanKind.MODEL,
    "generate_content": SpanKind.MODEL,
    "text_completion": SpanKind.MODEL,
    "execute_tool": SpanKind.TOOL,
    "retrieval": SpanKind.TOOL,
}
_OPENINFERENCE: Final = {
    "AGENT": SpanKind.AGENT,
    "LLM": SpanKind.MODEL,
    "TOOL": SpanKind.TOOL,
    "RETRIEVER": SpanKind.TOOL,
}
_FAILED: Final = frozenset({2, "2", "STATUS_CODE_ERROR"})
_MAX_DEPTH: Final = 16


def traces_of(documents: Iterable[Json]) -> dict[str, list[Span]]:
    """Return the spans of each trace, by its id in lower case."""
    found: dict[str, list[Span]] = {}
    for document in documents:
        for resource in records(first(document, "resourceSpans", "resource_spans")):
            service = word(_attributes(record(resource.get("resource"))), "service.name")
            scopes = first(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for scope in records(scopes):
                for span in records(scope.get("spans")):
                    trace = word(span, "traceId", "trace_id").lower()
                    found.setdefault(trace, []).append(_span(span, service))
    return found


def _span(document: Json, service: str) -> Span:
    attributes = _attributes(document)
    operation = word(attributes, "gen_ai.operation.name")
    inference = word(attributes, "openinference.span.kind").upper()
    kind = _OPERATIONS.get(operation) or _OPENINFERENCE.get(inference) or SpanKind.OTHER
    status = record(document.get("status"))
    is_bad = status.get("code") in _FAILED
    span = Span(
        id=word(document, "spanId", "span_id").lower(),
        parent=word(document, "parentSpanId", "parent_span_id").lower(),
        kind=kind,
        agent=word(attributes, "gen_ai.agent.name", "agent.name") or service,
        start=moment_ns(first(document, "startTimeUnixNano", "start_time_unix_nano")),
        end=moment_ns(first(document, "endTimeUnixNano", "end_time_unix_nano")),
        error=(word(status, "message") or word(attributes, "error.type") or "error")
        if is_bad
        else "",
        asked=_messages(first(attributes, "gen_ai.input.messages", "gen_ai.prompt", "input.value")),
        said=_messages(
            first(attributes, "gen_ai.output.messages", "gen_ai.completion", "output.value")
        ),
    )
    if kind is SpanKind.AGENT:
        span.name = span.agent or word(document, "name")
    elif kind is SpanKind.MODEL:
        span.name = word(
            attributes, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name"
        )
        span.system = word(attributes, "gen_ai.provider.name", "gen_ai.system", "llm.provider")
        span.response_id = word(attributes, "gen_ai.response.id")
        span.finish_reason = text(attributes.get("gen_ai.response.finish_reasons"))
        span.input_tokens = _tokens(attributes, "input", "prompt")
        span.output_tokens = _tokens(attributes, "output", "completion")
        span.cached_tokens = count(attributes.get("gen_ai.usage.cache_read.input_tokens"))
    elif kind is SpanKind.TOOL:
        span.name = word(attributes, "gen_ai.tool.name", "tool.name") or word(document, "name")
        span.call_id = word(attributes, "gen_ai.tool.call.id", "tool_call.id")
        asked = first(attributes, "gen_ai.tool.call.arguments", "input.value", "tool.parameters")
        span.arguments = arguments_of({"arguments": asked})
        span.asked = ""
        said = first(attributes, "gen_ai.tool.call.result", "output.value")
        span.said = text(said)
    return span


def _tokens(attributes: Json, new: str, old: str) -> int:
    return count(
        first(
            attributes,
            f"gen_ai.usage.{new}_tokens",
            f"gen_ai.usage.{old}_tokens",
            f"llm.token_count.{old}",
        )
    )


def _attributes(document: Json) -> dict[str, object]:
    found: dict[str, object] = {}
    for one in records(document.get("attributes")):
        found[word(one, "key")] = _value(record(one.get("value")), 0)
    return found


def _value(value: Json, depth: int) -> object:
    """Return a value of an attribute as plain JSON."""
    if depth > _MAX_DEPTH:
        return None
    for key in ("stringValue", "string_value", "boolValue", "doubleValue", "bytesValue"):
        if key in value:
            return value[key]
    for key in ("intValue", "int_value"):
        if key in value:
            return count(value[key])
    array = record(first(value, "arrayValue", "array_value"))
    if array:
        return [_value(one, depth + 1) for one in records(array.get("values"))]
    pairs = record(first(value, "kvlistValue", "kvlist_value"))
    return {
        word(one, "key"): _value(record(one.get("value")), depth + 1)
        for one in records(pairs.get("values"))
    }


def _messages(value: object) -> str:
    """Return the words of messages: they are JSON in a string, with parts or with content."""
    if not isinstance(value, str):
        return text(value) if value is not None else ""
    if not value.lstrip().startswith(("[", "{")):
        return text(value)
    try:
        found: object = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return text(value)
    messages = records(found) or [record(found)]
    said = [text(first(message, "parts", "content")) for message in messages]
    return "\n".join(one for one in said if one) or text(value)
