"""Resources: agents, super-tasks, threads and artifacts, as JSON that a host can show or attach."""

from __future__ import annotations

import base64
from typing import Any, Final

import mcp_types as types
import msgspec

from threadbus.bus import TaskState
from threadbus.gateways.mcp.calls import Call, is_inside
from threadbus.gateways.mcp.references import (
    AGENTS_URI,
    TEMPLATES,
    Place,
    Target,
    parse_uri,
    task_uri,
    thread_uri,
)
from threadbus.gateways.mcp.results import AgentList, FileInfo, Result, ThreadInfo
from threadbus.gateways.mcp.tools_threads import read_thread, threads_of
from threadbus.gateways.mcp.translate import agent_of, data_of, files_of, text_in, thread_of
from threadbus.gateways.text import cut_text
from threadbus.schemas import (
    MAIN_THREAD,
    LimitExceededError,
    ReferencePart,
    TaskId,
)

MAX_LISTED: Final = 50
MAX_ARTIFACT_BYTES: Final = 256 * 1024
"""Bytes of an artifact that one read gives: common clients take 1 MiB at once."""

_SHOWN: Final = 200
_JSON: Final = "application/json"
_MAX_TEXT_BYTES: Final = 100_000
_NAMES: Final = {
    "agent": ("agent", "One agent: what it can do and what it does now."),
    "task": ("task", "One super-task: its question, state, threads and answer."),
    "thread": ("thread", "One thread: who takes part and the last of what was said."),
    "artifact": ("artifact", "A file, by the SHA-256 of its content."),
}


class TaskInfo(Result, frozen=True, kw_only=True):
    """A super-task as a resource shows it."""

    task_id: str
    title: str
    status: str
    opened_by: str
    question: str
    threads: list[ThreadInfo]
    answer: str = ""
    answer_by: str = ""
    answer_data: list[Any] = []
    answer_files: list[FileInfo] = []
    summary: str = ""
    tokens_used: int = 0


async def list_resources(call: Call) -> list[types.Resource]:
    """Return the agents, and the open threads of the caller."""
    listed = [
        types.Resource(
            uri=AGENTS_URI,
            name="agents",
            title="All agents",
            description="Every registered agent and what it does now.",
            mime_type=_JSON,
        )
    ]
    seen: set[TaskId] = set()
    async for state in threads_of(call):
        if len(listed) > MAX_LISTED:
            break
        if not state.is_open:
            continue
        if state.task not in seen:
            seen.add(state.task)
            listed.append(_listed(task_uri(state.task), f"task {state.task[-6:]}", state.title))
        uri = thread_uri(state.task, state.thread)
        listed.append(_listed(uri, f"thread {state.thread}", state.title))
    return listed


def _listed(uri: str, name: str, title: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, title=cut_text(title, 300), mime_type=_JSON)


def list_templates() -> list[types.ResourceTemplate]:
    """Return the resources that are named by what they show."""
    return [
        types.ResourceTemplate(
            uri_template=template,
            name=_NAMES[kind][0],
            description=_NAMES[kind][1],
            mime_type=None if kind == "artifact" else _JSON,
        )
        for kind, template in TEMPLATES.items()
    ]


async def read_resource(call: Call, uri: str) -> types.ReadResourceResult:
    """Return what a resource shows.

    Raises:
        InvalidUriError: there is no such resource.
        BusError: what it names does not exist, or is not the caller's to see.
    """
    target = parse_uri(uri)
    if target.kind == "artifact":
        return types.ReadResourceResult(contents=[await _artifact(call, uri, target.name)])
    body = msgspec.json.encode(await _shown(call, target)).decode()
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=_JSON, text=body)]
    )


async def check_readable(call: Call, target: Target) -> None:
    """Check that the caller may see what a resource shows.

    Raises:
        BusError: it does not exist, or is not the caller's to see.
    """
    if target.kind == "thread":
        await call.visible(Place(target.task, target.thread))
    elif target.kind == "task":
        await _task(call, target.task)
    elif target.kind == "agent":
        await call.directory.resolve(target.name)


async def _shown(call: Call, target: Target) -> Result:
    if target.kind == "thread":
        place = Place(target.task, target.thread)
        page = await read_thread(call, place, 0, _SHOWN)
        while page.more:
            page = await read_thread(call, place, page.last, _SHOWN)
        return page
    if target.kind == "task":
        return _task_info(await _task(call, target.task))
    agents = await call.directory.agents(fresh=True)
    if target.kind == "agent":
        name = await call.directory.resolve(target.name)
        agents = [agent for agent in agents if agent.name == name]
    return AgentList(you=call.me, agents=[agent_of(agent) for agent in agents[:200]])


async def _task(call: Call, task: TaskId) -> TaskState:
    state = await call.bus.tasks.state(task)
    if not any(is_inside(thread, call.me) for thread in state.threads.values()):
        # As for a thread that is not the caller's.
        await call.visible(Place(task, MAIN_THREAD))
    return state


def _task_info(state: TaskState) -> TaskInfo:
    answer = state.answer
    parts = () if answer is None else getattr(answer.data, "parts", ())
    return TaskInfo(
        task_id=state.task,
        title=state.title,
        status=state.status.value,
        opened_by=state.opened_by or "",
        question=cut_text(text_in(state.question), _MAX_TEXT_BYTES),
        threads=[thread_of(thread) for thread in state.threads.values() if thread.exists],
        answer=cut_text(text_in(parts), _MAX_TEXT_BYTES),
        answer_by="" if answer is None else answer.sender,
        answer_data=data_of(parts),
        answer_files=files_of(parts),
        summary=state.summary,
        tokens_used=state.tokens_used,
    )


async def _artifact(
    call: Call, uri: str, sha256: str
) -> types.TextResourceContents | types.BlobResourceContents:
    content = await call.bus.artifacts.get(ReferencePart(sha256, 0))
    if len(content) > MAX_ARTIFACT_BYTES:
        raise LimitExceededError(
            f"bytes of artifact {sha256[:12]}",
            len(content),
            MAX_ARTIFACT_BYTES,
            "get it with a client of the bus",
        )
    try:
        text = content.decode()
    except UnicodeDecodeError:
        blob = base64.b64encode(content).decode()
        return types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)
    return types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
