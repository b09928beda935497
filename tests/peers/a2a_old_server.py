"""A server of a2a-sdk 0.3, in a Python of its own: says what it heard; prints its URL.

python a2a_old_server.py
"""

# It runs with a2a-sdk 0.3, whose types are not those that are installed here.
# mypy: ignore-errors
# pyright: basic, reportAttributeAccessIssue=false, reportMissingImports=false
# pyright: reportCallIssue=false, reportArgumentType=false

import asyncio
import socket
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    Part,
    TextPart,
)
from a2a.utils import new_task


class Executor(AgentExecutor):
    """Hears."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answer one message."""
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater: Any = TaskUpdater(event_queue, task.id, task.context_id)

        def words(text: str) -> Any:
            return updater.new_agent_message([Part(root=TextPart(text=text))])

        text = context.get_user_input()
        if text == "ask":
            await updater.update_status("input-required", words("gross or net?"), final=True)
            return
        await updater.start_work(words("on it"))
        await updater.add_artifact([Part(root=TextPart(text="a note"))], name="notes")
        await updater.complete(words(f"heard {text}"))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Do nothing."""


async def main() -> None:
    """Serve until the process is killed."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    skill = AgentSkill(id="hear", name="Hear", description="Hears.", tags=["ears"])
    card: Any = AgentCard(
        name="old",
        description="Hears.",
        url=url,
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )
    handler: Any = DefaultRequestHandler(Executor(), InMemoryTaskStore())
    app = A2AStarletteApplication(card, handler).build()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    print(url, flush=True)
    await server.serve(sockets=[listener])


asyncio.run(main())
