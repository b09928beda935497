"""Spans as OTLP: protobuf, which collectors take, and JSON, which viewers open as a file.

The same spans are the same bytes: attributes are sorted, and nothing of this process, its time or
its library goes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, cast

import msgspec

from threadbus.replay.errors import TracesMissingError
from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.making import SERVICE
from threadbus.replay.tracing.model import Attributes, Span, SpanLink, Value

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

MAX_BATCH_BYTES: Final = 1024 * 1024
"""Bytes of one request at most; a span is much smaller, since all texts are cut."""

_ERROR: Final = 2
_JSON: Final = msgspec.json.Encoder()

Json = dict[str, "object"]


def resource_of(service: str) -> Attributes:
    """Return what is said of the place where the spans of a service come from.

    One host for all: Jaeger compares hosts and warns of clocks where they differ or are missing,
    and the times are the bus's own.
    """
    return ((sc.HOST_NAME, SERVICE), (sc.SERVICE_NAME, service), (sc.SERVICE_NAMESPACE, SERVICE))


def by_service(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Return spans by their service, in the order in which they come."""
    groups: dict[str, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.service, []).append(span)
    return groups


# protobuf


def encode_span(span: Span) -> bytes:
    """Return one span as the bytes that a collector is sent.

    Raises:
        TracesMissingError: OpenTelemetry is not installed.
    """
    return _message(span).SerializeToString(deterministic=True)


def encode_request(spans: Iterable[Span]) -> bytes:
    """Return an ``ExportTraceServiceRequest`` with *spans*.

    Raises:
        TracesMissingError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )
        from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
        from opentelemetry.proto.resource.v1.resource_pb2 import Resource
        from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
    except ImportError as error:
        raise TracesMissingError(str(error)) from error

    scope = InstrumentationScope(name=sc.SCOPE, version=sc.VERSION)
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=_pairs(resource_of(service))),
                scope_spans=[ScopeSpans(scope=scope, spans=[_message(span) for span in group])],
            )
            for service, group in by_service(spans).items()
        ]
    )
    return request.SerializeToString(deterministic=True)


def batches(spans: Iterable[Span], limit: int = MAX_BATCH_BYTES) -> Iterator[list[Span]]:
    """Return spans in batches of at most *limit* bytes, each of at least one span."""
    batch: list[Span] = []
    size = 0
    for span in spans:
        own = size_of(span)
        if batch and size + own > limit:
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += own
    if batch:
        yield batch


def size_of(span: Span) -> int:
    """Return about how many bytes a span takes in a request; never less."""
    texts = len(span.name) + len(span.error or "") + _text_size(span.attributes)
    texts += sum(len(event.name) + _text_size(event.attributes) + 20 for event in span.events)
    texts += sum(_text_size(link.attributes) + 40 for link in span.links)
    # In UTF-8 a character takes four bytes at most; and the service stands there once more.
    return 4 * (texts + len(span.service)) + 300


def _text_size(pairs: Attributes) -> int:
    size = 0
    for name, value in pairs:
        size += len(name) + 12
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, tuple):
            size += sum(len(one) + 8 for one in value)
    return size


def _message(span: Span) -> SpanMessage:
    try:
        from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
        from opentelemetry.proto.trace.v1.trace_pb2 import Status
    except ImportError as error:
        raise TracesMissingError(str(error)) from error

    return Message(
        trace_id=bytes.fromhex(span.trace),
        span_id=bytes.fromhex(span.id),
        parent_span_id=b"" if span.parent is None else bytes.fromhex(span.parent),
        name=span.name,
        kind=cast("Message.SpanKind.ValueType", span.kind.value),
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=_pairs(span.attributes),
        events=[
            Message.Event(
                time_unix_nano=event.at, name=event.name, attributes=_pairs(event.attributes)
            )
            for event in span.events
        ],
        links=[
            Message.Link(
                trace_id=bytes.fromhex(link.trace),
                span_id=bytes.fromhex(link.span),
                attributes=_pairs(link.attributes),
            )
            for link in span.links
        ],
        status=None
        if span.error is None
        else Status(code=Status.StatusCode.STATUS_CODE_ERROR, message=span.error),
    )


def _pairs(pairs: Attributes) -> list[KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

    found: list[KeyValue] = []
    for name, value in pairs:
        match value:
            case bool():
                told = AnyValue(bool_value=value)
            case int():
                told = AnyValue(int_value=value)
            case float():
                told = AnyValue(double_value=value)
            case str():
                told = AnyValue(string_value=value)
            case _:
                row = ArrayValue(values=[AnyValue(string_value=one) for one in value])
                told = AnyValue(array_value=row)
        found.append(KeyValue(key=name, value=told))
    return found


# JSON


def encode_json(spans: Iterable[Span]) -> bytes:
    """Return spans as OTLP JSON: one document, which the upload of Jaeger's page takes."""
    scope = {"name": sc.SCOPE, "version": sc.VERSION}
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": _json_pairs(resource_of(service))},
                "scopeSpans": [{"scope": scope, "spans": [_json_span(span) for span in group]}],
            }
            for service, group in by_service(spans).items()
        ]
    }
    return _JSON.encode(document)


def _json_span(span: Span) -> Json:
    row: Json = {
        "traceId": span.trace,
        "spanId": span.id,
        "parentSpanId": span.parent or "",
        "name": span.name,
        "kind": span.kind.value,
        # Numbers of 64 bits are strings in the JSON of protobuf.
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _json_pairs(span.attributes),
    }
    if span.events:
        row["events"] = [
            {
                "timeUnixNano": str(event.at),
                "name": event.name,
                "attributes": _json_pairs(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        row["links"] = [_json_link(link) for link in span.links]
    if span.error is not None:
        row["status"] = {"code": _ERROR, "message": span.error}
    return row


def _json_link(link: SpanLink) -> Json:
    return {
        "traceId": link.trace,
        "spanId": link.span,
        "attributes": _json_pairs(link.attributes),
    }


def _json_pairs(pairs: Attributes) -> list[Json]:
    return [{"key": name, "value": _json_value(value)} for name, value in pairs]


def _json_value(value: Value) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
