"""York's collaboration over three wires: the same answer, and figures that come from the run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.wires import PAPER, lines_of, measure, table, team_lines


async def test_the_same_model_comes_over_every_wire() -> None:
    """Native bus, MCP and A2A: one question in the middle, answered, then the model."""
    wires = {wire.name: wire for wire in await measure()}

    assert list(wires) == ["native", "mcp", "a2a"]
    for wire in wires.values():
        assert "The model library is valid in form and meaning after attempt 3" in wire.answer
        assert wire.asked == ("May a book have several writers?",)
        assert 1 < wire.primitives <= wire.stages
        assert wire.lines > wire.stages
    assert wires["native"].said.count("tasks.give_input") == 1
    assert wires["mcp"].said.count("tools/call") == 2
    assert wires["a2a"].said.count("SendStreamingMessage") == 2
    shown = table(list(wires.values()))
    for name, figures in PAPER.items():
        row = next(line for line in shown.splitlines() if line.startswith(f"| {name} |"))
        assert row.endswith(f"| {', '.join(map(str, figures))} |")
        assert f"| {wires[name].lines} | {wires[name].primitives} |" in row
    assert str(team_lines()) in shown


def test_only_code_is_counted(tmp_path: Path) -> None:
    """Blanks, comments and docstrings are no code; a call over three lines is three."""
    program = tmp_path / "p.py"
    program.write_text(
        '"""A\nB\n"""\n\n# no\nimport os  # yes\n\n\ndef f() -> str:\n    """No."""\n'
        '    x = """yes\n    yes"""\n    return os.path.join(\n        x,\n    )\n'
    )
    assert lines_of(program) == 1 + 1 + 2 + 3
