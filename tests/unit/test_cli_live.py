"""The live view and the words it uses, without a bus."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.support.tree import ROOT
from threadbus.agents.cli.describe import describe
from threadbus.agents.cli.live import LiveView
from threadbus.agents.cli.text import ago, duration, neutral, one_line, safe_url, size
from threadbus.schemas import (
    DATA_TYPES,
    MAIN_THREAD,
    AgentName,
    AnyData,
    AssignmentMade,
    MessagePosted,
    ModelCalled,
    Recorded,
    Rejected,
    TextPart,
    ToolCalled,
    ToolReturned,
    decode_event,
    make_event,
    new_task_id,
)

TASK = new_task_id()


def shown(*said: tuple[str, AnyData] | Rejected, width: int = 80, **console: Any) -> str:
    """Return what the view prints for events, each a sender and what it says."""
    output = io.StringIO()
    with LiveView(Console(file=output, width=width, **console)) as view:
        for seq, each in enumerate(said, 1):
            if isinstance(each, Rejected):
                view.show_rejected(each)
                continue
            sender, data = each
            event = make_event(data, task=TASK, thread=MAIN_THREAD, sender=AgentName(sender))
            view.show(Recorded(seq, event, stored_at=seq * 10**9))
    return output.getvalue()


def called(call_id: str, tool: str = "assign") -> ToolCalled:
    """Make a tool call."""
    return ToolCalled(call_id=call_id, tool=tool, arguments={"agent": "coder"})


def returned(call_id: str, tool: str = "assign") -> ToolReturned:
    """Make the end of a tool call."""
    return ToolReturned(call_id=call_id, tool=tool, duration_ns=1, parts=(TextPart("x"),))


GIVEN = AssignmentMade(assignee="coder", parts=(TextPart("add up"),))


def test_a_tool_call_whose_effect_is_shown_has_no_line_of_its_own() -> None:
    """The work that a tool gave out says the same and more."""
    text = shown(("planner", called("1")), ("planner", GIVEN), ("planner", returned("1")))

    assert "gives work" in text
    assert "assign" not in text


def test_a_tool_call_without_another_effect_is_shown_with_its_result() -> None:
    """Reading and computing are work that has no other line."""
    text = shown(("coder", called("1", "run")), ("coder", returned("1", "run")))

    assert "runs run(agent=coder)" in text
    assert "run gave 1 B" in text


def test_what_another_agent_does_is_no_effect_of_the_call() -> None:
    """Two agents at work at once are told apart."""
    text = shown(("coder", called("1", "run")), ("planner", GIVEN), ("coder", returned("1", "run")))

    assert "runs run" in text


def test_a_call_that_is_the_last_thing_seen_is_shown_at_the_end() -> None:
    """Nothing that waits for its line is lost."""
    assert "runs assign" in shown(("planner", called("1")))


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Wide characters count twice."""
    long = MessagePosted(parts=(TextPart("你好 " * 100 + "w" * 300),))
    text = shown(("a-very-long-agent-name-indeed", long), width=width)

    widths = [Console().render_str(line, markup=False).cell_len for line in text.splitlines()]
    assert max(widths) <= width


def test_escapes_in_events_are_shown_not_obeyed() -> None:
    """Neither in text, nor in names of tools, nor in what is no event."""
    evil = "\x1b]0;owned\x07\x9b31m"
    text = shown(
        ("a", MessagePosted(parts=(TextPart(evil),))),
        ("a", ToolCalled(call_id="1", tool=evil, arguments={evil: evil})),
        Rejected(1, "bus.x", evil),
    )

    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.count(r"\x1b") >= 4


def test_markup_of_the_terminal_library_is_plain_text() -> None:
    """`[red]` is what somebody said, not a colour."""
    assert "[red]x[/red] :smile:" in shown(
        ("a", MessagePosted(parts=(TextPart("[red]x[/red] :smile:"),)))
    )


def test_long_text_is_cut_and_says_so() -> None:
    """A book does not push the conversation off the screen."""
    text = shown(("a", MessagePosted(parts=(TextPart("\n".join(map(str, range(5000)))),))))

    assert len(text.splitlines()) <= 12
    assert "more characters" in text


def test_a_playbook_is_labelled_wherever_it_answers() -> None:
    """Nobody takes its words for those of a model."""
    call = ModelCalled(model="playbook", started_at=1, duration_ns=1, system="playbook")

    assert "playbook, no model" in shown(("a", call))


def test_what_watchers_are_sent_may_be_anything() -> None:
    """Live messages are not checked by the bus: what is no such message is passed over."""
    view = LiveView(Console(file=io.StringIO()))
    values: list[Any] = [None, 1, "x", [], {"kind": 1}, {"kind": "delta", "text": 5}]
    for value in values:
        view.on_live(AgentName("a"), value)


@pytest.mark.parametrize("kind", sorted(DATA_TYPES))
def test_every_type_of_event_is_described_or_left_out_on_purpose(kind: str) -> None:
    """A type that is added to the schemas needs its words here."""
    silent = {"handling.started", "handling.ended", "context.used"}
    path = ROOT / "tests" / "golden" / "events" / "v1" / f"{kind}.full.json"
    line = describe(decode_event(path.read_bytes()))

    if line is None:
        assert kind in silent
    else:
        assert "does not know" not in line.head


def test_numbers_are_readable() -> None:
    """Durations, ages and sizes in one or two units."""
    assert [duration(ns) for ns in (0, 37_000_000, 1_234_000_000, 125 * 10**9, 90_000 * 10**9)] == [
        "0 ms",
        "37 ms",
        "1.2 s",
        "2 min 5 s",
        "1 d 1 h",
    ]
    assert ago(5 * 10**9, 95 * 10**9) == "1 min ago"
    assert ago(0) == "-"
    assert [size(n) for n in (12, 1_234, 5_600_000)] == ["12 B", "1.2 kB", "5.6 MB"]


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
        ("nats://me:secret@host:1", "nats://me:…@host:1"),
        ("nats://token@host", "nats://:…@host"),
        ("tls://me:a@b@host", "tls://me:…@host"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, safe: str) -> None:
    """Neither a password nor a token is printed."""
    assert safe_url(url) == safe


def test_one_line_has_no_line_ends_and_a_limit() -> None:
    """What was cut ends with a sign."""
    assert one_line("a\nb\tc", 10) == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert neutral("plain ü 你") == "plain ü 你"
