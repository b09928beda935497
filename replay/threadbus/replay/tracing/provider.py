"""Where metrics go: OpenTelemetry's SDK with an exporter for OTLP over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from threadbus.replay.errors import TracesMissingError
from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.collector import traces_url
from threadbus.replay.tracing.making import SERVICE

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

_EVERY_MS: Final = 10_000
_SUFFIX: Final = "/v1/traces"


def metrics_url(url: str) -> str:
    """Return where the metrics of a collector go, from where its spans go."""
    parts = urlsplit(traces_url(url))
    path = parts.path.removesuffix(_SUFFIX) + "/v1/metrics"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def meter_provider(url: str) -> MeterProvider:
    """Return a provider that sends metrics every ten seconds; its ``shutdown`` sends the last.

    Raises:
        TracesMissingError: OpenTelemetry is not installed.
        CollectorUrlError: the URL is none of a collector.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise TracesMissingError(str(error)) from error

    exporter = OTLPMetricExporter(endpoint=metrics_url(url))
    return MeterProvider(
        metric_readers=[PeriodicExportingMetricReader(exporter, _EVERY_MS)],
        resource=Resource({sc.SERVICE_NAME: SERVICE, sc.SERVICE_NAMESPACE: SERVICE}),
    )
