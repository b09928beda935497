"""The tools that the MCP conformance suites want to find."""

from __future__ import annotations

import asyncio
import contextlib
import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from threadbus.gateways.mcp.calling import Context

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGA"
    "hKmMIQAAAABJRU5ErkJggg=="
)
WAV: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
PAUSE_S: Final = 0.05

Done = types.CallToolResult | types.InputRequiredResult
Run = Callable[[Context, types.CallToolRequestParams], Awaitable[Done]]
TOOLS: dict[str, Run] = {}


def fixture(run: Callable[[Context, types.CallToolRequestParams], Awaitable[Done]]) -> Run:
    """Register a tool under the name of its function."""
    TOOLS[run.__name__] = run
    return run


def text(words: str) -> types.TextContent:
    """Make a text."""
    return types.TextContent(type="text", text=words)


def said(*content: types.ContentBlock) -> types.CallToolResult:
    """Make a result."""
    return types.CallToolResult(content=[*content])


def form(message: str, properties: Mapping[str, Any], *required: str) -> types.ElicitRequest:
    """Make a question to a person."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sampling(question: str, tokens: int) -> types.CreateMessageRequest:
    """Make a question to a model."""
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=text(question))],
            max_tokens=tokens,
        )
    )


NAME: Final = form("What is your name?", {"name": {"type": "string"}}, "name")


def content_of(params: types.CallToolRequestParams, key: str) -> Mapping[str, Any]:
    """Return what a person answered; nothing where they did not."""
    given = (params.input_responses or {}).get(key)
    return (given.content or {}) if isinstance(given, types.ElicitResult) else {}


@fixture
async def test_simple_text(ctx: Context, params: types.CallToolRequestParams) -> Done:
    return said(text("This is a simple text response for testing."))


@fixture
async def test_image_content(ctx: Context, params: types.CallToolRequestParams) -> Done:
    return said(types.ImageContent(type="image", data=PNG, mime_type="image/png"))


@fixture
async def test_audio_content(ctx: Context, params: types.CallToolRequestParams) -> Done:
    return said(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


def embedded(uri: str, kind: str, words: str) -> types.EmbeddedResource:
    """Make a resource inside a message."""
    contents = types.TextResourceContents(uri=uri, mime_type=kind, text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


@fixture
async def test_embedded_resource(ctx: Context, params: types.CallToolRequestParams) -> Done:
    words = "This is an embedded resource content."
    return said(embedded("test://embedded-resource", "text/plain", words))


@fixture
async def test_multiple_content_types(ctx: Context, params: types.CallToolRequestParams) -> Done:
    body = json.dumps({"test": "data", "value": 123})
    return said(
        text("Multiple content types test:"),
        types.ImageContent(type="image", data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", body),
    )


async def log(ctx: Context, words: str) -> None:
    """Send a log message where the protocol allows it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        sending = ctx.session.send_log_message(  # pyright: ignore[reportDeprecated]
            "info", words, related_request_id=ctx.request_id
        )
    await sending


