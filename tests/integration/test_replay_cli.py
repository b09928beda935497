"""The command ``busreplay`` on exported files: what it writes, and with which exit code it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import termios
from pathlib import Path

import msgspec
import pytest

from tests.support.busreplay import COMMAND, DEADLINE_S, busreplay, environment, start_busreplay
from tests.support.runs import revenue_run
from tests.support.story import NUMBERS, TASK, Story
from threadbus.replay import Timeline, export_line, fold
from threadbus.schemas import TaskClosed, TaskId, TaskOpened, TaskStatus, TextPart

OTHER = TaskId(TASK[:-1] + "2")


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one run."""
    return write(tmp_path_factory.mktemp("run") / "run.jsonl", revenue_run())


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one run whose texts are Chinese and emoji."""
    story = Story()
    asked = story.add("user", TaskOpened(title="哪个数字是对的? 🤔"), mentions=("planner",))
    story.say("planner", "表格里的数字。 ✅ naïve “quotes”", cause=asked)
    story.add("planner", TaskClosed(outcome=TaskStatus.COMPLETED, summary="完成"), cause=asked)
    return write(tmp_path_factory.mktemp("wide") / "run.jsonl", story)


def write(path: Path, *stories: Story) -> Path:
    """Write an exported file."""
    path.write_bytes(b"".join([export_line(item) for story in stories for item in story.log]))
    return path


def test_the_tree_is_the_default(run_file: Path) -> None:
    """Header, threads, turns and answer; the only task of a file needs no id."""
    result = busreplay("--file", run_file)

    assert (result.returncode, result.stderr) == (0, b"")
    text = result.stdout.decode()
    assert text.startswith("Which revenue figure is right?\n")
    assert "planner ← user" in text
    assert text.endswith("before returns of 90,000 (footnote on page 2).\n")


@pytest.mark.parametrize(
    "variables",
    [
        {"LANG": "C"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
@pytest.mark.parametrize("extra", [(), ("--agent", "planner")])
def test_any_text_can_be_shown_in_the_c_locale(
    wide_file: Path, variables: dict[str, str], extra: tuple[str, ...]
) -> None:
    """Everything is ASCII, nothing fails, and no character is lost."""
    result = busreplay("--file", wide_file, *extra, **variables)

    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.isascii()
    assert b"\\u54ea\\u4e2a" in result.stdout
    assert b"|- planner <- user" in result.stdout or b"`- planner <- user" in result.stdout


def test_text_is_utf_8_elsewhere(wide_file: Path) -> None:
    """Where the locale can hold it, text is as it was written."""
    text = busreplay("--file", wide_file).stdout.decode()

    assert "哪个数字是对的? 🤔" in text
    assert "replies: 表格里的数字。 ✅ naïve “quotes”" in text


def test_a_pipe_gets_neither_colours_nor_a_width(tmp_path: Path) -> None:
    """Whatever the terminal outside is, a pipe gets plain lines of any length."""
    story = Story()
    asked = story.add("user", TaskOpened(title="T"), mentions=("planner",))
    story.say("planner", "word " * 40 + "end", cause=asked)
    file = write(tmp_path / "run.jsonl", story)
    result = busreplay("--file", file, COLUMNS="50")

    assert b"\x1b" not in result.stdout
    assert b"replies: " + b"word " * 40 + b"end\n" in result.stdout


def on_terminal(*arguments: str | Path, columns: int, **variables: str) -> str:
    """Return what the command writes to a terminal of so many columns."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        written = b""
        # The end of a terminal is an error on Linux and empty elsewhere.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                written += piece
        os.close(ours)
        assert process.wait(DEADLINE_S) == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_colours_and_its_width(run_file: Path, columns: int) -> None:
    """Lines fit the terminal, and colours tell agents and failures apart."""
    text = on_terminal("--file", run_file, columns=columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)

    assert plain != text
    assert max(len(line) for line in plain.splitlines()) <= columns


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(run_file: Path, variables: dict[str, str]) -> None:
    """NO_COLOR, and a terminal that knows no colours, get none."""
    assert "\x1b" not in on_terminal("--file", run_file, columns=100, **variables)


def test_jsonl_is_the_file_itself(run_file: Path) -> None:
    """What is exported from a file is the file, byte for byte, in every locale."""
    for variables in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        result = busreplay("--file", run_file, "--format", "jsonl", **variables)
        assert result.stdout == run_file.read_bytes()


def test_json_is_the_whole_story(run_file: Path) -> None:
    """One document, which reads back into the timeline."""
    result = busreplay("--file", run_file, "--format", "json", "--no-findings", TASK)

    assert msgspec.json.decode(result.stdout, type=Timeline) == fold(revenue_run().log)


def test_one_thread_and_one_agent_can_be_chosen(run_file: Path) -> None:
    """The filters hold for every format."""
    tree = busreplay("--file", run_file, "--thread", NUMBERS).stdout.decode()
    assert "thread Check numbers" in tree
    assert "thread main" not in tree

    lines = busreplay("--file", run_file, "--agent", "coder", "--format", "jsonl").stdout
    assert 0 < lines.count(b"\n") < 41
    assert all(b"coder" in line for line in lines.splitlines())

    document = busreplay("--file", run_file, "--thread", NUMBERS, "--format", "json").stdout
    assert list(msgspec.json.decode(document)["threads"]) == [NUMBERS]


