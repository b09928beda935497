"""The command ``busreplay`` with the forms for other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.busreplay import busreplay
from tests.support.runs import revenue_run
from tests.support.story import NUMBERS, Story
from threadbus.replay import Format, export_line
from threadbus.replay.forms import FORMS

BEGINNINGS = {
    "html": b"<!doctype html>\n",
    "markdown": b"# Which revenue figure is right?\n",
    "mermaid": b"sequenceDiagram\n",
    "dot": b"digraph run {\n",
    "chrome-trace": b'{"displayTimeUnit":"ms"',
}


def saved(path: Path, story: Story) -> Path:
    """Write an exported file."""
    path.write_bytes(b"".join([export_line(item) for item in story.log]))
    return path


@pytest.mark.parametrize("form", list(FORMS))
def test_a_form_is_written_to_a_pipe(tmp_path: Path, form: str) -> None:
    """In UTF-8 whatever the locale."""
    file = saved(tmp_path / "run.jsonl", revenue_run())
    result = busreplay("--file", file, "--format", form, LC_ALL="C")

    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(BEGINNINGS[form])
    assert "“before returns”".encode() in result.stdout


@pytest.mark.parametrize("form", list(FORMS))
def test_a_form_of_one_thread(tmp_path: Path, form: str) -> None:
    """The filters choose what is written; what is said in the document is said of the part."""
    file = saved(tmp_path / "run.jsonl", revenue_run())
    result = busreplay("--file", file, "--format", form, "--thread", NUMBERS)

    assert (result.returncode, result.stderr) == (0, b"")
    assert b"footnote" in result.stdout
    assert b"run_python" not in result.stdout
    if form in ("html", "markdown"):
        assert b"--thread check-numbers-a1b2c3" in result.stdout
        said = {"html": b'"part":"thread check-numbers-a1b2c3"'}
        assert said.get(form, b"Only thread check-numbers-a1b2c3;") in result.stdout


def test_a_form_of_what_is_not_there(tmp_path: Path) -> None:
    """An unknown agent is an error, and nothing is written."""
    file = saved(tmp_path / "run.jsonl", revenue_run())
    result = busreplay("--file", file, "--format", "html", "--agent", "nobody")

    assert (result.returncode, result.stdout) == (1, b"")
    assert b"no agent 'nobody' in this run" in result.stderr


def test_every_form_has_its_format() -> None:
    """What the registry has, the option takes."""
    assert set(FORMS) <= {form.value for form in Format}
    assert set(BEGINNINGS) == set(FORMS)
