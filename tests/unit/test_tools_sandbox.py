"""The sandbox as a model meets it: what code gets, what comes back, how limits read."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.leftovers import processes_in
from threadbus.agents.tools import (
    Ended,
    InputFile,
    InvalidCodeError,
    InvalidInputFileError,
    SandboxLimits,
    SandboxResult,
    run_python,
)
from threadbus.agents.tools.sandbox import MAX_CODE_BYTES


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep working folders below the test's own folder, so that leftovers can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(
    code: str, *, files: Sequence[InputFile] = (), limits: SandboxLimits | None = None
) -> SandboxResult:
    return asyncio.run(run_python(code, files=files, limits=limits or SandboxLimits()))


def test_output_files_and_status_of_a_run_come_back(temporary: Path) -> None:
    """Code reads its input files, prints, writes files, and leaves nothing behind."""
    code = """
import csv, os, sys
rows = list(csv.DictReader(open("data/sales.csv")))
print(sum(int(row["units"]) for row in rows))
print("careful", file=sys.stderr)
os.mkdir("out")
open("out/total.txt", "w").write("12")
sys.exit(3)
"""
    result = run(code, files=[InputFile("data/sales.csv", b"units\n5\n7\n")])
    assert (result.ended, result.exit_status, result.ok) == (Ended.EXIT, 3, False)
    assert (result.stdout, result.stderr) == ("12\n", "careful\n")
    assert [(file.name, file.size, file.content) for file in result.files] == [
        ("out/total.txt", 2, b"12")
    ]
    assert list(temporary.iterdir()) == []
    assert processes_in(temporary) == []


def test_a_changed_input_file_comes_back_and_an_unchanged_one_does_not() -> None:
    """Only what the code wrote is listed."""
    files = [InputFile("same.txt", b"same"), InputFile("other.txt", b"old")]
    result = run("open('other.txt', 'a').write('new'); open('same.txt').read()", files=files)
    assert [(file.name, file.content) for file in result.files] == [("other.txt", b"oldnew")]


def test_a_traceback_names_lines_but_no_folder_of_this_machine(temporary: Path) -> None:
    """What a model reads is the same in every run."""
    result = run("x = 1\nraise ValueError(x)")
    assert result.stderr == (
        'Traceback (most recent call last):\n  File "main.py", line 2, in <module>\n'
        "    raise ValueError(x)\nValueError: 1\n"
    )
    assert run("import os; print(os.getcwd())").stdout == ".\n"


def test_the_environment_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the agent's environment reaches the code."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    result = run("import os; print(sorted(os.environ)); print(os.environ)")
    assert result.ok
    assert "secret" not in result.stdout
    assert "OPENAI" not in result.stdout


def test_installed_packages_can_be_imported() -> None:
    """The code sees the packages of the interpreter that runs the agent."""
    result = run("import asyncio, msgspec, sqlite3; asyncio.run(asyncio.sleep(0)); print('ok')")
    assert result.stdout == "ok\n", result.stderr


def test_standard_input_is_empty() -> None:
    """Code that asks for input gets the end of it, not a hang."""
    assert "EOFError" in run("input('name? ')").stderr


def test_output_that_is_no_text_is_replaced() -> None:
    """Bytes that JSON cannot carry become replacement characters."""
    result = run(r"import os; os.write(1, b'a\x00b\xffc')")
    assert result.stdout == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("code", "limits", "ended", "told"),
    [
        ("print('x' * 5000)", SandboxLimits(output_bytes=1000), Ended.OUTPUT, "1,000 bytes"),
        (
            "bytearray(10 * 2**30)",
            SandboxLimits(memory_bytes=256 * 2**20),
            Ended.MEMORY,
            "268,435,456 bytes",
        ),
        (
            "open('big', 'wb').write(bytes(5000))",
            SandboxLimits(file_bytes=4096),
            Ended.FILE_SIZE,
            "4,096 bytes",
        ),
        (
            "for i in range(30): open(str(i), 'w')\nimport signal; signal.pause()",
            SandboxLimits(files=20),
            Ended.FOLDER,
            "20 files",
        ),
        (
            "for i in range(9): open(str(i), 'wb').write(bytes(9000))\n"
            "import signal; signal.pause()",
            SandboxLimits(file_bytes=10_000, folder_bytes=50_000),
            Ended.FOLDER,
            "50,000 bytes",
        ),
        (
            "print('so far')\nimport signal; signal.pause()",
            SandboxLimits(wall_time=timedelta(seconds=0.5)),
            Ended.WALL_TIME,
            "0.5 s",
        ),
        ("while True: pass", SandboxLimits(cpu_time=timedelta(seconds=1)), Ended.CPU_TIME, "1 s"),
        (
            "import threading\nwait = threading.Event().wait\n"
            "for _ in range(20): threading.Thread(target=wait, daemon=True).start()\nwait()",
            SandboxLimits(processes=8, wall_time=timedelta(seconds=10)),
            Ended.PROCESSES,
            "8 processes",
        ),
    ],
    ids=["output", "memory", "file", "files", "folder", "wall", "cpu", "threads"],
)
def test_a_limit_that_is_reached_is_told_with_its_value(
    code: str, limits: SandboxLimits, ended: Ended, told: str
) -> None:
    """Each limit ends the run, and the summary names the limit and the way out."""
    result = run(code, limits=limits)
    assert result.ended is ended, result
    assert told in result.summary()
    assert not result.ok


def test_what_was_printed_before_a_limit_is_kept() -> None:
    """A stopped run still shows its output, up to the limit."""
    limits = SandboxLimits(files=10, output_bytes=4)
    code = "print('abc')\nfor i in range(20): open(str(i), 'w')\nimport signal; signal.pause()"
    result = run(code, limits=limits)
    assert (result.ended, result.stdout, result.stdout_truncated) == (Ended.FOLDER, "abc\n", False)
    cut = run("print('abcdef')", limits=limits)
    assert (cut.ended, cut.stdout, cut.stdout_truncated) == (Ended.OUTPUT, "abcd", True)


def test_the_rendered_result_tells_a_model_everything() -> None:
    """Summary, output, what was cut and what was written, in one text."""
    limits = SandboxLimits(output_bytes=100, returned_files=1)
    code = "import sys; print('out'); print('err', file=sys.stderr); [open(n, 'w') for n in 'ab']"
    rendered = run(code, limits=limits).render()
    assert rendered.startswith(
        "The code ended with exit status 0.\n--- stdout\nout\n--- stderr\nerr\n"
        "--- wrote a, 0 bytes\n[truncated: 1 more files]\n"
    )
    cut = run("print('x' * 1000)", limits=limits).render()
    assert "x" * 100 + "\n[truncated: stdout after 100 bytes]\n" in cut


def test_a_crash_is_told_by_its_signal() -> None:
    """A crash of the interpreter is data as well."""
    result = run("import os; os.abort()")
    assert (result.ended, result.signal, result.exit_status) == (Ended.SIGNAL, "SIGABRT", None)
    assert "SIGABRT" in result.summary()


def test_returned_files_are_bounded() -> None:
    """Content above the limit is left out with its size told; files above the limit are counted."""
    code = "for i in range(6): open(f'f{i}', 'wb').write(bytes(100))"
    result = run(code, limits=SandboxLimits(returned_bytes=250, returned_files=4))
    assert [(file.name, file.size, file.content is None) for file in result.files] == [
        ("f0", 100, False),
        ("f1", 100, False),
        ("f2", 100, True),
        ("f3", 100, True),
    ]
    assert result.files_omitted == 2


def test_links_pipes_and_folders_are_not_returned(tmp_path: Path) -> None:
    """Only plain files come back; a link to a file elsewhere never brings its content."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    code = f"""
