"""A foreign MCP server as an agent: tools are skills, a mention is a call, results are parts."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

import mcp_types as types
import msgspec

from threadbus.agents import Agent, AgentLimits, GiveUpError, Mention, NoModelError
from threadbus.agents.model import ChatMessage, Tool, ToolSpec
from threadbus.gateways.errors import RemoteServerError
from threadbus.gateways.mcp.remote import RemoteServer
from threadbus.gateways.text import clean_json, cut_text
from threadbus.schemas import (
    MAX_PARTS,
    MAX_SKILLS,
    DataPart,
    ErrorInfo,
    FilePart,
    Part,
    Parts,
    Skill,
    TextPart,
    ToolCalled,
    ToolReturned,
    clean_text,
    text_of,
)

CALL_TIMEOUT_S: Final = 600.0
"""Seconds that one call of a tool may take."""

MAX_RESULT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the content of one result; what is over is left out and said."""

_MAX_DESCRIPTION: Final = 500
_MAX_OFFERED: Final = 128
_SYSTEM: Final = (
    "You run the tools of the MCP server '{title}' for other agents. Do what the message asks by "
    "calling the tools, then say in a few words what came of it. If no tool fits, say so."
)


def make_agent(name: str, remote: RemoteServer, description: str = "") -> Agent:
    """Make an agent of a server that is up.

    Args:
        name: the agent's name.
        remote: the server.
        description: what it can do; what the server says of itself when empty.
    """
    about = description or remote.about or f"The tools of the MCP server {remote.title}."
    agent = Agent(
        name,
        display_name=clean_text(remote.title, 120),
        description=cut_text(about, 2000),
        skills=skills_of(remote.tools),
        input_modes=("text/plain", "application/json"),
        output_modes=("text/plain", "application/json"),
        labels={"via": "mcp-client"},
        # A call is not made twice by itself: nobody knows what it does.
        limits=AgentLimits(max_attempts=1, turn_timeout=timedelta(seconds=CALL_TIMEOUT_S * 2)),
    )

    @agent.on_mention
    async def handle(mention: Mention) -> Parts | str:
        return await _Work(mention, remote).do()

    return agent


def skills_of(tools: Sequence[types.Tool]) -> list[Skill]:
    """Return the tools as skills of a card, as many as one takes."""
    return [
        Skill(
            id=clean_text(tool.name, 256),
            name=clean_text(tool.title or tool.name, 400),
            description=clean_text(tool.description or "", _MAX_DESCRIPTION),
            tags=("mcp-tool",),
        )
        for tool in tools[:MAX_SKILLS]
    ]


