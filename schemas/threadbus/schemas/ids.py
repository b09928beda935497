"""Ids and names: super-task, event, thread and agent, and how one is derived from another.

A super-task id is a UUIDv7 (RFC 9562) as 32 lower-case hex digits and is also the OpenTelemetry
trace id. An event id has the same form; the last 16 digits of it are the span id of the event, so
a trace that is rebuilt later has the ids of the live one.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import unicodedata
from collections import deque
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NewType

from threadbus.schemas.errors import InvalidIdError, InvalidNameError
from threadbus.schemas.limits import MAX_NAME_CHARS

TaskId = NewType("TaskId", str)
EventId = NewType("EventId", str)
ThreadId = NewType("ThreadId", str)
AgentName = NewType("AgentName", str)
SpanId = NewType("SpanId", str)

MAIN_THREAD: Final = ThreadId("main")
"""The root thread of every super-task; its control events open and close the task."""

# Neither a trace id nor a span id may be all zero (W3C trace context), and both come from these.
_HEX32: Final = re.compile(r"[0-9a-f]{16}(?!0{16})[0-9a-f]{16}", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_NOT_SLUG: Final = re.compile(r"[^a-z0-9_]+", re.ASCII)
_MAX_LOOK_CHARS: Final = 200
"""Characters of a foreign name that are looked at when one is made from it or sought."""


def lay_out_uuid7(time_digits: str, rand_digits: str) -> str:
    """Lay out 12 hex digits of time and the first 74 bits of others as RFC 9562 section 5.7 says.

    By text: each event needs an id, and arithmetic on 128 bits takes three times as long.
    """
    # The variant takes the two highest bits of the second half.
    half = int(rand_digits[3:19], 16) >> 2 | 1 << 63
    return f"{time_digits}7{rand_digits[:3]}{half:016x}"


_spare_digits: Final[deque[str]] = deque()
if hasattr(os, "register_at_fork"):
    # A forked process must not make the ids of the one that it came from.
    os.register_at_fork(after_in_child=_spare_digits.clear)


def _random_digits() -> str:
    """Return 20 random hex digits; the system is asked for many at a time. Safe in threads."""
    try:
        return _spare_digits.popleft()
    except IndexError:
        digits = os.urandom(10 * 256).hex()
        _spare_digits.extend(digits[at : at + 20] for at in range(20, len(digits), 20))
        return digits[:20]


def _random_uuid7() -> str:
    return lay_out_uuid7(f"{time.time_ns() // 1_000_000:012x}", _random_digits())


def new_task_id() -> TaskId:
    """Make the id of a new super-task."""
    return TaskId(_random_uuid7())


def new_event_id() -> EventId:
    """Make the id of an event that nothing else determines."""
    return EventId(_random_uuid7())


def derive_event_id(cause: EventId, agent: AgentName, index: int | str) -> EventId:
    """Make the id of what *agent* appends in answer to *cause*.

    The same arguments give the same id in every process, so that a redelivered mention cannot
    produce a second answer.

    Args:
        cause: the event that is answered; the new id carries its time.
        agent: who answers.
        index: which of the agent's events this is, by number from 0 or by a fixed word (``1`` and
            ``"1"`` are the same).

    Returns:
        A UUIDv7 whose time is the cause's and whose other bits are a SHA-256 of the arguments.
    """
    digits = hashlib.sha256(f"{cause}\n{agent}\n{index}".encode()).hexdigest()
    return EventId(lay_out_uuid7(cause[:12], digits))


def new_thread_id(title: str = "") -> ThreadId:
    """Make a thread id that a person can read: a slug of *title* and a short suffix."""
    slug = _slug(title)[: MAX_NAME_CHARS - 7].strip("-") or "thread"
    return ThreadId(f"{slug}-{os.urandom(3).hex()}")


def derive_thread_id(title: str, cause: EventId, agent: AgentName, index: int | str) -> ThreadId:
    """Make the id of the thread that *agent* opens in answer to *cause*: always the same one."""
    slug = _slug(title)[: MAX_NAME_CHARS - 7].strip("-") or "thread"
    return ThreadId(f"{slug}-{derive_event_id(cause, agent, f'thread:{index}')[-6:]}")


def span_id(event: EventId) -> SpanId:
    """Return the OpenTelemetry span id of *event*: the last 16 of its 32 digits."""
    return SpanId(event[16:])


def task_span_id(task: TaskId) -> SpanId:
    """Return the span id of a whole super-task, the root of its trace."""
    return SpanId(task[16:])


def turn_span_id(mention: EventId, agent: AgentName) -> SpanId:
    """Return the span id of the turn in which *agent* handles *mention*.

    Whoever handles it can say it before anything of the turn is in the log.
    """
    return span_id(derive_event_id(mention, agent, "turn"))


def thread_span_id(task: TaskId, thread: ThreadId) -> SpanId:
    """Return the span id of a thread. The main thread is the super-task itself."""
    if thread == MAIN_THREAD:
        return task_span_id(task)
    # A thread has the grammar of a name, and no agent derives anything from the id of a task.
    return span_id(derive_event_id(EventId(task), AgentName(thread), "thread"))


def traceparent(task: TaskId, span: SpanId) -> str:
    """Return the W3C trace context of a span of a super-task, as sampled."""
    return f"00-{task}-{span}-01"


def event_time_ms(event: EventId | TaskId) -> int:
    """Return the milliseconds since the epoch at which an id was made, if it is a UUIDv7."""
    return int(event[:12], 16)


def is_id(value: str) -> bool:
    """Whether *value* is 32 lower-case hex digits."""
    return _HEX32.fullmatch(value) is not None


def parse_task_id(value: str) -> TaskId:
    """Check that *value* is a super-task id.

    Raises:
        InvalidIdError: it is not 32 lower-case hex digits, the last 16 not all zero.
    """
    if not _HEX32.fullmatch(value):
        raise InvalidIdError("super-task id", value)
    return TaskId(value)


def parse_event_id(value: str) -> EventId:
    """Check that *value* is an event id.

    Raises:
        InvalidIdError: it is not 32 lower-case hex digits, the last 16 not all zero.
    """
    if not _HEX32.fullmatch(value):
        raise InvalidIdError("event id", value)
    return EventId(value)


def parse_thread_id(value: str) -> ThreadId:
    """Check that *value* is a thread id.

    Raises:
        InvalidNameError: it is outside the grammar.
    """
    if not _NAME.fullmatch(value):
        raise InvalidNameError("thread id", value)
    return ThreadId(value)


def parse_agent_name(value: str) -> AgentName:
    """Check that *value* is a canonical agent name.

    Raises:
        InvalidNameError: it is outside the grammar; the message has a name that would do.
    """
    if not _NAME.fullmatch(value):
        raise InvalidNameError("agent name", value, canonical_agent_name(value))
    return AgentName(value)


# Tasks, threads and agents repeat from event to event: what was valid once is looked up.
# An exception is not kept, so only short strings are.
known_task_id: Final = lru_cache(maxsize=8192)(parse_task_id)
known_thread_id: Final = lru_cache(maxsize=8192)(parse_thread_id)
known_agent_name: Final = lru_cache(maxsize=8192)(parse_agent_name)


def canonical_agent_name(display_name: str) -> AgentName:
    """Map a name from outside to a canonical one, the same each time.

    A canonical name maps to itself. Every other one becomes a readable slug and ten hex digits
    of its SHA-256, so that ``Billing Agent``, ``billing.agent`` and ``刘备`` stay apart. Somebody
    may of course take such a mapped name as their own; the registry lets only one of them have it.
    """
    if _NAME.fullmatch(display_name):
        return AgentName(display_name)
    digest = hashlib.sha256(display_name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    slug = _slug(display_name)[: MAX_NAME_CHARS - 11].strip("-_") or "agent"
    return AgentName(f"{slug}-{digest}")


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return at most *count* of the *known* names that look most like *name*, best first."""
    return get_close_matches(name[:_MAX_LOOK_CHARS].lower(), list(known), n=count, cutoff=0.5)


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text[:_MAX_LOOK_CHARS]).encode("ascii", "ignore")
    return _NOT_SLUG.sub("-", plain.decode().lower()).strip("-_")
