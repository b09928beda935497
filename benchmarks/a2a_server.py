"""A bare server of a2a-sdk that answers by itself, in a process of its own.

    python -m benchmarks.a2a_server

Prints its URL when it can be asked and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from threadbus.gateways.web.serving import Address, serving

PARK: Final = "park"
"""The text of a message whose task does not end."""

_ANSWER: Final = "The report is right: row 17 of the ledger is counted twice."


class Executor(AgentExecutor):
    """Answers with an artifact, as a task of the bus does."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        task = pb.Task(
            id=context.task_id or "",
            context_id=context.context_id or "",
            status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED),
            history=[context.message] if context.message else [],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if context.get_user_input() == PARK:
            await asyncio.Event().wait()
        await updater.add_artifact([pb.Part(text=_ANSWER)], name="answer", last_chunk=True)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing runs for long."""


async def main() -> None:
    """Serve until standard input ends."""
    card = pb.AgentCard(name="bare", capabilities=pb.AgentCapabilities(streaming=True))
    handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), card)
    app = Starlette(routes=create_jsonrpc_routes(handler, "/rpc"))
    async with serving(app, Address("127.0.0.1", 0)) as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await handler.aclose()


if __name__ == "__main__":
    asyncio.run(main())
