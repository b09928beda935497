"""Redaction: what was said is gone, and the run is still the same run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.support.runs import revenue_run, troubled_run
from tests.support.schema_strategies import events
from tests.support.story import Story
from threadbus.replay import Redaction, Redactor, fold, parse_line
from threadbus.schemas import (
    DataPart,
    Event,
    FilePart,
    MessagePosted,
    Recorded,
    Rejected,
    TextPart,
    encode_event,
    export_line,
)

SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAABCDEFGHIJKLMNOP",
    "xoxb-1234567890-abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "Bearer abcdefghijklmnop",
    "SUAAVVQTMIJ7WVBHYNZQJ5T3ZGFE5HAXXU4MFZRCMYFMYYFUPHN4ZI3IXY",
    "password=hunter22",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----",
]


def one(text: str) -> Recorded:
    """Return the entry of a message."""
    story = Story()
    story.say("planner", text)
    return story.log[0]


def said(item: Recorded | Rejected) -> str:
    """Return the text of a message."""
    assert isinstance(item, Recorded)
    assert isinstance(item.event.data, MessagePosted)
    (part,) = item.event.data.parts
    assert isinstance(part, TextPart)
    return part.text


@pytest.mark.parametrize("level", list(Redaction))
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_goes_at_every_level(level: Redaction, secret: str) -> None:
    """What has the shape of a key, a token or a password is not in the export."""
    item = Redactor(level).redact(one(f"use {secret} for it"))

    assert secret.encode() not in export_line(item)
    assert secret.split("=")[-1] not in said(item)
    if level is Redaction.SECRETS:
        assert said(item).startswith("use [secret ")
        assert said(item).endswith("] for it")


def test_a_password_in_a_url_and_under_a_telling_key_goes() -> None:
    """The rest of the URL and of the data stays."""
    story = Story()
    story.add("a", MessagePosted(parts=(DataPart({"api_key": "0000", "city": "Bonn"}),)))
    redactor = Redactor(Redaction.SECRETS)

    assert "nats://[secret " in said(redactor.redact(one("at nats://joe:pw@host:4222")))
    assert "@host:4222" in said(redactor.redact(one("at nats://joe:pw@host:4222")))
    line = export_line(redactor.redact(story.log[0]))
    assert b'"city":"Bonn"' in line
    assert b"0000" not in line.split(b'"data"')[-1]


@pytest.mark.parametrize("run", [revenue_run, troubled_run])
@pytest.mark.parametrize("level", [Redaction.TEXTS, Redaction.NAMES])
def test_a_redacted_run_is_the_same_run(run: Callable[[], Story], level: Redaction) -> None:
    """Counts, times, outcomes and who woke whom are as before; no text is."""
    log = run().log
    redactor = Redactor(level)
    redacted = [parse_line(export_line(redactor.redact(item))) for item in log]
    before, after = fold(log), fold(redacted)

    assert after.totals == before.totals
    assert (after.status, after.duration_ns) == (before.status, before.duration_ns)
    assert len(after.agents) == len(before.agents)
    assert [len(story.entries) for story in after.threads.values()] == [
        len(story.entries) for story in before.threads.values()
    ]
    assert after.title.startswith("[redacted ")
    everything = b"".join([export_line(item) for item in redacted])
    for word in (before.title, before.question[:20]):
        assert word.encode() not in everything
    if level is Redaction.NAMES:
        assert not [name for name in before.agents if f'"{name}"'.encode() in everything]


def test_the_same_text_has_the_same_placeholder() -> None:
    """Repetitions can be seen; another text, or another key, has another one."""
    redactor = Redactor(Redaction.TEXTS)
    first, again = said(redactor.redact(one("Hello"))), said(redactor.redact(one("Hello")))

    assert first == again
    assert first.startswith("[redacted 5 chars ")
    assert said(redactor.redact(one("Hallo"))) != first
    assert said(Redactor(Redaction.TEXTS, b"mine").redact(one("Hello"))) != first


@pytest.mark.parametrize("level", list(Redaction))
def test_what_is_redacted_stays_as_it_is(level: Redaction) -> None:
    """Doing it twice changes nothing more."""
    redactor = Redactor(level)
    once = [redactor.redact(item) for item in revenue_run().log]

    assert [export_line(redactor.redact(item)) for item in once] == [
        export_line(item) for item in once
    ]


def test_files_lose_their_bytes_and_names() -> None:
    """Neither is in the export."""
    story = Story()
    story.add("a", MessagePosted(parts=(FilePart(b"very secret bytes", name="payroll.xlsx"),)))
    item = Redactor(Redaction.TEXTS).redact(story.log[0])

    assert isinstance(item, Recorded)
    assert isinstance(item.event.data, MessagePosted)
    (part,) = item.event.data.parts
    assert isinstance(part, FilePart)
    assert part.content.startswith(b"[redacted ")
    assert "payroll" not in part.name


def test_what_cannot_be_read_keeps_its_place_only() -> None:
    """Its bytes, its subject and what the reason quotes may hold anything."""
    report = Rejected(7, "bus.x.main.msg.joe", "'joe' is not it", 5, b"joe said hello")
    item = Redactor(Redaction.TEXTS).redact(report)

    assert isinstance(item, Rejected)
    assert (item.seq, item.stored_at) == (7, 5)
    assert b"joe" not in export_line(item)
    assert item.reason.endswith("is not it")


@pytest.mark.parametrize("level", list(Redaction))
def test_any_event_can_be_redacted(level: Redaction) -> None:
    """It stays an event of its type, in its place; nothing has to be left out."""

    @settings(max_examples=60)
    @given(event=events())
    def check(event: Event) -> None:
        item = Redactor(level).redact(Recorded(3, event, 9, encode_event(event)))
        assert isinstance(item, Recorded)
        assert (item.seq, item.stored_at) == (3, 9)
        assert (item.event.type, item.event.id, item.event.cause) == (
            event.type,
            event.id,
            event.cause,
        )
        again = parse_line(export_line(item))
        assert isinstance(again, Recorded)
        assert again.event == item.event

    check()
