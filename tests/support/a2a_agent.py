"""An agent that does what an A2A message's id asks for, as the scenarios of the a2a-tck want.

Run it with ``PYTHONPATH=. bus run tests.support.a2a_agent:agent``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from threadbus.agents import Agent, AgentLimits, Mention, Reply
from threadbus.gateways.a2a.ids import MESSAGE
from threadbus.gateways.a2a.parts import LINK, PLAIN_MESSAGE
from threadbus.schemas import (
    DataPart,
    FilePart,
    InputGiven,
    MessagePosted,
    Recorded,
    TaskOpened,
    TaskStatus,
    TextPart,
)

_FILE: Final = FilePart(b"Generated file content", "output.txt", "text/plain")
_URL: Final = DataPart(
    {"url": "https://example.com/output.txt", "mediaType": "text/plain"}, "output.txt", LINK
)
_LONG_S: Final = 6.0

agent = Agent(
    "tck",
    description="Does what the id of a message asks for.",
    output_modes=("text/plain", PLAIN_MESSAGE),
    limits=AgentLimits(concurrency=64),
)


@agent.on_mention
async def handle(mention: Mention) -> Reply:
    """Answer by the message's id; what no scenario names is completed."""
    data = mention.event.data
    labels = data.labels if isinstance(data, TaskOpened | MessagePosted) else {}
    wanted = labels.get(MESSAGE, "")
    if isinstance(data, MessagePosted):
        return None
    for prefix, act in _SCENARIOS:
        if wanted.startswith(prefix):
            return await act(mention)
    return "Hello from TCK"


async def _ask(mention: Mention) -> Reply:
    answer = await mention.request_input("What else?")
    while await _last_id(mention) == "tck-input-required":
        answer = await mention.request_input("And what else?")
    return f"Thank you for {answer}"


async def _last_id(mention: Mention) -> str:
    """Return which scenario the last answer asks for."""
    found = ""
    async for entry in mention.bus.read(mention.task, mention.thread):
        if isinstance(entry, Recorded) and isinstance(entry.event.data, InputGiven):
            found = entry.event.data.labels.get(MESSAGE, "")
    return found.rpartition("-")[0]


async def _sign_in(mention: Mention) -> Reply:
    answer = await mention.request_input("Sign in first.", auth=True)
    return f"Signed in: {answer}"


async def _reject(mention: Mention) -> Reply:
    await mention.bus.tasks.close(
        mention.task, TaskStatus.FAILED, summary="rejected", rejected=True, cause=mention.event.id
    )
    return None


async def _message(mention: Mention) -> Reply:
    return TextPart("Direct message response", PLAIN_MESSAGE)


async def _text_artifact(mention: Mention) -> Reply:
    await mention.save("result", TextPart("Generated text content"))
    return "done"


async def _file_artifact(mention: Mention) -> Reply:
    await mention.save("result", _FILE)
    return "done"


async def _url_artifact(mention: Mention) -> Reply:
    await mention.save("result", _URL)
    return "done"


async def _data_artifact(mention: Mention) -> Reply:
    await mention.save("result", DataPart({"key": "value", "count": 42}))
    return "done"


async def _stream_text(mention: Mention) -> Reply:
    await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING)
    text = {
        "tck-stream-001": "Stream hello from TCK",
        "tck-stream-003": "Stream task lifecycle",
        "tck-stream-ordering-001": "Ordered output",
    }
    wanted = (
        mention.event.data.labels[MESSAGE] if isinstance(mention.event.data, TaskOpened) else ""
    )
    said = next((line for prefix, line in text.items() if wanted.startswith(prefix)), None)
    await mention.save("stream", TextPart(said or "Streamed text content"))
    return "done"


async def _stream_file(mention: Mention) -> Reply:
    await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING)
    await mention.save("stream", _FILE)
    return "done"


async def _stream_chunks(mention: Mention) -> Reply:
    await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING)
    first = await mention.save("stream", TextPart("chunk-1 "), more=True)
    await mention.save("stream", TextPart("chunk-2"), chunk_of=first.event.id)
    return "done"


async def _long(mention: Mention) -> Reply:
    await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LONG_S):
            await asyncio.Event().wait()
    return "done"


async def _fail(mention: Mention) -> Reply:
    raise RuntimeError("secret=abc")


async def _slowly(mention: Mention) -> Reply:
    """Say something whenever somebody asks for it, until they say stop."""
    for number in range(1000):
        answer = await mention.request_input(f"Go on after {number}?")
        if answer == "stop":
            break
    return "done"


async def _wait(mention: Mention) -> Reply:
    await mention.bus.tasks.set_status(mention.task, TaskStatus.WORKING, "waiting")
    await asyncio.Event().wait()
    return None


# The longer prefix first.
_SCENARIOS: Final = (
    ("tck-artifact-text", _text_artifact),
    ("tck-artifact-file-url", _url_artifact),
    ("tck-artifact-file", _file_artifact),
    ("tck-artifact-data", _data_artifact),
    ("tck-message-response", _message),
    ("tck-input-required", _ask),
    ("tck-auth-required", _sign_in),
    ("tck-reject-task", _reject),
    ("tck-stream-artifact-chunked", _stream_chunks),
    ("tck-stream-artifact-file", _stream_file),
    ("tck-stream-artifact-text", _stream_text),
    ("tck-stream-ordering-001", _stream_text),
    ("tck-stream-001", _stream_text),
    ("tck-stream-003", _stream_text),
    ("test-resubscribe-message-id", _long),
    ("fail", _fail),
    ("step", _slowly),
    ("wait", _wait),
)
