"""The only builder and parser of subjects.

bus.<task>.<thread>.<class>.<sender>[.<mention>…]     the log
mention.<agent>.<task>.<thread>.<class>.<sender>      an agent's inbox, made by the server
stored.bus.<…>                                        what the log has just stored, repeated
part.<i>.<task>.<…>                                   the log, sent to one of several partitions
live.<task>.<thread>.<sender>                         never stored: deltas for watchers

Every builder checks its ids and names, so that no ``.``, ``*`` or ``>`` can get into a subject.
"""

from __future__ import annotations

from typing import Final, NewType

import msgspec

from threadbus.schemas.errors import (
    InvalidSubjectError,
    LimitExceededError,
    SchemaError,
    shorten,
)
from threadbus.schemas.events import EventClass
from threadbus.schemas.ids import (
    AgentName,
    TaskId,
    ThreadId,
    known_agent_name,
    known_task_id,
    known_thread_id,
    parse_agent_name,
    parse_task_id,
    parse_thread_id,
)
from threadbus.schemas.limits import MAX_MENTIONS

Subject = NewType("Subject", str)
SubjectFilter = NewType("SubjectFilter", str)

LOG_SUBJECTS: Final = SubjectFilter("bus.>")
"""Everything that the log stores."""

STORED_PREFIX: Final = "stored."
"""What the server puts before a subject when it repeats an event that it has stored."""

_CLASSES: Final = {kind.value: kind for kind in EventClass}
_INBOX_FORM: Final = "mention.<agent>.<task>.<thread>.<class>.<sender>"


class EventSubject(msgspec.Struct, frozen=True):
    """A parsed subject of the log."""

    task: TaskId
    thread: ThreadId
    event_class: EventClass
    sender: AgentName
    mentions: tuple[AgentName, ...] = ()


class MentionSubject(msgspec.Struct, frozen=True):
    """A parsed subject of an inbox."""

    agent: AgentName
    task: TaskId
    thread: ThreadId
    event_class: EventClass
    sender: AgentName


def event_subject(
    task: TaskId,
    thread: ThreadId,
    event_class: EventClass,
    sender: AgentName,
    mentions: tuple[AgentName, ...] = (),
) -> Subject:
    """Build the subject that an event is published on.

    Raises:
        LimitExceededError: there are more than 16 mentions.
        InvalidIdError, InvalidNameError: an id or a name is outside its grammar.
    """
    check_mentions(mentions)
    for name in mentions:
        known_agent_name(name)
    head = f"bus.{_place(task, thread)}.{event_class}.{known_agent_name(sender)}"
    return Subject(".".join((head, *mentions)) if mentions else head)


def _place(task: TaskId, thread: ThreadId) -> str:
    return f"{known_task_id(task)}.{known_thread_id(thread)}"


def check_mentions(mentions: tuple[str, ...]) -> None:
    """Check how many agents one event mentions.

    Raises:
        LimitExceededError: there are more than 16.
    """
    if len(mentions) > MAX_MENTIONS:
        raise LimitExceededError(
            "mentions in one event",
            len(mentions),
            MAX_MENTIONS,
            "send a second message for the others, or mention one agent that passes it on",
        )


def parse_event_subject(subject: str) -> EventSubject:
    """Parse a subject of the log.

    Raises:
        InvalidSubjectError: it is not of the form above.
    """
    # One token more than there may be is enough to see that there are too many.
    tokens = subject.split(".", 5 + MAX_MENTIONS)
    if tokens[0] != "bus":
        raise InvalidSubjectError(subject, "it does not start with 'bus.'")
    if len(tokens) < 5:
        raise InvalidSubjectError(subject, f"it has {len(tokens)} tokens, at least 5 are needed")
    if len(tokens) > 5 + MAX_MENTIONS:
        raise InvalidSubjectError(subject, f"it has more than {MAX_MENTIONS} mentions")
    event_class = _CLASSES.get(tokens[3])
    if event_class is None:
        classes = ", ".join(_CLASSES)
        raise InvalidSubjectError(subject, f"'{shorten(tokens[3])}' is not one of {classes}")
    try:
        return EventSubject(
            parse_task_id(tokens[1]),
            parse_thread_id(tokens[2]),
            event_class,
            parse_agent_name(tokens[4]),
            tuple([parse_agent_name(name) for name in tokens[5:]]),
        )
    except SchemaError as error:
        raise InvalidSubjectError(subject, str(error)) from error


def parse_mention_subject(subject: str) -> MentionSubject:
    """Parse a subject of an inbox.

    Raises:
        InvalidSubjectError: it is not of the form above.
    """
    tokens = subject.split(".", 6)
    if len(tokens) != 6 or tokens[0] != "mention":
        raise InvalidSubjectError(subject, "it is not of an inbox", _INBOX_FORM)
    try:
        rest = parse_event_subject(".".join(("bus", *tokens[2:])))
        agent = parse_agent_name(tokens[1])
    except InvalidSubjectError as error:
        raise InvalidSubjectError(subject, error.reason, _INBOX_FORM) from error
    except SchemaError as error:
        raise InvalidSubjectError(subject, str(error), _INBOX_FORM) from error
    return MentionSubject(agent, rest.task, rest.thread, rest.event_class, rest.sender)


def task_filter(task: TaskId) -> SubjectFilter:
    """Match everything in one super-task."""
    return SubjectFilter(f"bus.{known_task_id(task)}.>")


def thread_filter(task: TaskId, thread: ThreadId) -> SubjectFilter:
    """Match everything in one thread."""
    return SubjectFilter(f"bus.{_place(task, thread)}.>")


def control_filter(task: TaskId, thread: ThreadId) -> SubjectFilter:
    """Match the control events of one thread: what its guard counts."""
    return SubjectFilter(f"bus.{_place(task, thread)}.ctl.>")


def task_control_filter(task: TaskId) -> SubjectFilter:
    """Match the control events of every thread of one super-task."""
    return SubjectFilter(f"bus.{known_task_id(task)}.*.ctl.>")


def openings_filter() -> SubjectFilter:
    """Match the control events of every main thread: what a list of super-tasks is made of."""
    return SubjectFilter("bus.*.main.ctl.>")


def inbox_filter(agent: AgentName) -> SubjectFilter:
    """Match every mention of one agent."""
    return SubjectFilter(f"mention.{known_agent_name(agent)}.>")


def push_subject(agent: AgentName) -> Subject:
    """Build the subject that the mentions of an agent are pushed to, where it asked for that."""
    return Subject(f"inbox.{parse_agent_name(agent)}")


def stored_filter(log_filter: SubjectFilter) -> SubjectFilter:
    """Match what the server repeats once it has stored it."""
    return SubjectFilter(STORED_PREFIX + log_filter)


def live_subject(task: TaskId, thread: ThreadId, sender: AgentName) -> Subject:
    """Build the subject for deltas that watchers see and nobody stores."""
    return Subject(f"live.{_place(task, thread)}.{known_agent_name(sender)}")


def live_filter(task: TaskId) -> SubjectFilter:
    """Match every delta in one super-task."""
    return SubjectFilter(f"live.{known_task_id(task)}.>")
