"""What each tool gives, as structs: their JSON Schemas are the output schemas of the tools."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gives."""


class AgentInfo(Result, frozen=True, kw_only=True):
    """One agent."""

    name: str
    title: str = ""
    description: str = ""
    skills: list[str] = []
    living: bool
    """Whether it runs now; a mention of one that does not waits for it."""
    state: str = ""
    busy_with: str = ""


class AgentList(Result, frozen=True, kw_only=True):
    """Agents, and who the caller is."""

    you: str
    agents: list[AgentInfo]
    more: bool = False
    """Whether there are others that are not listed."""


class ThreadInfo(Result, frozen=True, kw_only=True):
    """One thread."""

    thread_id: str
    task_id: str
    title: str
    creator: str
    participants: list[str]
    state: Literal["open", "closed"]
    goal: str = ""
    outcome: str = ""
    summary: str = ""


class ThreadOpened(Result, frozen=True, kw_only=True):
    """A thread that was opened."""

    thread: ThreadInfo
    thread_id: str
    message_id: str
    duplicate: bool = False
    """Whether a call with this key had opened it before."""
    notes: list[str] = []


class FileInfo(Result, frozen=True, kw_only=True):
    """A file that came with a message; read the resource to get it."""

    name: str
    media_type: str
    size: int
    uri: str = ""


class Message(Result, frozen=True, kw_only=True):
    """One event of a thread, as a model reads it."""

    message_id: str
    thread_id: str
    type: str
    sender: str
    at: str
    text: str
    mentions: list[str] = []
    data: list[Any] = []
    files: list[FileInfo] = []
    in_reply_to: str = ""
    respond_with: str = ""
    """Which tool answers it, where an answer is expected."""


class Sent(Result, frozen=True, kw_only=True):
    """What was appended."""

    message_id: str
    thread_id: str
    mentions: list[str] = []
    duplicate: bool = False
    """Whether it was said before and that one stands."""
    notes: list[str] = []


class Done(Result, frozen=True, kw_only=True):
    """A thread after a change."""

    message_id: str
    thread: ThreadInfo


class ThreadMessages(Result, frozen=True, kw_only=True):
    """A thread and what was said in it."""

    thread: ThreadInfo
    messages: list[Message]
    last: int
    """Pass it as `after` to go on from here."""
    more: bool


class ThreadList(Result, frozen=True, kw_only=True):
    """Threads that the caller takes part in, the newest first."""

    threads: list[ThreadInfo]
    more: bool = False


class Mentions(Result, frozen=True, kw_only=True):
    """What a wait for mentions ended with."""

    status: Literal["messages", "thread_closed", "timeout", "superseded"]
    messages: list[Message] = []
    closed: list[ThreadInfo] = []
    cursor: str = ""
    """Pass it to the next wait: it says that this result was received."""
    note: str = ""


class AssignmentOutcome(Result, frozen=True, kw_only=True):
    """How one assignment ended."""

    assignment_id: str
    status: Literal["finished", "failed", "cancelled"]
    message_id: str
    by: str
    text: str = ""
    data: list[Any] = []
    files: list[FileInfo] = []


class AssignmentResults(Result, frozen=True, kw_only=True):
    """What a wait for results ended with."""

    status: Literal["all_done", "timeout"]
    results: list[AssignmentOutcome] = []
    missing: list[str] = []


class Votes(Result, frozen=True, kw_only=True):
    """Where a vote stands."""

    status: Literal["decided", "open"]
    proposal_id: str
    reached: bool
    approvals: int
    quorum: int
    votes: dict[str, str]
    missing: list[str]


class Answered(Result, frozen=True, kw_only=True):
    """How far a question is."""

    status: Literal["answered", "working", "input_required"]
    task_id: str
    thread_id: str
    message_id: str = ""
    """The answer, or the question that has to be answered first."""
    by: str = ""
    text: str = ""
    data: list[Any] = []
    files: list[FileInfo] = []
    note: str = ""
