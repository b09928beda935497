"""A client of a2a-sdk 0.3, in a Python of its own: prints what it saw as one line of JSON.

python a2a_old_client.py URL
"""

# It runs with a2a-sdk 0.3, whose types are not those that are installed here.
# mypy: ignore-errors
# pyright: basic, reportAttributeAccessIssue=false, reportMissingImports=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import (
    A2ACardResolver,
    ClientConfig,
    ClientFactory,
)
from a2a.types import Message, Part, Role, TextPart


def message(message_id: str, text: str, **more: Any) -> Any:
    """Make a message."""
    parts = [Part(root=TextPart(text=text))]
    return Message(message_id=message_id, role=Role.user, parts=parts, **more)


async def main(url: str) -> None:
    """Drive a gateway."""
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client: Any = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        seen: dict[str, Any] = {"states": [], "pieces": []}
        async for task, update in client.send_message(
            message("tck-stream-artifact-chunked-old", "hello")
        ):
            kind = "task" if update is None else update.kind
            if kind == "artifact-update":
                seen["pieces"] += [part.root.text for part in update.artifact.parts]
            else:
                seen["states"].append((task if update is None else update).status.state.value)
        told = client.send_message(message("tck-input-required-old", "begin"))
        asked = [task async for task, _ in told][-1]
        seen["asked"] = asked.status.state.value
        answer = message("answer-old", "net", task_id=asked.id, context_id=asked.context_id)
        done = [task async for task, _ in client.send_message(answer)][-1]
        seen["done"] = done.status.state.value
        print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
