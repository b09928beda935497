"""A collector for tests: takes OTLP over HTTP, keeps what came, and answers as it is told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """What came so far."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        """The bodies of requests with spans."""
        self.headers: list[dict[str, str]] = []
        self.metrics: set[str] = set()
        """Names of metrics."""
        self.status = 200
        self.answer = b""
        self.url = ""

    @property
    def spans(self) -> list[tuple[str, Span]]:
        """Every span with its service, in the order in which they came."""
        return [
            (resource.resource.attributes[1].value.string_value, span)
            for body in self.requests
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def refuse_some(self, count: int, why: str) -> None:
        """Answer that some spans are not taken."""
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = count
        answer.partial_success.error_message = why
        self.answer = answer.SerializeToString()

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Keep a request."""
        if path == "/v1/traces":
            self.requests.append(body)
            self.headers.append(headers)
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    self.metrics |= {metric.name for metric in scope.metrics}


@contextmanager
def otlp_receiver() -> Generator[Receiver]:
    """Run a collector on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if receiver.status == 200:
                receiver.take(self.path, body, dict(self.headers.items()))
            self.send_response(receiver.status)
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
