"""Chats of one agent with tools, in the form of chat completions: tau-bench, AgentRx's tau runs,
and any ``{"messages": […]}``.

``{"task_id": …, "trial": …, "traj": [{"role": "system|user|assistant|tool", "content": …,
"tool_calls": […], "tool_call_id": …, "name": …}]}``. ``reward`` and ``info`` are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from threadbus.replay.importing.building import RunBuilder, said
from threadbus.replay.importing.shape import Json, first, moment_ns, record, records, text, word
from threadbus.schemas import (
    ErrorInfo,
    MessagePosted,
    ToolCalled,
    ToolReturned,
    clean_text,
)

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def messages_of(document: Json) -> list[Json]:
    """Return the messages of a chat; nothing where a document is none."""
    for key in ("traj", "messages", "trajectory", "conversation"):
        messages = records(document.get(key))
        if messages and all(one.get("role") in _ROLES for one in messages[:5]):
            return messages
    return []


def tell(builder: RunBuilder, messages: Sequence[Json], agent: str = "assistant") -> None:
    """Put a chat into *builder*."""
    asked = next((text(one.get("content")) for one in messages if one.get("role") == "user"), "")
    builder.open(asked, "", "user")
    chat = _Chat(builder, agent)
    for message in messages:
        builder.step()
        chat.tell(message)


class _Chat:
    def __init__(self, builder: RunBuilder, agent: str) -> None:
        self._builder = builder
        self._agent = agent
        self._last = 1
        self._woken = 1
        self._calls: dict[str, tuple[int, str]] = {}

    def tell(self, message: Json) -> None:
        role = word(message, "role")
        at = moment_ns(first(message, "timestamp", "created_at", "time", "ts"))
        content = text(first(message, "content", "refusal"))
        if role in {"tool", "function"}:
            self._returned(message, content, at)
            return
        calls = records(message.get("tool_calls"))
        single = record(message.get("function_call"))
        if single:
            calls = [{"id": word(single, "name"), "function": single}]
        name = word(message, "name")
        sender = name or {"assistant": self._agent, "developer": "system"}.get(role, role)
        if content or not calls:
            to = self._to(role, sender, has_calls=bool(calls))
            data = MessagePosted(parts=said(content))
            cause = self._woken if sender == self._agent else self._last
            self._last = self._builder.add(sender, data, cause=cause, to=to, at=at)
            if self._agent in to:
                self._woken = self._last
        for call in calls:
            self._called(sender, call, at)

    def _to(self, role: str, sender: str, *, has_calls: bool) -> tuple[str, ...]:
        if role == "user":
            return (self._agent,)
        return ("user",) if sender == self._agent and not has_calls else ()

    def _called(self, sender: str, call: Json, at: int) -> None:
        function = record(call.get("function")) or call
        call_id = word(call, "id")[:200] or f"call-{self._builder.number()}"
        tool = word(function, "name")[:256] or "unknown"
        called = ToolCalled(call_id=call_id, tool=tool, arguments=arguments_of(function))
        self._builder.add(sender, called, cause=self._woken, at=at)
        self._calls[call_id] = (self._woken, tool)

    def _returned(self, message: Json, content: str, at: int) -> None:
        call_id = word(message, "tool_call_id", "name")[:200]
        cause, tool = self._calls.pop(call_id, (self._woken, ""))
        self._builder.add(
            self._agent,
            ToolReturned(
                call_id=call_id or "unknown",
                tool=tool or word(message, "name")[:256] or "unknown",
                duration_ns=0,
                parts=said(content),
                error=error_of(content),
            ),
            cause=cause,
            at=at,
        )


def error_of(content: str) -> ErrorInfo | None:
    """Return the error that a tool's answer begins with, if it does."""
    start = content[:200].lstrip().lower()
    if start.startswith(("error:", "error ", "traceback (most recent call last)", "exception:")):
        return ErrorInfo("Error", clean_text(content, 16_000))
    return None


def arguments_of(function: Json) -> object:
    """Return the arguments of a call: as JSON where they are that, otherwise as they are."""
    value = first(function, "arguments", "kwargs", "input")
    if not isinstance(value, str):
        return value
    try:
        found: object = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return clean_text(value, 100_000)
    return found
