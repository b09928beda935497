"""Runs as OpenTelemetry traces: spans computed from the log, live or afterwards the same.

:class:`SpanFold` turns the entries of one super-task into spans; :mod:`.otlp` encodes them,
:class:`Collector` sends them, :mod:`.live` follows the whole log. Nothing here needs
OpenTelemetry before spans are encoded as protobuf.
"""