def calls_in(parts: Sequence[Part]) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool calls in data parts: ``{"tool": name, "arguments": {…}}``."""
    calls: list[tuple[str, dict[str, Any]]] = []
    for part in parts:
        if not isinstance(part, DataPart):
            continue
        match part.data:
            case {"tool": str(name), **rest} if isinstance(rest.get("arguments", {}), dict):
                calls.append((name, cast("dict[str, Any]", rest.get("arguments", {}))))
            case _:
                pass
    return calls


def parts_of(result: types.CallToolResult) -> Parts:
    """Return the content of a result as parts; pure."""
    parts: list[Part] = []
    room = MAX_RESULT_BYTES
    for block in result.content:
        part = _part(block)
        if isinstance(part, TextPart) and _says(part.text, result.structured_content):
            # Servers send structure as text, too, for clients that know text only.
            continue
        size = len(part.content) if isinstance(part, FilePart) else len(text_of([part]))
        if size > room or len(parts) >= MAX_PARTS - 2:
            parts.append(TextPart(f"[left out: {block.type}, {size:,} bytes or more]"))
            break
        room -= size
        parts.append(part)
    if result.structured_content is not None:
        value = clean_json(result.structured_content, what="the structured result")
        parts.append(DataPart(value, name="structured"))
    return tuple(parts)


def _says(text: str, value: Any) -> bool:
    """Whether a text is the JSON of a value."""
    if value is None or not text.startswith(("{", "[")):
        return False
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False


def _part(block: types.ContentBlock) -> Part:
    match block:
        case types.TextContent():
            return TextPart(clean_text(block.text))
        case types.ImageContent() | types.AudioContent():
            return FilePart(_bytes(block.data), block.type, clean_text(block.mime_type, 256))
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            return TextPart(clean_text(text.text))
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            name = clean_text(blob.uri.rpartition("/")[2], 256)
            kind = clean_text(blob.mime_type or "application/octet-stream", 256)
            return FilePart(_bytes(blob.blob), name, kind)
        case types.ResourceLink():
            return TextPart(clean_text(f"{block.title or block.name}: {block.uri}"))
        case _:
            return TextPart(f"[{block.type}]")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


class _Work:
    """What is done for one mention."""

    def __init__(self, mention: Mention, remote: RemoteServer) -> None:
        self._mention = mention
        self._remote = remote
        self._tools = {tool.name: tool for tool in remote.tools}

    async def do(self) -> Parts | str:
        """Do what the mention asks."""
        calls = calls_in(self._mention.parts)
        if calls:
            found: list[Part] = []
            for number, (name, arguments) in enumerate(calls):
                found += await self._call(name, arguments, f"{number}")
            return tuple(found[:MAX_PARTS])
        text = self._mention.text.strip()
        only = self._only_text_tool()
        if only is not None:
            tool, argument = only
            return await self._call(tool, {argument: text}, "0")
        return await self._let_model_choose(text)

    def _only_text_tool(self) -> tuple[str, str] | None:
        """Return the tool and its argument where there is one that takes one text."""
        if len(self._tools) != 1:
            return None
        (tool,) = self._tools.values()
        required = cast("list[str]", tool.input_schema.get("required") or [])
        properties = cast("Mapping[str, Any]", tool.input_schema.get("properties") or {})
        if len(required) != 1 or required[0] not in properties:
            return None
        kind = cast("Mapping[str, Any]", properties[required[0]]).get("type")
        return (tool.name, required[0]) if kind == "string" else None

    async def _let_model_choose(self, text: str) -> str:
        messages = [
            ChatMessage.system(_SYSTEM.format(title=self._remote.title)),
            ChatMessage.user(text),
        ]
        offered = {
            tool.name: self._offered(tool) for tool in list(self._tools.values())[:_MAX_OFFERED]
        }
        try:
            return (await self._mention.thinking.run(messages, offered)).text
        except NoModelError as error:
            names = ", ".join(list(self._tools)[:20])
            raise GiveUpError(
                f"no model chooses a tool here: send a data part "
                f'{{"tool": name, "arguments": {{…}}}}; the tools are {names}'
            ) from error

    def _offered(self, tool: types.Tool) -> Tool:
        spec = ToolSpec(
            tool.name, clean_text(tool.description or tool.title or "", 4000), tool.input_schema
        )

        async def run(arguments: Any) -> Parts:
            result = await self._remote.call(
                tool.name, dict(arguments), CALL_TIMEOUT_S, self._mention.progress
            )
            parts = parts_of(result)
            if result.is_error:
                raise RemoteServerError(tool.name, cut_text(text_of(parts), 2000))
            return parts

        return Tool(spec, run, timedelta(seconds=CALL_TIMEOUT_S))

    async def _call(self, name: str, arguments: dict[str, Any], call_id: str) -> Parts:
        """Call one tool on record.

        Raises:
            GiveUpError: it failed, or it is not known whether it was called before.
        """
        tool = self._tools.get(name)
        if tool is None:
            names = ", ".join(list(self._tools)[:20])
            raise GiveUpError(f"there is no tool {name[:100]!r}; the tools are {names}")
        # Before anything is on record: a call that was not made may be made later.
        await self._until_up()
        called = await self._mention.append(
            ToolCalled(call_id=call_id, tool=tool.name[:256], arguments=clean_json(arguments))
        )
        if called.duplicate and not _is_repeatable(tool):
            raise GiveUpError(
                f"{name} was called before and its outcome is not known; look whether it was done, "
                "then ask again"
            )
        began = time.perf_counter_ns()
        try:
            result = await self._remote.call(
                name, arguments, CALL_TIMEOUT_S, self._mention.progress
            )
        except RemoteServerError as error:
            await self._returned(tool, call_id, began, (), ErrorInfo("server", str(error)))
            raise GiveUpError(str(error)) from error
        parts = parts_of(result)
        if result.is_error:
            reason = cut_text(text_of(parts), 4000) or "the tool failed and did not say why"
            await self._returned(tool, call_id, began, (), ErrorInfo("tool", reason))
            raise GiveUpError(f"{name}: {reason}")
        await self._returned(tool, call_id, began, (), None)
        return parts

    async def _until_up(self) -> None:
        try:
            await self._remote.until_up()
        except RemoteServerError as error:
            raise GiveUpError(str(error)) from error

    async def _returned(
        self, tool: types.Tool, call_id: str, began: int, parts: Parts, error: ErrorInfo | None
    ) -> None:
        await self._mention.append(
            ToolReturned(
                call_id=call_id,
                tool=tool.name[:256],
                duration_ns=time.perf_counter_ns() - began,
                parts=parts,
                error=error,
            )
        )


def _is_repeatable(tool: types.Tool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
