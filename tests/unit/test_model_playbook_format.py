"""The format of playbook files: what is taken, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadbus.agents.errors import PlaybookFormatError
from threadbus.agents.model.playbook import UsagePlay, load_playbook, parse_playbook
from threadbus.agents.model.playbook.book import MAX_PLAYBOOK_BYTES


def test_a_playbook_is_read_from_a_file(tmp_path: Path) -> None:
    """Every field of a play arrives."""
    path = tmp_path / "all.toml"
    path.write_text(
        """
        format = 1
        title = "Everything"
        [defaults]
        chunk_chars = 5
        [[play]]
        name = "first"
        agent = ["a", "b"]
        step = 1
        turn = 2
        when = '(\\d+)'
        find = { total = 'total (\\d+)' }
        after_tool = "read"
        times = 3
        text = "{{ match.1 }}"
        finish_reason = "length"
        usage = { input = 1, output = 2 }
        delay_ms = 4
        chunk_chars = 6
        chunk_delay_ms = 7
        [[play.call]]
        tool = "read"
        arguments = { path = "{{ find.total }}", deep = [{ x = "{{ user }}" }] }
        [play.fail]
        cut_after = 3
        """
    )
    book = load_playbook(path)

    play = book.play[0]
    assert (book.file, book.title, book.defaults.chunk_chars) == (str(path), "Everything", 5)
    assert play.agents == ["a", "b"]
    assert play.usage == UsagePlay(1, 2)
    assert play.call[0].arguments["deep"] == [{"x": "{{ user }}"}]
    assert play.fail is not None
    assert play.fail.cut_after == 3
    assert book.label(0) == "play 1 (first)"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("", "missing required field `play`"),
        ("play = []", "length >= 1"),
        ("[[play]", "not TOML"),
        ("a = " + "[" * 5_000, "not TOML"),
        ('[[play]]\ntext = "a"\n[[play]]\nagnet = "x"', "play 2: Object contains unknown field"),
        ('[[play]]\ntext = "a"\nstep = 0', "play 1, step: Expected `int` >= 1"),
        ('[[play]]\ntext = "a"\nstep = "one"', "play 1, step: Expected `int | null`"),
        ('[[play.call]]\ntool = "read"', "play: Expected `array`"),
        ("[[play]]\nstep = 1", "says nothing"),
        ('[[play]]\ntext = "a"\nwhen = "("', "not a regular expression"),
        ('[[play]]\ntext = "a"\nfind = { x = "[" }', "not a regular expression"),
        ('[[play]]\ntext = "{{ a b }}"', "a path such as"),
        ('[[play]]\ntext = "{{ user | shout }}"', "no filter 'shout'"),
        ('[[play]]\ntext = "a"\ndelay_ms = 600_001', "delay_ms: Expected `int` <= 600000"),
        ('[[play]]\n[[play.call]]\ntool = "no good"', "call[0].tool"),
        ('[[play]]\n[[play.call]]\ntool = "a"\narguments = { x = "{{ 1+1 }}" }', "a path such as"),
        (
            '[[play]]\n[[play.call]]\ntool = "a"\narguments = { x = 1 }\nraw_arguments = "x"',
            "either arguments or raw_arguments",
        ),
        ("[[play]]\n[play.fail]\nmessage = 'x'", "exactly one of"),
        ("[[play]]\n[play.fail]\nstatus = 200", "Expected `int` >= 400"),
        ("[[play]]\n[play.fail]\ngarbage = true\nretry_after = 1", "belongs to a status"),
        ('format = 2\n[[play]]\ntext = "a"', "format 2 is not known"),
        ('file = "x"\n[[play]]\ntext = "a"', "unknown field `file`"),
    ],
)
def test_a_mistake_is_told_with_its_place(toml: str, said: str) -> None:
    """The error has the file, the play counted from 1, and the reason."""
    with pytest.raises(PlaybookFormatError) as caught:
        parse_playbook(toml, "team.toml")

    assert str(caught.value).startswith("playbook team.toml")
    assert said in str(caught.value)
    assert "docs/playbooks.md" in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Missing, a folder, too large, not UTF-8."""
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (MAX_PLAYBOOK_BYTES + 1))
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"title = '\xe9'")
    for path, said in (
        (tmp_path / "none.toml", "No such file"),
        (tmp_path, "Is a directory"),
        (large, "more than 4,194,304 bytes"),
        (latin, "not UTF-8"),
    ):
        with pytest.raises(PlaybookFormatError, match=said) as caught:
            load_playbook(path)
        assert caught.value.file == str(path)