import os
os.symlink({str(secret)!r}, "link")
os.symlink({str(tmp_path)!r}, "linked_folder")
os.mkfifo("pipe")
os.mkdir("folder")
try:
    os.link({str(secret)!r}, "hard")
except OSError:
    pass
"""
    result = run(code)
    assert result.ok, result.stderr
    assert [file for file in result.files if file.content is not None] == []


@pytest.mark.parametrize(
    "name",
    [
        *("", "/etc/x", "../x", "a/../../x", "./x", "a//b", ".", "x\0", "a\\b"),
        *("a" * 201, "é" * 150, "/".join("abcdefghi")),
        *("main.py", "main.py/x", "taken.txt", "taken.txt/x"),
    ],
)
def test_a_bad_name_of_an_input_file_is_refused(name: str) -> None:
    """A name that leads out of the folder, or is taken, is misuse and raises."""
    files = [InputFile("taken.txt", b""), InputFile(name, b"")]
    with pytest.raises(InvalidInputFileError):
        run("", files=files)


def test_input_files_above_the_limits_are_refused() -> None:
    """Too many or too large input files raise with the numbers."""
    limits = SandboxLimits(files=3, folder_bytes=100)
    many = [InputFile(str(i), b"") for i in range(3)]
    with pytest.raises(InvalidInputFileError, match="file 3, and the limit is 3"):
        run("", files=many, limits=limits)
    with pytest.raises(InvalidInputFileError, match="101 bytes, over the limit of 100"):
        run("", files=[InputFile("a", bytes(101))], limits=limits)


def test_code_that_cannot_be_run_is_refused() -> None:
    """Code that is too long or is no text raises; a syntax error is data."""
    with pytest.raises(InvalidCodeError, match=f"{MAX_CODE_BYTES:,}"):
        run("#" * (MAX_CODE_BYTES + 1))
    with pytest.raises(InvalidCodeError, match=r"U\+D800"):
        run("'\ud800'")
    assert "SyntaxError" in run("x = (").stderr


def test_a_missing_interpreter_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot be started is not the code's fault, and raises."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Exception, match=r"/nowhere/python.*could not be started"):
        run("")


def test_runs_at_the_same_time_do_not_meet() -> None:
    """Each run has its own folder and output."""

    async def all_runs() -> list[SandboxResult]:
        codes = [f"open('x', 'w').write('{i}'); print(open('x').read())" for i in range(4)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_python(code)) for code in codes]
        return [task.result() for task in tasks]

    assert [result.stdout for result in asyncio.run(all_runs())] == ["0\n", "1\n", "2\n", "3\n"]
