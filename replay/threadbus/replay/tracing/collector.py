"""Sending spans to a collector: OTLP over HTTP, in batches of bounded size."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from threadbus.replay.errors import (
    CollectorRefusedError,
    CollectorUnreachableError,
    CollectorUrlError,
)
from threadbus.replay.tracing.model import Span
from threadbus.replay.tracing.otlp import batches, encode_request
from threadbus.schemas import TaskId

UI_VARIABLE: Final = "BUS_JAEGER_UI"
"""Where Jaeger's page is, when it is not at port 16686 of the collector's host."""

_TRACES: Final = "/v1/traces"
_UI_PORT: Final = 16686
_AGAIN: Final = frozenset({429, 502, 503, 504})
_REQUEST_S: Final = 20.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 64 * 1024
_HEADER_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


class Collector:
    """One collector.

    Args:
        url: where it is; ``/v1/traces`` is added where there is no path.
        patience: how long an absent or overloaded one is asked again.
        environ: has ``OTEL_EXPORTER_OTLP_HEADERS``, for those that want a key.

    Raises:
        CollectorUrlError: it is no http or https URL.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: timedelta = timedelta(seconds=5),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.url = traces_url(url)
        self.sent = 0
        """Spans that it took so far."""
        self._patience_s = patience.total_seconds()
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": "threadbus",
            **_extra_headers(environ),
        }

    async def send(self, spans: Iterable[Span]) -> None:
        """Send spans, in as many requests as their size needs.

        Raises:
            CollectorUnreachableError: nobody answers.
            CollectorRefusedError: it does not take them.
            TracesMissingError: OpenTelemetry is not installed.

        Cancellation: a request that is on its way may still arrive. Sending the same spans again
        changes nothing.
        """
        for batch in batches(spans):
            await self._send(batch)
            self.sent += len(batch)

    async def _send(self, batch: Sequence[Span]) -> None:
        body = gzip.compress(encode_request(batch), compresslevel=1, mtime=0)
        deadline = time.monotonic() + self._patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                answer = await asyncio.to_thread(self._post, body)
            except CollectorUnreachableError:
                if time.monotonic() + pause >= deadline:
                    raise
            else:
                self._check(answer)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _post(self, body: bytes) -> bytes:
        # The scheme was looked at when this was made.
        request = Request(self.url, body, self._headers, method="POST")  # noqa: S310
        try:
            with urlopen(request, timeout=_REQUEST_S) as answer:  # noqa: S310
                return bytes(answer.read(_MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                told = error.read(2_000).decode("utf-8", "replace").strip()
            reason = _readable(told) or error.reason
            if error.code in _AGAIN:
                raise CollectorUnreachableError(self.url, f"HTTP {error.code}: {reason}") from error
            raise CollectorRefusedError(self.url, error.code, reason) from error
        except URLError as error:
            raise CollectorUnreachableError(self.url, str(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise CollectorUnreachableError(self.url, f"{reason} (no HTTP there?)") from error

    def _check(self, answer: bytes) -> None:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceResponse,
        )

        try:
            told = ExportTraceServiceResponse.FromString(answer).partial_success
        except DecodeError as error:
            raise CollectorRefusedError(self.url, 200, "its answer is not OTLP") from error
        if told.rejected_spans:
            reason = f"{told.rejected_spans} spans: {told.error_message or 'it does not say why'}"
            raise CollectorRefusedError(self.url, 200, reason)


def traces_url(url: str) -> str:
    """Return where spans are sent to.

    Raises:
        CollectorUrlError: it is no http or https URL.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise CollectorUrlError(url, str(error)) from error
    if parts.scheme not in {"http", "https"}:
        reason = f"its scheme is {parts.scheme!r}" if parts.scheme else "it has no scheme"
        raise CollectorUrlError(url, f"{reason}, not http or https")
    if not parts.hostname:
        raise CollectorUrlError(url, "it has no host")
    if port == 4317:
        raise CollectorUrlError(url, "4317 is the port of gRPC")
    path = parts.path.rstrip("/") or _TRACES
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def trace_link(url: str, task: TaskId, environ: Mapping[str, str] = os.environ) -> str:
    """Return where a person finds the trace, if the collector at *url* is a Jaeger's."""
    page = environ.get(UI_VARIABLE, "").rstrip("/")
    if not page:
        parts = urlsplit(traces_url(url))
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        page = f"{parts.scheme}://{host}:{_UI_PORT}"
    return f"{page}/trace/{task}"


def _extra_headers(environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable in _HEADER_VARIABLES:
        for pair in environ.get(variable, "").split(","):
            name, separator, value = pair.partition("=")
            if separator and name.strip():
                found[unquote(name.strip())] = unquote(value.strip())
    return found


def _readable(text: str) -> str:
    """Return an error page in one line; protobuf says it in the middle of other bytes."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]
