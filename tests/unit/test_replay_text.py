"""Text from events becomes harmless, short and readable."""

import pytest

from threadbus.replay.text import duration, first_line, fit, moment, neutral, offset, plural, size

S = 1_000_000_000


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain text, 答案 🎉", "plain text, 答案 🎉"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("csi \x9b31m", "csi \\x9b31m"),
        ("back\x08\x7f", "back\\x08\\x7f"),
        ("one\ntwo\r\nthree\tfour", "one two  three four"),
        ("evil \u202egnp.exe", "evil \\u202egnp.exe"),
        ("line\u2028para\u2029nbsp\u00a0wide\u3000", "line para nbsp wide "),
        ("hidden \u200b\ufeff", "hidden \\u200b\\ufeff"),
        ("lone \ud800", "lone \\ud800"),
        ("tags \U000e0041", "tags \\U000e0041"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(given: str, shown: str) -> None:
    """Control and format characters turn into escapes, odd spaces into spaces; words stay."""
    assert shown == neutral(given)


def test_the_first_line_that_says_something_is_shown() -> None:
    """Empty lines are passed over, and a mark says that more follows."""
    assert first_line("\n\n  hello  \nmore", 20) == "hello …"
    assert first_line("hello", 20) == "hello"
    assert first_line("hello\n\n", 20) == "hello"
    assert first_line("", 20) == ""


def test_a_long_line_is_cut_to_its_limit() -> None:
    """At most so many characters, the last of them a mark, however long the text is."""
    line = first_line("x" * 10_000_000, 20)

    assert line == "x" * 19 + "…"


def test_columns_are_counted_as_a_terminal_does() -> None:
    """A wide character takes two columns, and none is cut in half."""
    assert fit("答案答案", 8) == "答案答案"
    assert fit("答案答案", 7) == "答案答…"
    assert fit("答案答案", 6) == "答案…"
    assert fit("plain", 4) == "pla…"
    assert fit("plain", 0) == ""


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (300_000, "0.3 ms"),
        (999_999_999, "999 ms"),
        (1_234_000_000, "1.23 s"),
        (59_990_000_000, "59.9 s"),
        (125 * S, "2 min 5 s"),
        (2 * 3600 * S, "2 h 0 min"),
        (90_000 * S, "1 d 1 h"),
        (2**62, "53,375 d 23 h"),
    ],
)
def test_durations_have_two_units_at_most(ns: int, shown: str) -> None:
    """From fractions of a millisecond to centuries, never negative."""
    assert shown == duration(ns)


@pytest.mark.parametrize("ns", [-1, 0, S - 1, 99 * S, 100 * S, 5999 * S, 359_999 * S, 2**62])
def test_an_offset_fits_the_gutter(ns: int) -> None:
    """Whatever the time since the start, at most eight characters say it."""
    shown = offset(ns)

    assert len(shown) <= 8
    assert shown.startswith("+")


def test_a_time_that_no_calendar_has_is_said_so() -> None:
    """The year 9999 is not the end of what an event can claim."""
    assert moment(1_772_366_405 * S) == "2026-03-01 12:00:05 UTC"
    assert "no time" in moment(2**62 * 100)


def test_counts_are_words_for_people() -> None:
    """One event, two events; bytes in the unit that suits."""
    assert plural(1, "event") == "1 event"
    assert plural(2_000, "event") == "2,000 events"
    assert size(1) == "1 byte"
    assert size(1_234) == "1.2 kB"
    assert size(5 * 10**9) == "5.0 GB"
