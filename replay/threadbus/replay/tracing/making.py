"""How each kind of span looks: names, attributes, links. docs/traces.md lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from threadbus.replay.finding import Finding, FindingKind
from threadbus.replay.steps import (
    MAX_TOKENS,
    MAX_WORD_CHARS,
    call_text,
    cut,
    cut_parts,
    fault,
    ns,
)
from threadbus.replay.tracing import semconv as sc
from threadbus.replay.tracing.model import (
    Attributes,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    Value,
    attributes,
    link_beyond,
    link_to,
)
from threadbus.replay.tracing.open import MAX_LINKS, OpenThread, OpenTool, OpenTurn
from threadbus.schemas import (
    ErrorInfo,
    Event,
    EventId,
    MentionDeadLettered,
    ModelCalled,
    Parts,
    SpanId,
    TaskId,
    ThreadId,
    ToolCalled,
    ToolReturned,
    span_id,
    task_span_id,
    thread_span_id,
)

SERVICE: Final = "threadbus"
"""Whose spans a super-task and its threads are."""

_JSON: Final = msgspec.json.Encoder()
_WOKEN: Final = ((sc.LINK, "woken_by"),)
_REPLY: Final = ((sc.LINK, "reply"),)
_OPENED_IN: Final = ((sc.LINK, "opened_in"),)
_FOREIGN: Final = ((sc.LINK, "foreign"),)


def _common(task: TaskId, thread: ThreadId, seq: int | None) -> dict[str, Value | None]:
    return {sc.TASK: task, sc.CONVERSATION_ID: task, sc.THREAD: thread, sc.SEQ: seq}


def error_text(error: ErrorInfo) -> str:
    """Return an error as the message of a status."""
    told = fault(error)
    return f"{told.kind}: {told.message}" if told.message else told.kind


def error_event(error: ErrorInfo, at: int, attempt: int) -> SpanEvent:
    """Return a failed attempt as an event of its turn."""
    told = fault(error)
    values: dict[str, Value | None] = {
        sc.EXCEPTION_TYPE: told.kind,
        sc.EXCEPTION_MESSAGE: told.message,
        sc.TURN_ATTEMPTS: attempt,
    }
    return SpanEvent(sc.EXCEPTION, at, attributes(values))


def chat_messages(role: str, text: str) -> str | None:
    """Return what was said in the form that the conventions have for it."""
    if not text:
        return None
    row = {"role": role, "parts": [{"type": "text", "content": text}]}
    return _JSON.encode([row]).decode()


def send_span(
    seq: int, event: Event, *, parent: SpanId, start: int, end: int, content: bool
) -> Span:
    """Return the span of an event that was put on the bus for others to see."""
    data = event.data
    to = event.mentions
    # Whom it wakes comes first: viewers cut long names at their end.
    whom = f"to {' and '.join(to) if len(to) < 3 else f'{len(to)} agents'}: " if to else ""
    error = data.error if isinstance(data, MentionDeadLettered) else None
    parts: Parts = getattr(data, "parts", ())
    values = _common(event.task, event.thread, seq) | {
        sc.AGENT_NAME: event.sender,
        sc.MESSAGING_SYSTEM: sc.NATS,
        sc.MESSAGING_OPERATION: sc.SEND,
        sc.MESSAGING_TYPE: sc.SEND,
        sc.DESTINATION_TEMPLATE: sc.LOG_TEMPLATE,
        sc.DESTINATION: event.subject,
        sc.MESSAGE_ID: event.id,
        sc.MESSAGE_CONVERSATION: event.thread,
        sc.EVENT_TYPE: cut(event.type, MAX_WORD_CHARS).text,
        sc.MENTIONS: tuple(to) or None,
        sc.CAUSE: event.cause,
        sc.ERROR_TYPE: None if error is None else fault(error).kind,
        sc.OUTPUT_MESSAGES: (
            chat_messages("assistant", cut_parts(parts).text) if content and parts else None
        ),
    }
    return Span(
        trace=event.task,
        id=span_id(event.id),
        parent=parent,
        service=event.sender,
        name=f"{sc.SEND} {whom}{cut(event.type, MAX_WORD_CHARS).text}",
        kind=SpanKind.PRODUCER,
        start=start,
        end=max(start, end),
        attributes=attributes(values),
        error=None if error is None else error_text(error),
    )


def model_span(
    seq: int, event: Event, data: ModelCalled, *, parent: SpanId, start: int, content: bool
) -> Span:
    """Return the span of a call of a model."""
    model = cut(data.model, MAX_WORD_CHARS).text
    reason = cut(data.finish_reason, MAX_WORD_CHARS).text
    values = _common(event.task, event.thread, seq) | {
        sc.OPERATION: sc.CHAT,
        sc.AGENT_NAME: event.sender,
        sc.PROVIDER: cut(data.system, MAX_WORD_CHARS).text,
        sc.REQUEST_MODEL: model,
        sc.RESPONSE_ID: cut(data.response_id, MAX_WORD_CHARS).text,
        sc.FINISH_REASONS: (reason,) if reason else None,
        sc.INPUT_TOKENS: min(data.input_tokens, MAX_TOKENS),
        sc.OUTPUT_TOKENS: min(data.output_tokens, MAX_TOKENS),
        sc.CACHED_TOKENS: min(data.cached_tokens, MAX_TOKENS) or None,
        sc.ESTIMATED: data.estimated or None,
        sc.ERROR_TYPE: None if data.error is None else fault(data.error).kind,
        sc.OUTPUT_MESSAGES: (
            chat_messages("assistant", cut_parts(data.output).text) if content else None
        ),
    }
    return Span(
        trace=event.task,
        id=span_id(event.id),
        parent=parent,
        service=event.sender,
        name=f"{sc.CHAT} {model}",
        kind=SpanKind.CLIENT,
        start=start,
        end=start + ns(data.duration_ns),
        attributes=attributes(values),
        error=None if data.error is None else error_text(data.error),
    )


def open_tool(
    seq: int,
    event: Event,
    data: ToolCalled | ToolReturned,
    *,
    parent: SpanId,
    start: int,
    content: bool,
) -> OpenTool:
    """Return a tool that runs."""
    shown = None
    if content and isinstance(data, ToolCalled) and data.arguments is not None:
        shown = call_text(data.arguments)
    return OpenTool(
        id=event.id,
        seq=seq,
        tool=cut(data.tool, MAX_WORD_CHARS).text,
        call_id=cut(data.call_id, MAX_WORD_CHARS).text,
        agent=event.sender,
        thread=event.thread,
        parent=parent,
        start=start,
        arguments=shown,
    )


def tool_span(
    task: TaskId, tool: OpenTool, data: ToolReturned | None, end: int, *, content: bool
) -> Span:
    """Return the span of a call of a tool; without *data* it never returned."""
    error = None if data is None else data.error
    values = _common(task, tool.thread, tool.seq) | {
        sc.OPERATION: sc.EXECUTE_TOOL,
        sc.AGENT_NAME: tool.agent,
        sc.TOOL_NAME: tool.tool,
        sc.TOOL_CALL_ID: tool.call_id,
        sc.TOOL_ARGUMENTS: tool.arguments,
        sc.TOOL_RETURNED: False if data is None else None,
        sc.ERROR_TYPE: None if error is None else fault(error).kind,
        sc.TOOL_RESULT: cut_parts(data.parts).text if content and data is not None else None,
    }
    return Span(
        trace=task,
        id=span_id(tool.id),
        parent=tool.parent,
        service=tool.agent,
        name=f"{sc.EXECUTE_TOOL} {tool.tool}",
        kind=SpanKind.INTERNAL,
        start=tool.start,
        end=max(tool.start, end),
        attributes=attributes(values),
        error=None if error is None else error_text(error),
    )


def turn_span(task: TaskId, turn: OpenTurn, *, outcome: str, end: int, state: str | None) -> Span:
    """Return the span of a turn."""
    links = [link_to(task, turn.mention, _WOKEN)]
    links += [link_to(task, reply, _REPLY) for reply in turn.replies[: MAX_LINKS - 1]]
    values = _common(task, turn.thread, turn.seq) | {
        sc.OPERATION: sc.INVOKE_AGENT,
        sc.AGENT_NAME: turn.agent,
        sc.MESSAGING_SYSTEM: sc.NATS,
        sc.MESSAGING_OPERATION: sc.PROCESS,
        sc.MESSAGING_TYPE: sc.PROCESS,
        sc.DESTINATION_TEMPLATE: sc.INBOX_TEMPLATE,
        sc.DESTINATION: f"mention.{turn.agent}.{task}.{turn.thread}",
        sc.CONSUMER_GROUP: f"agent-{turn.agent}",
        sc.MESSAGE_ID: turn.mention,
        sc.MESSAGE_CONVERSATION: turn.thread,
        sc.WOKEN_BY: turn.woken_by,
        sc.TURN_OUTCOME: outcome,
        sc.TURN_ATTEMPTS: turn.attempts or None,
        sc.TURN_WAITED: max(turn.start - turn.asked_at, 0) if turn.asked_at else None,
        sc.TURN_REPLICA: turn.replica,
        sc.TURN_QUEUE: turn.queue_depth,
        sc.TURN_STORED: turn.was_stored or None,
        sc.INPUT_TOKENS: min(turn.input_tokens, MAX_TOKENS) if turn.has_called else None,
        sc.OUTPUT_TOKENS: min(turn.output_tokens, MAX_TOKENS) if turn.has_called else None,
        sc.INPUT_MESSAGES: chat_messages("user", turn.asked),
        sc.ERROR_TYPE: None if turn.error is None else fault(turn.error).kind,
        sc.TASK_STATE: state,
    }
    return Span(
        trace=task,
        id=turn.span,
        parent=thread_span_id(task, turn.thread),
        service=turn.agent,
        name=f"{sc.INVOKE_AGENT} {turn.agent}",
        kind=SpanKind.CONSUMER,
        start=turn.start,
        end=max(turn.start, end),
        attributes=attributes(values),
        events=tuple(turn.events),
        links=tuple(links),
        error=None if turn.error is None else error_text(turn.error),
    )


def thread_span(
    task: TaskId, thread: OpenThread, *, end: int, outcome: str, state: str | None
) -> Span:
    """Return the span of a thread that is not the main one."""
    values = _common(task, thread.thread, None) | {
        sc.MESSAGE_CONVERSATION: thread.thread,
        sc.THREAD_PARENT: thread.parent,
        sc.THREAD_OUTCOME: outcome,
        sc.TASK_STATE: state,
    }
    links: tuple[SpanLink, ...] = ()
    if thread.opened_in is not None:
        links = (SpanLink(task, thread.opened_in, _OPENED_IN),)
    slug, _, suffix = thread.thread.rpartition("-")
    return Span(
        trace=task,
        id=thread_span_id(task, thread.thread),
        parent=task_span_id(task),
        service=SERVICE,
        name=f"thread {slug if slug and len(suffix) == 6 else thread.thread}",
        kind=SpanKind.INTERNAL,
        start=thread.start,
        end=max(thread.start, end),
        attributes=attributes(values),
        links=links,
        error=outcome if outcome == "failed" else None,
    )


def root_span(
    task: TaskId,
    *,
    start: int,
    end: int,
    values: dict[str, Value | None],
    findings: Sequence[Finding],
    traceparent: str,
    error: str | None,
) -> Span:
    """Return the span of the whole super-task, with what was found in it."""
    common = _common(task, ThreadId("main"), None) | {sc.OPERATION: sc.INVOKE_WORKFLOW}
    shown = findings[: MAX_LINKS - 1]
    called_in = link_beyond(traceparent, _FOREIGN)
    foreign = () if called_in is None else (called_in,)
    return Span(
        trace=task,
        id=task_span_id(task),
        parent=None,
        service=SERVICE,
        name=sc.INVOKE_WORKFLOW,
        kind=SpanKind.INTERNAL,
        start=start,
        end=max(start, end),
        attributes=attributes(common | values | {sc.FINDINGS: len(findings) or None}),
        events=tuple([_finding(found) for found in shown]),
        links=(*foreign, *_blamed(task, shown)),
        error=error,
    )


def _finding(found: Finding) -> SpanEvent:
    values: dict[str, Value | None] = {
        sc.FINDING_ID: found.detector,
        sc.FINDING_NAME: found.name,
        sc.FINDING_SEVERITY: found.kind.value,
        sc.FINDING_TEXT: cut(found.text, 1_000).text,
        sc.FINDING_AGENT: found.agent,
        sc.SEQ: found.seq,
        sc.FINDING_SPAN: span_id(found.evidence[0]) if found.evidence else None,
    }
    return SpanEvent(sc.FINDING, found.at, attributes(values))


def _blamed(task: TaskId, findings: Iterable[Finding]) -> list[SpanLink]:
    seen: dict[EventId, Attributes] = {}
    for found in findings:
        if found.evidence and found.kind is not FindingKind.HINT:
            seen.setdefault(
                found.evidence[0], ((sc.LINK, "finding"), (sc.FINDING_ID, found.detector))
            )
    return [link_to(task, event, tuple(sorted(why))) for event, why in seen.items()]
