"""What a command prints, where nobody looks at it on a terminal."""

from __future__ import annotations

import pytest

from threadbus.agents.cli.shell import Shell, cell, table


def test_a_row_of_a_piped_table_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is, so that programs can read it; and nothing is cut from it."""
    words = " ".join(f"word-{number}" for number in range(40))
    made = table("agent", "what it can do", "why")
    made.add_row(cell("web"), cell(words), cell("because"))
    made.add_row(cell("doc"), cell("reads"), cell("x"))
    shell = Shell({})
    width = shell.out.width
    shell.table(made)
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == ["agent", "web", "doc"]
    assert words in lines[1]
    assert lines[1].endswith("because")
    assert shell.out.width == width
