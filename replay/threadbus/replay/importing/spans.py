"""Traces as runs: spans of agents, models and tools, from whichever system, told in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from threadbus.replay.importing.building import RunBuilder, said
from threadbus.schemas import (
    AnswerSubmitted,
    ErrorInfo,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MessagePosted,
    ModelCalled,
    TaskClosed,
    TaskStatus,
    ToolCalled,
    ToolReturned,
    clean_text,
)

MAX_DEPTH: Final = 256
"""Levels of spans in spans that are followed upwards."""


class SpanKind(StrEnum):
    """What a span is about."""

    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    HANDOFF = "handoff"
    NOTE = "note"
    OTHER = "other"
    """Nothing that a reader of a run could use; what is below it counts."""


class Span(msgspec.Struct, kw_only=True):
    """One span, whatever system wrote it."""

    id: str
    parent: str = ""
    kind: SpanKind = SpanKind.OTHER
    agent: str = ""
    """Who did it, where the span says so."""
    name: str = ""
    """The agent, model or tool."""
    start: int = 0
    end: int = 0
    error: str = ""
    asked: str = ""
    said: str = ""
    arguments: object = None
    call_id: str = ""
    to: str = ""
    """Of a handoff: whom."""
    system: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    finish_reason: str = ""
    response_id: str = ""


def tell(builder: RunBuilder, spans: Iterable[Span], title: str) -> None:
    """Put the spans of one trace into *builder*."""
    _Teller(builder, {span.id: span for span in spans}).tell(title)


class _Teller:
    def __init__(self, builder: RunBuilder, spans: dict[str, Span]) -> None:
        self._builder = builder
        self._spans = spans
        self._begun: dict[str, int] = {}
        self._handed: dict[str, int] = {}

    def tell(self, title: str) -> None:
        spans = self._spans.values()
        agents = [span for span in spans if span.kind is SpanKind.AGENT]
        roots = [span for span in agents if self._above(span) is None]
        question = next((span.asked for span in self._ordered() if span.asked), "")
        self._builder.open(
            title or question, question, "user", [self._who(span) for span in roots[:1]]
        )
        self._builder.skipped = sum(span.kind is SpanKind.OTHER for span in spans)
        moments = [(span.start, 0, index, span) for index, span in enumerate(self._ordered())]
        # What ends at one moment ends from the inside out.
        moments += [
            (max(span.end, span.start), 1, -index, span)
            for index, span in enumerate(self._ordered())
        ]
        for at, is_end, _, span in sorted(moments, key=lambda moment: moment[:3]):
            (self._end if is_end else self._start)(span, at)
        self._close(roots)

    def _ordered(self) -> list[Span]:
        return sorted(self._spans.values(), key=lambda span: (span.start, self._depth(span)))

    def _depth(self, span: Span) -> int:
        depth, above = 0, self._spans.get(span.parent)
        while above is not None and depth < MAX_DEPTH:
            depth, above = depth + 1, self._spans.get(above.parent)
        return depth

    def _above(self, span: Span) -> Span | None:
        """Return the span of the agent that *span* is part of."""
        above = self._spans.get(span.parent)
        for _ in range(MAX_DEPTH):
            if above is None or above.kind is SpanKind.AGENT:
                return above
            above = self._spans.get(above.parent)
        return None

    def _who(self, span: Span) -> str:
        if span.kind is SpanKind.AGENT:
            return span.name or span.agent or "agent"
        above = self._above(span)
        return span.agent or (self._who(above) if above is not None else "agent")

    def _cause(self, span: Span) -> int:
        above = self._above(span)
        return self._begun.get(above.id, 1) if above is not None else 1

    def _start(self, span: Span, at: int) -> None:
        who, cause, add = self._who(span), self._cause(span), self._builder.add
        match span.kind:
            case SpanKind.AGENT:
                above = self._above(span)
                mention = self._handed.pop(who, 0) or cause
                if above is not None and self._who(above) != who:
                    asks = MessagePosted(parts=said(span.asked), awaited=True)
                    mention = add(self._who(above), asks, cause=cause, to=[who], at=at)
                self._begun[span.id] = mention
                add(who, HandlingStarted(), cause=mention, at=at)
            case SpanKind.TOOL:
                called = ToolCalled(
                    call_id=(span.call_id or span.id)[:200],
                    tool=span.name[:256] or "unknown",
                    arguments=span.arguments,
                )
                self._builder.step()
                add(who, called, cause=cause, at=at)
            case SpanKind.HANDOFF:
                self._builder.step()
                text = f"hands over to {span.to or 'nobody'}"
                to = [span.to] if span.to else []
                number = add(who, MessagePosted(parts=said(text)), cause=cause, to=to, at=at)
                if span.to:
                    self._handed[span.to] = number
            case SpanKind.NOTE:
                self._builder.step()
                add(who, MessagePosted(parts=said(span.said or span.name)), cause=cause, at=at)
            case SpanKind.MODEL | SpanKind.OTHER:
                pass

    def _end(self, span: Span, at: int) -> None:
        who, cause, add = self._who(span), self._cause(span), self._builder.add
        took = max(span.end - span.start, 0)
        error = ErrorInfo("Error", clean_text(span.error, 16_000)) if span.error else None
        match span.kind:
            case SpanKind.AGENT:
                mention = self._begun.get(span.id, 1)
                if error is not None:
                    add(who, HandlingFailed(error=error), cause=mention, at=at)
                    return
                ended = HandlingEnded(received_at=span.start, started_at=span.start, ended_at=at)
                add(who, ended, cause=mention, at=at)
            case SpanKind.TOOL:
                returned = ToolReturned(
                    call_id=(span.call_id or span.id)[:200],
                    tool=span.name[:256] or "unknown",
                    duration_ns=took,
                    parts=said(span.said) if span.said else (),
                    error=error,
                )
                add(who, returned, cause=cause, at=at)
            case SpanKind.MODEL:
                called = ModelCalled(
                    model=span.name[:256] or "unknown",
                    started_at=span.start,
                    duration_ns=took,
                    input_tokens=span.input_tokens,
                    output_tokens=span.output_tokens,
                    cached_tokens=span.cached_tokens,
                    finish_reason=span.finish_reason[:256],
                    response_id=span.response_id[:256],
                    system=span.system[:256],
                    output=said(span.said) if span.said else (),
                    error=error,
                )
                self._builder.step()
                add(who, called, cause=cause, at=at)
            case _:
                pass

    def _close(self, roots: Sequence[Span]) -> None:
        """A trace says that it has ended, and whether that was by an error; seldom more."""
        tops = [span for span in self._spans.values() if span.parent not in self._spans]
        if not tops or not all(span.end for span in tops):
            return
        at = max(span.end for span in self._spans.values())
        failed = next((span.error for span in tops if span.error), "")
        who = self._who(roots[-1]) if roots else self._who(tops[-1])
        words = [s for s in self._ordered() if s.kind is SpanKind.MODEL and s.said and not s.error]
        if words and not failed:
            last = max(words, key=lambda span: span.end)
            who = self._who(last)
            answer = self._builder.add(
                who, AnswerSubmitted(parts=said(last.said)), cause=self._cause(last), at=at
            )
            closed = TaskClosed(outcome=TaskStatus.COMPLETED)
            self._builder.add(who, closed, cause=answer, at=at, answer=answer)
            return
        outcome = TaskStatus.FAILED if failed else TaskStatus.COMPLETED
        closed = TaskClosed(outcome=outcome, summary=clean_text(failed, 16_000))
        self._builder.add(who, closed, cause=1, at=at)
