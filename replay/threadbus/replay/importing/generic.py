"""Any JSON of messages: one object for each, with keys that are often used for author and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadbus.replay.importing.building import RunBuilder, said
from threadbus.replay.importing.chat import arguments_of, error_of
from threadbus.replay.importing.shape import Json, first, items, moment_ns, record, text, word
from threadbus.schemas import (
    ErrorInfo,
    MessagePosted,
    ToolCalled,
    ToolReturned,
    clean_text,
)

AUTHOR: Final = ("agent", "author", "sender", "from", "speaker", "name", "source", "role")
CONTENT: Final = ("content", "text", "message", "body", "output", "response", "result")
TO: Final = ("to", "recipient", "recipients", "receiver", "target", "mentions")
TIME: Final = ("timestamp", "time", "ts", "created_at", "at", "date")
RUN: Final = ("run", "run_id", "task", "task_id", "session", "session_id", "conversation_id")
_TOOL: Final = ("tool", "tool_name", "function")
_IDS: Final = ("id", "message_id", "event_id")
_CAUSES: Final = ("reply_to", "in_reply_to", "parent_id", "cause")


def is_message(document: Json) -> bool:
    """Whether an object says who said what."""
    has_author = any(isinstance(document.get(key), str) for key in AUTHOR)
    has_text = any(document.get(key) is not None for key in (*CONTENT, *_TOOL))
    return has_author and has_text


def tell(builder: RunBuilder, messages: Sequence[Json]) -> None:
    """Put messages into *builder*, in the order in which they stand."""
    opening = messages[0]
    asked = text(first(opening, *CONTENT))
    builder.open(asked, "", word(opening, *AUTHOR) or "user", _names(opening))
    numbers: dict[str, int] = {}
    calls: dict[str, int] = {}
    last = 1
    woken = dict.fromkeys(_names(opening), 1)
    for message in messages:
        builder.step()
        who = word(message, *AUTHOR) or "unknown"
        at = moment_ns(first(message, *TIME))
        cause = numbers.get(word(message, *_CAUSES), last)
        tool = first(message, *_TOOL)
        if tool is not None:
            _tool(builder, message, tool, who, at, woken.get(who, cause), calls)
        else:
            posted = MessagePosted(parts=said(text(first(message, *CONTENT))))
            if not word(message, *_CAUSES):
                cause = woken.get(who, last)
            last = builder.add(who, posted, cause=cause, to=_names(message), at=at)
            woken.update(dict.fromkeys(_names(message), last))
        numbers[word(message, *_IDS)] = last


def _names(message: Json) -> list[str]:
    value = first(message, *TO)
    names = [value] if isinstance(value, str) else list(items(value))
    return [clean_text(name, 200) for name in names if isinstance(name, str) and name.strip()]


def _tool(
    builder: RunBuilder,
    message: Json,
    tool: object,
    who: str,
    at: int,
    cause: int,
    calls: dict[str, int],
) -> None:
    """Tell a call, its return, or both where one object has both."""
    name = (text(tool) if isinstance(tool, str) else word(record(tool), "name"))[:256] or "unknown"
    call_id = word(message, "call_id", "tool_call_id", *_IDS)[:200] or name
    asked = first(message, "arguments", "args", "input", "parameters", "kwargs")
    result = first(message, "result", "output", "content", "text", "response")
    failed = first(message, "error", "exception")
    number = calls.pop(call_id, 0)
    if not number:
        called = ToolCalled(
            call_id=call_id, tool=name, arguments=arguments_of({"arguments": asked})
        )
        builder.add(who, called, cause=cause, at=at)
        number = cause
        if result is None and failed is None:
            calls[call_id] = number
            return
    content = text(result)
    error = error_of(content)
    if failed is not None:
        error = ErrorInfo("Error", clean_text(text(failed), 16_000))
    returned = ToolReturned(
        call_id=call_id,
        tool=name,
        duration_ns=0,
        parts=said(content) if content else (),
        error=error,
    )
    builder.add(who, returned, cause=number, at=at)
