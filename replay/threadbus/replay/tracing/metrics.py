"""Metrics from the spans that a live exporter sees: counts, durations, tokens, waiting mentions.

Instruments are those of OpenTelemetry's SDK; whoever makes the meter says where they go. Nothing
that tells one super-task from another is among the attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.model import Span, SpanKind, Value

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_NS: Final = 1_000_000_000
_CHAT: Final = (sc.OPERATION, sc.AGENT_NAME, sc.PROVIDER, sc.REQUEST_MODEL, sc.ERROR_TYPE)
_TOOL: Final = (sc.OPERATION, sc.AGENT_NAME, sc.TOOL_NAME, sc.ERROR_TYPE)
_TURN: Final = (sc.OPERATION, sc.AGENT_NAME, sc.ERROR_TYPE)
_MESSAGE: Final = (
    sc.MESSAGING_SYSTEM,
    sc.MESSAGING_OPERATION,
    sc.DESTINATION_TEMPLATE,
    sc.AGENT_NAME,
    sc.EVENT_TYPE,
    sc.ERROR_TYPE,
)


class BusMetrics:
    """What is counted.

    Args:
        meter: makes the instruments.
    """

    def __init__(self, meter: Meter) -> None:
        self.waiting: Mapping[str, int] = {}
        """Mentions that wait, by agent; whoever can look sets it now and then."""
        histogram, counter = meter.create_histogram, meter.create_counter
        self._inference = histogram(sc.INFERENCE_DURATION, "s", "Duration of calls of a model")
        self._input = counter(sc.INFERENCE_INPUT, "{token}", "Tokens that models were given")
        self._output = counter(sc.INFERENCE_OUTPUT, "{token}", "Tokens that models gave")
        self._tool = histogram(sc.EXECUTE_TOOL_DURATION, "s", "Duration of calls of a tool")
        self._agent = histogram(sc.INVOKE_AGENT_DURATION, "s", "Duration of turns")
        self._process = histogram(sc.PROCESS_DURATION, "s", "Duration of handling a mention")
        self._sent = counter(sc.SENT_MESSAGES, "{message}", "Events put on the bus")
        self._consumed = counter(sc.CONSUMED_MESSAGES, "{message}", "Mentions handled")
        self._waited = histogram(sc.TURN_WAIT, "s", "From a mention to the start of its turn")
        self._again = counter(sc.REDELIVERIES, "{attempt}", "Attempts after the first of a turn")
        self._failures = counter(sc.FAILURES, "{attempt}", "Attempts that failed")
        self._dead = counter(sc.DEAD_LETTERS, "{mention}", "Mentions that were given up")
        self._task = histogram(sc.TASK_DURATION, "s", "Duration of super-tasks")
        meter.create_observable_gauge(
            sc.QUEUE_DEPTH, [self._depths], "{mention}", "Mentions that wait for an agent"
        )

    def _depths(self, _: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        return [
            Observation(count, {sc.AGENT_NAME: agent})
            for agent, count in sorted(self.waiting.items())
        ]

    def watch(self, spans: Sequence[Span]) -> None:
        """Count spans, each once when it is final."""
        for span in spans:
            self._count(span, dict(span.attributes))

    def _count(self, span: Span, values: dict[str, Value]) -> None:
        seconds = (span.end - span.start) / _NS
        operation = values.get(sc.OPERATION)
        if span.kind is SpanKind.PRODUCER:
            self._sent.add(1, _only(values, _MESSAGE))
            if values.get(sc.EVENT_TYPE) == "mention.dead_lettered":
                self._dead.add(1, _only(values, (sc.AGENT_NAME, sc.ERROR_TYPE)))
        elif operation == sc.CHAT:
            of = _only(values, _CHAT)
            self._inference.record(seconds, of)
            self._input.add(_number(values, sc.INPUT_TOKENS), of)
            self._output.add(_number(values, sc.OUTPUT_TOKENS), of)
        elif operation == sc.EXECUTE_TOOL:
            self._tool.record(seconds, _only(values, _TOOL))
        elif operation == sc.INVOKE_AGENT:
            self._count_turn(span, values, seconds)
        elif operation == sc.INVOKE_WORKFLOW:
            self._task.record(seconds, _only(values, (sc.OPERATION, sc.TASK_STATUS)))

    def _count_turn(self, span: Span, values: dict[str, Value], seconds: float) -> None:
        of = _only(values, _TURN)
        self._agent.record(seconds, of)
        message = _only(values, _MESSAGE)
        self._process.record(seconds, message)
        self._consumed.add(1, message)
        if sc.TURN_WAITED in values:
            self._waited.record(_number(values, sc.TURN_WAITED) / _NS, of)
        again = _number(values, sc.TURN_ATTEMPTS) - 1
        if again > 0:
            self._again.add(again, of)
        failed = sum(event.name == sc.EXCEPTION for event in span.events)
        if failed:
            self._failures.add(failed, of)


def _only(values: Mapping[str, Value], names: Sequence[str]) -> dict[str, str]:
    return {name: str(values[name]) for name in names if name in values}


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0
