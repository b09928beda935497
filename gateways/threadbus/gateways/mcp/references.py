"""How a host refers to threads, tasks, agents and artifacts, and where a wait of it stands.

Pure, and the only place that builds or reads these texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from threadbus.gateways.errors import InvalidCursorError, InvalidUriError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    SchemaError,
    TaskId,
    ThreadId,
    parse_agent_name,
    parse_task_id,
    parse_thread_id,
)

SCHEME: Final = "threadbus://"
_CURSOR: Final = re.compile(r"([0-9a-f]{6})-([0-9a-f]{1,16}(?:\.[0-9a-f]{1,16})*)", re.ASCII)
_TRACEPARENT: Final = re.compile(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Place(NamedTuple):
    """A thread of a super-task."""

    task: TaskId
    thread: ThreadId


def thread_ref(task: TaskId, thread: ThreadId) -> str:
    """Return how a host refers to a thread."""
    return f"{task}/{thread}"


def parse_thread(text: str) -> Place:
    """Read what :func:`thread_ref` gave, or a task id alone for its main thread.

    Raises:
        InvalidIdError, InvalidNameError: it is neither.
    """
    plain = text.strip().removeprefix(f"{SCHEME}threads/").removeprefix(f"{SCHEME}tasks/")
    task, slash, thread = plain.partition("/")
    return Place(parse_task_id(task), parse_thread_id(thread) if slash else MAIN_THREAD)


# resources

Kind = Literal["agents", "agent", "task", "thread", "artifact"]


class Target(NamedTuple):
    """What a resource shows."""

    kind: Kind
    task: TaskId = TaskId("")
    thread: ThreadId = MAIN_THREAD
    name: str = ""
    """The agent, or the SHA-256 of an artifact."""


AGENTS_URI: Final = f"{SCHEME}agents"
TEMPLATES: Final = {
    "agent": f"{SCHEME}agents/{{name}}",
    "task": f"{SCHEME}tasks/{{task}}",
    "thread": f"{SCHEME}threads/{{task}}/{{thread}}",
    "artifact": f"{SCHEME}artifacts/{{sha256}}",
}
"""The resources that are named by what they show."""


def agent_uri(name: str) -> str:
    """Return the resource of an agent."""
    return f"{AGENTS_URI}/{name}"


def task_uri(task: TaskId) -> str:
    """Return the resource of a super-task."""
    return f"{SCHEME}tasks/{task}"


def thread_uri(task: TaskId, thread: ThreadId) -> str:
    """Return the resource of a thread."""
    return f"{SCHEME}threads/{task}/{thread}"


def artifact_uri(sha256: str) -> str:
    """Return the resource of an artifact."""
    return f"{SCHEME}artifacts/{sha256}"


def parse_uri(uri: str) -> Target:
    """Say what a resource shows.

    Raises:
        InvalidUriError: no resource has such a name.
    """
    try:
        return _target(uri.removeprefix(SCHEME).split("/")) if uri.startswith(SCHEME) else _no(uri)
    except (SchemaError, ValueError) as error:
        raise InvalidUriError(uri, sorted([AGENTS_URI, *TEMPLATES.values()])) from error


def _target(words: list[str]) -> Target:
    match words:
        case ["agents"]:
            return Target("agents")
        case ["agents", name]:
            return Target("agent", name=parse_agent_name(name))
        case ["tasks", task]:
            return Target("task", parse_task_id(task))
        case ["threads", task, thread]:
            return Target("thread", parse_task_id(task), parse_thread_id(thread))
        case ["artifacts", sha256] if _SHA256.fullmatch(sha256):
            return Target("artifact", name=sha256)
        case _:
            return _no("/".join(words))


def _no(uri: str) -> Target:
    raise ValueError(uri)


# cursors


def make_cursor(agent: AgentName, seqs: Iterable[int]) -> str:
    """Return a text that says which events of the log a result carried; empty for none.

    The sequences as hexadecimal differences, behind six digits that notice a slip in copying.
    """
    ordered = sorted(set(seqs))
    if not ordered:
        return ""
    steps = [ordered[0], *(later - one for one, later in pairwise(ordered))]
    body = ".".join(f"{step:x}" for step in steps)
    return f"{_check(agent, body)}-{body}"


def read_cursor(agent: AgentName, cursor: str) -> frozenset[int]:
    """Return the sequences in a cursor of *agent*; none for an empty one.

    Raises:
        InvalidCursorError: it is not a cursor, was changed, or is another agent's.
    """
    if not cursor:
        return frozenset()
    found = _CURSOR.fullmatch(cursor.strip())
    if found is None or found[1] != _check(agent, found[2]):
        raise InvalidCursorError(cursor)
    seqs: list[int] = []
    for step in found[2].split("."):
        seqs.append(int(step, 16) + (seqs[-1] if seqs else 0))
    return frozenset(seqs)


def _check(agent: AgentName, body: str) -> str:
    return hashlib.sha256(f"{agent}\n{body}".encode()).hexdigest()[:6]


# traces


def trace_of(traceparent: object) -> TaskId | None:
    """Return the trace id of a W3C ``traceparent`` as a task id; None where it is not one."""
    if not isinstance(traceparent, str):
        return None
    found = _TRACEPARENT.fullmatch(traceparent)
    try:
        return None if found is None else parse_task_id(found[1])
    except SchemaError:
        return None
