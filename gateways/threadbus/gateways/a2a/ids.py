"""Ids that are derived, so that the same request is the same event in every process.

A principal's ``messageId`` names one super-task: sent again, to any gateway, at any time, it is
found in the log instead of being opened a second time.
"""

from __future__ import annotations

import hashlib
from typing import Final

from threadbus.schemas import AgentName, EventId, TaskId, parse_event_id, parse_task_id

MESSAGE: Final = "a2a.message"
"""The label that holds a message's ``messageId``."""
CONTEXT: Final = "a2a.context"
"""The label of a super-task that holds its ``contextId``."""
AGENT: Final = "a2a.agent"
"""The label of a super-task that holds which card it was asked through; empty for the whole bus."""
PUSH_TASK: Final = "a2a.push.task"
"""The label of a super-task that only says where the updates of another one are sent."""
PUSH_ID: Final = "a2a.push.id"
"""The label that holds which of its configurations it is."""
PUSH_AT: Final = "a2a.push.at"
"""The label of a message that says which update was delivered."""


def _derive(*words: str) -> str:
    """Return a UUIDv7-shaped id whose every free bit is a hash; lengths keep words apart."""
    joined = "".join(f"{len(word)}:{word}" for word in words)
    digits = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
    half = int(digits[15:31], 16) >> 2 | 1 << 63
    return f"{digits[:12]}7{digits[12:15]}{half:016x}"


def task_of(principal: AgentName, message: str) -> TaskId:
    """Return the super-task that *message* opens."""
    return parse_task_id(_derive("a2a.task", principal, message))


def event_of(principal: AgentName, message: str, what: str) -> EventId:
    """Return the id of the event that *message* becomes."""
    return parse_event_id(_derive("a2a.event", what, principal, message))


def push_of(task: TaskId, principal: AgentName, config: str, nth: int) -> TaskId:
    """Return the super-task that holds a push configuration, set for the *nth* time."""
    return parse_task_id(_derive("a2a.push", task, principal, config, str(nth)))