async def pause() -> None:
    """Let a moment pass: the suites want to see that messages come one by one."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAUSE_S):
            await asyncio.Event().wait()


@fixture
async def test_tool_with_logging(ctx: Context, params: types.CallToolRequestParams) -> Done:
    await log(ctx, "Tool execution started")
    await pause()
    await log(ctx, "Tool processing data")
    await pause()
    await log(ctx, "Tool execution completed")
    return said(text("logged"))


@fixture
async def test_logging_tool(ctx: Context, params: types.CallToolRequestParams) -> Done:
    await log(ctx, "a line")
    return said(text("logged"))


@fixture
async def test_error_handling(ctx: Context, params: types.CallToolRequestParams) -> Done:
    words = "This tool intentionally returns an error for testing"
    return types.CallToolResult(content=[text(words)], is_error=True)


@fixture
async def test_tool_with_progress(ctx: Context, params: types.CallToolRequestParams) -> Done:
    for share in (0, 50, 100):
        await ctx.session.report_progress(share, 100, f"{share} of 100")
        await pause()
    return said(text("done"))


@fixture
async def test_sampling(ctx: Context, params: types.CallToolRequestParams) -> Done:
    asked = sampling(str((params.arguments or {}).get("prompt")), 100)
    answer = await ctx.session.send_request(asked, types.CreateMessageResult, metadata=_here(ctx))
    content = answer.content
    return said(text(f"LLM response: {content.text if content.type == 'text' else ''}"))


def _here(ctx: Context) -> ServerMessageMetadata:
    return ServerMessageMetadata(related_request_id=ctx.request_id)


async def elicit(ctx: Context, asked: types.ElicitRequest) -> str:
    """Ask the person, and return what came back in a few words."""
    params = asked.params
    assert isinstance(params, types.ElicitRequestFormParams)
    found = await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)
    return f"action={found.action}, content={json.dumps(found.content)}"


@fixture
async def test_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Done:
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    message = str((params.arguments or {}).get("message"))
    return said(text(f"User response: {await elicit(ctx, form(message, fields, *fields))}"))


@fixture
async def test_elicitation_sep1034_defaults(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return said(text(f"Elicitation completed: {await elicit(ctx, form('Defaults', fields))}"))


@fixture
async def test_elicitation_sep1330_enums(ctx: Context, params: types.CallToolRequestParams) -> Done:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{n}. option"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return said(text(f"Elicitation completed: {await elicit(ctx, form('Enums', fields))}"))


# questions that come back with the call made again


@fixture
async def test_input_required_result_elicitation(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    name = content_of(params, "user_name").get("name")
    if name is None:
        return types.InputRequiredResult(input_requests={"user_name": NAME})
    return said(text(f"Hello, {name}!"))


@fixture
async def test_input_required_result_sampling(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    given = (params.input_responses or {}).get("capital_question")
    if not isinstance(given, types.CreateMessageResult):
        asked = sampling("What is the capital of France?", 100)
        return types.InputRequiredResult(input_requests={"capital_question": asked})
    content = given.content
    return said(text(content.text if content.type == "text" else ""))


@fixture
async def test_input_required_result_list_roots(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    given = (params.input_responses or {}).get("client_roots")
    if not isinstance(given, types.ListRootsResult):
        return types.InputRequiredResult(input_requests={"client_roots": types.ListRootsRequest()})
    return said(text(", ".join(str(root.uri) for root in given.roots)))


CONFIRM: Final = form("Please confirm", {"ok": {"type": "boolean"}}, "ok")


@fixture
async def test_input_required_result_request_state(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    if params.request_state != "waiting":
        return types.InputRequiredResult(
            input_requests={"confirm": CONFIRM}, request_state="waiting"
        )
    return said(text("state-ok"))


TOOLS["test_input_required_result_tampered_state"] = test_input_required_result_request_state


@fixture
async def test_input_required_result_multiple_inputs(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    asked: dict[str, types.InputRequest] = {
        "user_name": NAME,
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    if not asked.keys() <= (params.input_responses or {}).keys():
        return types.InputRequiredResult(input_requests=asked, request_state="all")
    return said(text("all there"))


@fixture
async def test_input_required_result_multi_round(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    if params.request_state is None:
        first = form("Step 1: What is your name?", {"name": {"type": "string"}}, "name")
        return types.InputRequiredResult(input_requests={"step1": first}, request_state="one")
    if params.request_state == "one":
        field = {"color": {"type": "string"}}
        second = form("Step 2: What is your favorite color?", field, "color")
        return types.InputRequiredResult(input_requests={"step2": second}, request_state="two")
    return said(text("both steps"))


@fixture
async def test_input_required_result_capabilities(
    ctx: Context, params: types.CallToolRequestParams
) -> Done:
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    asked: dict[str, types.InputRequest] = {}
    if can.elicitation is not None:
        asked["user_name"] = NAME
    if can.sampling is not None:
        asked["greeting"] = sampling("Generate a greeting", 50)
    if asked and not params.input_responses:
        return types.InputRequiredResult(input_requests=asked)
    return said(text("nothing to ask"))


@fixture
async def test_streaming_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Done:
    return await test_input_required_result_elicitation(ctx, params)


@fixture
async def test_missing_capability(ctx: Context, params: types.CallToolRequestParams) -> Done:
    can = ctx.session.client_capabilities
    if can is None or can.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is required", needed)
    return said(text("sampling is there"))