def test_reading_can_be_limited(run_file: Path) -> None:
    """Only the first entries are read, and the tree says so."""
    tree = busreplay("--file", run_file, "--limit", "5").stdout.decode()
    assert "only the first 5 events were read (--limit)" in tree

    lines = busreplay("--file", run_file, "--limit", "5", "--format", "jsonl").stdout
    assert lines == b"".join(run_file.read_bytes().splitlines(keepends=True)[:5])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, b"name a super-task"),
        (("  ",), 2, b"name a super-task"),
        (("--format", "xml", TASK), 2, b"xml"),
        (("--limit", "0", TASK), 2, b"--limit 0: at least 1"),
        (("--connect-timeout", "soon", TASK), 2, b"--connect-timeout='soon'"),
        ((TASK, "--url", "nats://127.0.0.1:1"), 4, b"bus up"),
        (("--file", "/nonexistent/run.jsonl"), 1, b"No such file"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], code: int, says: bytes) -> None:
    """The exit code tells the kind, the message the way out; nothing is written to stdout."""
    result = busreplay(*arguments)

    assert result.returncode == code
    assert says in result.stderr
    assert result.stdout == b""
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--follow",), 2, b"a file does not grow"),
        (("--thread", "nope"), 1, b"it has main, check-numbers-a1b2c3"),
        (("--agent", "nope"), 1, b"it has user, planner, document, coder"),
        (("--agent", "nope", "--format", "jsonl"), 1, b"no agent 'nope'"),
        (("f" * 32,), 3, TASK.encode()),
        (("abc",), 3, TASK.encode()),
        (("quite wrong\x1b[2J",), 3, TASK.encode()),
    ],
)
def test_what_a_file_does_not_have_is_said(
    run_file: Path, arguments: tuple[str, ...], code: int, says: bytes
) -> None:
    """The message names what there is instead."""
    result = busreplay("--file", run_file, *arguments)

    assert result.returncode == code
    assert says in result.stderr
    assert b"\x1b" not in result.stderr


def test_an_ambiguous_prefix_lists_its_tasks(tmp_path: Path) -> None:
    """A prefix is enough where it is unique; otherwise the candidates are shown."""
    stories = [Story(task=task) for task in (TASK, OTHER)]
    for story in stories:
        story.add("user", TaskOpened(title=f"Title {story.task[-1]}"), mentions=("planner",))
    file = write(tmp_path / "runs.jsonl", *stories)

    result = busreplay(TASK[:12], "--file", file)
    assert result.returncode == 3
    assert TASK.encode() in result.stderr
    assert b"Title 2" in result.stderr
    assert busreplay(OTHER, "--file", file).stdout.startswith(b"Title 2\n")


def test_a_reader_that_has_enough_ends_it_quietly(tmp_path: Path) -> None:
    """As with ``| head``: no error, no message."""
    story = Story()
    asked = story.add("user", TaskOpened(title="Long"), mentions=("planner",))
    for number in range(3_000):
        story.say("planner", f"message {number} " * 10, cause=asked)
    file = write(tmp_path / "run.jsonl", story)

    for form in ("tree", "jsonl", "json"):
        with start_busreplay("--file", file, "--format", form) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(1)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(DEADLINE_S) == 0


def test_the_first_line_does_not_wait_for_the_last(tmp_path: Path) -> None:
    """The header is written while most of the log is still to come."""
    story = Story()
    asked = story.add("user", TaskOpened(title="Large"), mentions=("planner",))
    for _ in range(1_000):
        story.say("planner", "a message of some length " * 20, cause=asked)
    story.add("planner", TaskClosed(outcome=TaskStatus.FAILED, summary="the end"), cause=asked)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = [export_line(item) for item in story.log]
    with start_busreplay(TASK, "--file", pipe) as process, pipe.open("wb") as writer:
        assert process.stdout is not None
        writer.writelines(lines[:-1])
        writer.flush()
        assert process.stdout.readline() == b"Large\n"
        writer.write(lines[-1])
        writer.close()
        assert process.stdout.read().endswith(b"the end\n")
        assert process.wait(DEADLINE_S) == 0


def test_broken_entries_do_not_change_the_exit_code(run_file: Path, tmp_path: Path) -> None:
    """A line that cannot be read is part of the report, not an error of the command."""
    file = tmp_path / "run.jsonl"
    file.write_bytes(run_file.read_bytes() + b"\x00\xffgarbage\n")
    result = busreplay("--file", file)

    assert result.returncode == 0
    assert b"line 42: not a line of an exported file" in result.stdout


def test_a_file_without_an_event_has_no_run(tmp_path: Path) -> None:
    """Reports alone are no run: the id is unknown, and nothing is shown."""
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"garbage\n" * 3)
    for form in ("tree", "jsonl", "json"):
        result = busreplay(TASK, "--file", file, "--format", form)
        assert (result.returncode, result.stdout) == (3, b"")
        assert b"holds no super-task that can be read" in result.stderr


def test_harmful_text_reaches_no_terminal(tmp_path: Path) -> None:
    """A title with escape sequences is shown as what it is, on a terminal too."""
    story = Story()
    title = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m harm"
    story.add("user", TaskOpened(title=title, parts=(TextPart(title),)), mentions=("planner",))
    text = on_terminal("--file", write(tmp_path / "r.jsonl", story), columns=100, NO_COLOR="1")

    assert "\x1b" not in text
    assert "\\x1b]52;c;aGk=\\x07\\x1b[2J\\x9b31m harm" in text


def test_version_and_help_need_nothing() -> None:
    """Both are plain text, in any locale; help names every exit code."""
    assert busreplay("--version").stdout.startswith(b"busreplay ")
    shown = busreplay("--help", LC_ALL="C")
    assert (shown.returncode, shown.stdout.isascii()) == (0, True)
    assert all(f"{code} ".encode() in shown.stdout for code in (0, 1, 2, 3, 4, 130))
