"""Subjects: built and parsed in one place, round trip, and refuse what could widen a filter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schema_strategies import events, ids, names
from threadbus.schemas import (
    LOG_SUBJECTS,
    MAIN_THREAD,
    AgentName,
    Event,
    EventClass,
    InvalidIdError,
    InvalidNameError,
    InvalidSubjectError,
    LimitExceededError,
    SchemaError,
    TaskId,
    ThreadId,
    control_filter,
    event_subject,
    inbox_filter,
    live_filter,
    live_subject,
    openings_filter,
    parse_event_subject,
    parse_mention_subject,
    stored_filter,
    task_control_filter,
    task_filter,
    thread_filter,
)

TASK = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
WEB, PLANNER = AgentName("web"), AgentName("planner")


def test_subjects_are_of_the_documented_form() -> None:
    """The strings are what other languages and the configuration of the server say."""
    assert event_subject(TASK, MAIN_THREAD, EventClass.MSG, WEB) == f"bus.{TASK}.main.msg.web"
    assert (
        event_subject(TASK, MAIN_THREAD, EventClass.CTL, WEB, (PLANNER, AgentName("c-1")))
        == f"bus.{TASK}.main.ctl.web.planner.c-1"
    )
    assert live_subject(TASK, MAIN_THREAD, WEB) == f"live.{TASK}.main.web"
    assert LOG_SUBJECTS == "bus.>"
    assert task_filter(TASK) == f"bus.{TASK}.>"
    assert thread_filter(TASK, MAIN_THREAD) == f"bus.{TASK}.main.>"
    assert control_filter(TASK, MAIN_THREAD) == f"bus.{TASK}.main.ctl.>"
    assert task_control_filter(TASK) == f"bus.{TASK}.*.ctl.>"
    assert openings_filter() == "bus.*.main.ctl.>"
    assert inbox_filter(WEB) == "mention.web.>"
    assert live_filter(TASK) == f"live.{TASK}.>"
    assert stored_filter(task_filter(TASK)) == f"stored.bus.{TASK}.>"


@settings(max_examples=40)
@given(events())
def test_the_subject_of_an_event_says_what_the_event_says(event: Event) -> None:
    """Parsing the subject gives back the task, thread, class, sender and mentions."""
    parsed = parse_event_subject(event.subject)

    assert (event.task, event.thread, event.event_class, event.sender, event.mentions) == (
        parsed.task,
        parsed.thread,
        parsed.event_class,
        parsed.sender,
        parsed.mentions,
    )


@given(ids, names, st.sampled_from(EventClass), names, names)
def test_the_subject_of_an_inbox_is_read_back(
    task: str, thread: str, event_class: EventClass, sender: str, agent: str
) -> None:
    """What the server's transform makes of a mention is parsed to its tokens."""
    parsed = parse_mention_subject(f"mention.{agent}.{task}.{thread}.{event_class.value}.{sender}")

    assert (agent, task, thread, event_class, sender) == (
        parsed.agent,
        parsed.task,
        parsed.thread,
        parsed.event_class,
        parsed.sender,
    )


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("", "does not start with 'bus.'"),
        ("bus", "has 1 tokens, at least 5"),
        ("mention.web.x.main.msg.web", "does not start with 'bus.'"),
        (f"bus.{TASK}.main.msg", "has 4 tokens"),
        (f"bus.{TASK}.main.msg.", "agent name ''"),
        (f"bus.{TASK}.main.chat.web", "'chat' is not one of ctl, msg, work, obs"),
        (f"bus.{TASK}.main.MSG.web", "'MSG' is not one of"),
        (f"bus.{TASK.upper()}.main.msg.web", f"'{TASK}' would do"),
        (f"bus.{TASK}.Main.msg.web", "thread id 'Main'"),
        (f"bus.{TASK}.main.msg.web.*", r"agent name '\*'"),
        (f"bus.{TASK}.main.msg.web..b", "agent name ''"),
        (f"bus.{TASK}.main.msg.web\n", "agent name"),
        (f"bus.{TASK}.main.msg.web" + ".a" * 17, "more than 16 mentions"),
        ("bus." * 1_000_000, "more than 16 mentions"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_what_is_no_subject_of_the_log_is_refused(subject: str, reason: str) -> None:
    """The error names the subject, what is wrong with it, and the form."""
    with pytest.raises(InvalidSubjectError, match=reason) as caught:
        parse_event_subject(subject)

    assert caught.value.subject == subject
    assert "bus.<task>.<thread>.<class>.<sender>" in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "mention",
        f"bus.{TASK}.main.msg.web",
        f"mention.web.{TASK}.main.msg",
        f"mention.web.{TASK}.main.msg.a.b",
        f"mention.Web.{TASK}.main.msg.a",
        f"mention.web.{TASK}.main.chat.a",
        f"mention.web.{TASK}x.main.msg.a",
        "mention." * 1_000_000,
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_what_is_no_subject_of_an_inbox_is_refused(subject: str) -> None:
    """The error says the form of an inbox, not that of the log."""
    with pytest.raises(InvalidSubjectError) as caught:
        parse_mention_subject(subject)

    assert "the form is mention.<agent>.<task>.<thread>.<class>.<sender>" in str(caught.value)
    assert "bus.<task>" not in str(caught.value)


@given(st.text())
def test_parsing_any_text_raises_nothing_else(text: str) -> None:
    """A foreign subject is a subject or a SchemaError, never another exception."""
    for parse in (parse_event_subject, parse_mention_subject):
        for subject in (text, f"bus.{text}", f"bus.{TASK}.main.msg.{text}", f"mention.web.{text}"):
            with contextlib.suppress(SchemaError):
                parse(subject)


BAD_TASK, BAD_THREAD, BAD_NAME = TaskId("*"), ThreadId("a.b"), AgentName(">")


BUILDERS: dict[str, Callable[[], str]] = {
    "task": lambda: event_subject(BAD_TASK, MAIN_THREAD, EventClass.MSG, WEB),
    "thread": lambda: event_subject(TASK, BAD_THREAD, EventClass.MSG, WEB),
    "sender": lambda: event_subject(TASK, MAIN_THREAD, EventClass.MSG, BAD_NAME),
    "mention": lambda: event_subject(TASK, MAIN_THREAD, EventClass.MSG, WEB, (PLANNER, BAD_NAME)),
    "empty-mention": lambda: event_subject(
        TASK, MAIN_THREAD, EventClass.MSG, WEB, (AgentName(""),)
    ),
    "task-filter": lambda: task_filter(BAD_TASK),
    "thread-filter-task": lambda: thread_filter(BAD_TASK, MAIN_THREAD),
    "thread-filter": lambda: thread_filter(TASK, BAD_THREAD),
    "control-filter": lambda: control_filter(TASK, BAD_THREAD),
    "task-control-filter": lambda: task_control_filter(BAD_TASK),
    "inbox-filter": lambda: inbox_filter(BAD_NAME),
    "live-filter": lambda: live_filter(BAD_TASK),
    "live-thread": lambda: live_subject(TASK, BAD_THREAD, WEB),
    "live-sender": lambda: live_subject(TASK, MAIN_THREAD, BAD_NAME),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_no_builder_lets_a_wildcard_or_a_dot_in(build: Callable[[], str]) -> None:
    """An id that was never checked cannot widen a filter or change the form of a subject."""
    with pytest.raises((InvalidIdError, InvalidNameError)):
        build()


def test_sixteen_mentions_are_the_most() -> None:
    """The seventeenth is refused with both numbers and a way out."""
    sixteen = tuple(AgentName(f"agent-{number}") for number in range(16))

    subject = event_subject(TASK, MAIN_THREAD, EventClass.MSG, WEB, sixteen)

    assert parse_event_subject(subject).mentions == sixteen
    with pytest.raises(LimitExceededError, match="17 is over the limit of 16; send a second"):
        event_subject(TASK, MAIN_THREAD, EventClass.MSG, WEB, (*sixteen, WEB))
