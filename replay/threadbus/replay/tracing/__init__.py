"""Runs as OpenTelemetry traces: spans computed from the log, live or afterwards the same.

:func:`spans_of` and :func:`trace_run` give the spans of one run, :class:`Collector` sends them,
:func:`tracing` exports live from inside a process. Nothing here needs OpenTelemetry before spans
are encoded as protobuf.
"""

from threadbus.replay.tracing.collector import Collector, trace_link
from threadbus.replay.tracing.examining import Examiner, RunExaminer
from threadbus.replay.tracing.inprocess import tracing
from threadbus.replay.tracing.live import Exported, LiveExporter
from threadbus.replay.tracing.model import Span, SpanEvent, SpanKind, SpanLink
from threadbus.replay.tracing.otlp import encode_json, encode_request, encode_span
from threadbus.replay.tracing.run import spans_of, trace_run
from threadbus.replay.tracing.spans import SpanFold

__all__ = [
    "Collector",
    "Examiner",
    "Exported",
    "LiveExporter",
    "RunExaminer",
    "Span",
    "SpanEvent",
    "SpanFold",
    "SpanKind",
    "SpanLink",
    "encode_json",
    "encode_request",
    "encode_span",
    "spans_of",
    "trace_link",
    "trace_run",
    "tracing",
]
