"""The gateway with what the MCP conformance suites want to find: tools, resources and prompts.

Everything else is the gateway as it is: transport, checks, sealing of state, subscriptions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged
from mcp_types import INVALID_PARAMS

from tests.support.mcp_fixture_tools import PNG, TOOLS, Done, embedded, form, said, text
from threadbus.gateways.mcp.calling import Context, is_modern
from threadbus.gateways.mcp.gateway import Gateway

Content = list[types.ContentBlock]

RESOURCES: Final = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://watched-resource": ("text/plain", "watched"),
}
PROMPTS: Final = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


class FixtureGateway(Gateway):
    """A gateway that serves the fixtures, too."""

    def _make_server(self) -> Server[Any]:
        server = super()._make_server()
        server.add_request_handler(
            "completion/complete", types.CompleteRequestParams, self._complete
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        return server

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> Any:
        return types.CompleteResult(completion=types.Completion(values=["paris"], total=1))

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> Any:
        return types.EmptyResult()

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        listed = await super()._list_tools(ctx, params)
        listed.tools += [
            types.Tool(
                name=name,
                description=f"The fixture {name}.",
                input_schema={"type": "object", "properties": {}},
            )
            for name in [*TOOLS, "test_trigger_tool_change", "test_trigger_prompt_change"]
        ]
        return listed

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Done:
        if params.name == "test_trigger_tool_change":
            self.hub.tools_changed()
            return said(text("changed"))
        if params.name == "test_trigger_prompt_change":
            self.hub.publish(PromptsListChanged())
            return said(text("changed"))
        run = TOOLS.get(params.name)
        return await (super()._call_tool(ctx, params) if run is None else run(ctx, params))

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        listed = await super()._list_resources(ctx, params)
        listed.resources += [
            types.Resource(uri=uri, name=uri.rpartition("/")[2], description="A fixture.")
            for uri in [*RESOURCES, "test://static-binary"]
        ]
        return listed

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        listed = await super()._list_templates(ctx, params)
        listed.resource_templates.append(
            types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        )
        return listed

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = params.uri
        words = uri.removeprefix("test://").split("/")
        if uri in RESOURCES:
            kind, body = RESOURCES[uri]
        elif uri == "test://static-binary":
            blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
            return types.ReadResourceResult(contents=[blob])
        elif words[0] == "template" and words[2:] == ["data"]:
            kind = "application/json"
            body = json.dumps(
                {"id": words[1], "templateTest": True, "data": f"Data for ID: {words[1]}"}
            )
        else:
            return await super()._read_resource(ctx, params)
        contents = types.TextResourceContents(uri=uri, mime_type=kind, text=body)
        return types.ReadResourceResult(contents=[contents])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> Any:
        if params.uri in RESOURCES:
            return types.EmptyResult()
        return await super()._subscribe(ctx, params)

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> Any:
        return types.EmptyResult()

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        listed = await super()._list_prompts(ctx, params)
        listed.prompts += [
            types.Prompt(
                name=name,
                description="A fixture.",
                arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        return listed

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name not in PROMPTS:
            return await super()._get_prompt(ctx, params)
        given = params.arguments or {}
        missing = [name for name in PROMPTS[params.name] if name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"missing: {', '.join(missing)}")
        if params.name == "test_input_required_result_prompt" and is_modern(ctx):
            if "user_context" not in (params.input_responses or {}):
                field = {"context": {"type": "string"}}
                asked = form("What context should the prompt use?", field, "context")
                return types.InputRequiredResult(input_requests={"user_context": asked})
            return types.GetPromptResult(messages=[_user(text("in context"))])
        return types.GetPromptResult(messages=[_user(block) for block in _blocks(params, given)])


def _user(block: types.ContentBlock) -> types.PromptMessage:
    return types.PromptMessage(role="user", content=block)


def _blocks(params: types.GetPromptRequestParams, given: Mapping[str, str]) -> Content:
    if params.name == "test_prompt_with_arguments":
        return [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
    if params.name == "test_prompt_with_embedded_resource":
        words = "Embedded resource content for testing."
        return [
            embedded(given["resourceUri"], "text/plain", words),
            text("Please process the embedded resource above."),
        ]
    if params.name == "test_prompt_with_image":
        image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
        return [image, text("Please analyze the image above.")]
    return [text("This is a simple prompt for testing.")]
