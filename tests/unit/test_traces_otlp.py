"""Spans as bytes: what OpenTelemetry's own library reads in them, and how they are batched."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.support.runs import revenue_run, troubled_run
from threadbus.replay.errors import CollectorUrlError
from threadbus.replay.tracing.collector import trace_link, traces_url
from threadbus.replay.tracing.metrics import BusMetrics
from threadbus.replay.tracing.otlp import batches, encode_request, encode_span, size_of
from threadbus.replay.tracing.provider import metrics_url
from threadbus.replay.tracing.run import spans_of
from threadbus.schemas import TaskId

TASK = TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a71")


def test_opentelemetry_reads_what_was_written() -> None:
    """Ids, kinds, times, statuses and attributes, with one resource for each agent."""
    spans = spans_of(troubled_run().log)
    request = ExportTraceServiceRequest.FromString(encode_request(spans))
    found = {
        span.span_id.hex(): span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }

    assert found.keys() == {span.id for span in spans}
    assert len(request.resource_spans) == len({span.service for span in spans})
    for span in spans:
        read = found[span.id]
        assert read.trace_id.hex() == span.trace
        assert read.parent_span_id.hex() == (span.parent or "")
        assert read.kind == span.kind.value
        assert read.status.message == (span.error or "")
        assert [pair.key for pair in read.attributes] == [name for name, _ in span.attributes]
        assert len(read.links) == len(span.links)


def test_a_batch_is_never_larger_than_it_may_be() -> None:
    """The size that is counted with is at least the real one; nothing is lost on the way."""
    spans = spans_of(revenue_run().log, content=True)
    assert all(len(encode_span(span)) < size_of(span) for span in spans)
    made = list(batches(spans, 20_000))

    assert len(made) > 1
    assert [span for batch in made for span in batch] == spans
    assert all(len(encode_request(batch)) <= 20_000 for batch in made)


@pytest.mark.parametrize(
    ("given", "sent_to"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example/", "https://otel.example/v1/traces"),
        ("https://otel.example/otlp/v1/traces", "https://otel.example/otlp/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_where_spans_are_sent(given: str, sent_to: str) -> None:
    """The usual path is added where none is given; metrics go to the place beside it."""
    assert traces_url(given) == sent_to
    assert metrics_url(given) == sent_to.replace("traces", "metrics")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("127.0.0.1:4318", "not http or https"),
        ("grpc://host", "its scheme is 'grpc'"),
        ("localhost", "it has no scheme"),
        ("http://", "it has no host"),
        ("http://host:4317", "4317 is the port of gRPC"),
        ("http://host:nine", "Port could not be cast"),
    ],
)
def test_a_url_that_is_none_of_a_collector_is_refused(given: str, says: str) -> None:
    """The message names what was given and the form that it must have."""
    with pytest.raises(CollectorUrlError, match=r"http://host:4318") as refused:
        traces_url(given)
    assert says in str(refused.value)
    assert repr(given) in str(refused.value)


def test_the_link_is_that_of_jaeger_beside_the_collector() -> None:
    """A page elsewhere is named by a variable."""
    elsewhere = {"BUS_JAEGER_UI": "https://jaeger.example/ui/"}

    assert trace_link("http://h:4318", TASK, {}) == f"http://h:16686/trace/{TASK}"
    assert trace_link("http://h:4318", TASK, elsewhere) == f"https://jaeger.example/ui/trace/{TASK}"


def test_metrics_count_what_the_spans_say() -> None:
    """Calls, tokens, attempts and mentions that wait, without anything that names a task."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    metrics = BusMetrics(provider.get_meter("test"))
    spans = spans_of(revenue_run().log)
    metrics.watch(spans)
    metrics.waiting = {"web": 3}
    data = reader.get_metrics_data()
    assert data is not None
    points: dict[str, list[Any]] = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    provider.shutdown()
    tokens = sum(
        value
        for span in spans
        if span.name.startswith("chat")
        for name, value in span.attributes
        if name == "gen_ai.usage.input_tokens" and isinstance(value, int)
    )
    sums = {
        name: sum(getattr(point, "value", 0) for point in found) for name, found in points.items()
    }

    assert sums["gen_ai.client.inference.usage.input_tokens"] == tokens > 0
    assert sums["bus.turn.redeliveries"] == 1
    assert sums["bus.turn.failures"] == 1
    assert sums["bus.inbox.depth"] == 3
    assert sums["messaging.client.sent.messages"] == sum(s.name[:5] == "send " for s in spans)
    told = {str(point.attributes) for found in points.values() for point in found}
    assert not [text for text in told if TASK in text]
