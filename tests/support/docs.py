"""Executed documentation: the Python blocks and the marked console blocks of Markdown files.

- A block fenced as ``python`` always runs, top-level ``await`` included. The blocks of one file
  share their names and one event loop.
- A block fenced as ``console`` runs when the line before it is ``<!-- run -->``. Its lines that
  start with ``$ `` (and ``> `` for a continued line) run in one shell, in an empty folder of the
  document's own in which ``examples/`` is the repository's; the first that fails ends the block
  and fails the test. What is shown between commands is not compared.

In both, BUS_URL names a private server, and the ``bus`` commands are on the PATH.
"""

import ast
import asyncio
import contextlib
import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser

ROOT: Final = Path(__file__).parents[2]
CONSOLE_DEADLINE_S: Final = 100.0
RUN_MARK: Final = "<!-- run -->"
_RUNNER: Final = "_docs_runner"
_FOLDER: Final = "_docs_folder"


class PythonBlocks(CodeBlockParser):
    """Python blocks, which may await."""

    language = "python"

    def evaluate(self, example: Example) -> None:
        """Run one block on the document's event loop."""
        source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
        code = compile(
            source, example.path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        result = types.FunctionType(code, example.namespace)()
        if inspect.iscoroutine(result):
            runner: asyncio.Runner = example.namespace[_RUNNER]
            runner.run(result)


class ConsoleBlocks(CodeBlockParser):
    """Console blocks below the mark ``<!-- run -->``."""

    language = "console"

    def __call__(self, document: Document) -> Iterable[Region]:
        """Find the marked blocks of *document*."""
        for region in super().__call__(document):
            if document.text[: region.start].rstrip().endswith(RUN_MARK):
                yield region

    def evaluate(self, example: Example) -> None:
        """Run the commands of one block in one shell, and fail with what they printed."""
        script = "\n".join(commands_of(example.parsed))
        if not script:
            raise ValueError(
                f"{example.path}:{example.line}: no line of the block starts with '$ '"
            )
        folder: Path = example.namespace[_FOLDER]
        code, printed = run_console(script, folder, CONSOLE_DEADLINE_S)
        if code != 0:
            raise AssertionError(f"exit code {code} from\n{script}\n--- it printed\n{printed}")


def commands_of(block: str) -> list[str]:
    """Return the lines to run of a console block, without the prompts."""
    return [line[2:] for line in block.splitlines() if line.startswith(("$ ", "> "))]


def run_console(script: str, folder: Path, deadline_s: float) -> tuple[int, str]:
    """Run *script* in *folder*; return the exit code and what was printed.

    Whatever the script left running in the background ends with it. After *deadline_s* seconds
    it is killed, and the exit code is negative.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # To a file, not a pipe: a command left in the background would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S602 - the shell runs our own documentation
            f"set -e\n{script}",
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(deadline_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")


def _setup(namespace: dict[str, Any]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="threadbus-docs-"))
    if (ROOT / "examples").is_dir():
        (folder / "examples").symlink_to(ROOT / "examples")
    namespace[_FOLDER] = folder
    namespace[_RUNNER] = asyncio.Runner()


def _teardown(namespace: dict[str, Any]) -> None:
    namespace[_RUNNER].close()
    shutil.rmtree(namespace[_FOLDER])


def documentation(root: Path) -> Sybil:
    """Return what runs the Markdown files below *root*."""
    return Sybil(
        parsers=[PythonBlocks(), ConsoleBlocks()],
        patterns=["*.md"],
        path=str(root),
        setup=_setup,
        teardown=_teardown,
        fixtures=["bus_url"],
    )
