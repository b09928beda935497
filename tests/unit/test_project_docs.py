"""Executed documentation: what runs, and what fails."""

import os
import select
import textwrap
from pathlib import Path
from typing import Any

import pytest
from sybil import Document

from tests.support.docs import commands_of, documentation, run_console


def _run(folder: Path, text: str) -> int:
    """Run each example of a document as pytest would; return how many there were."""
    path = folder / "page.md"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    sybil = documentation(folder)
    document: Document = sybil.parse(path)
    namespace: dict[str, Any] = document.namespace
    assert sybil.setup is not None
    assert sybil.teardown is not None
    sybil.setup(namespace)
    try:
        examples = list(document.examples())
        for example in examples:
            example.evaluate()
    finally:
        sybil.teardown(namespace)
    return len(examples)


def test_python_blocks_share_names_and_one_event_loop(tmp_path: Path) -> None:
    """A block may await what a block before it began."""
    ran = _run(
        tmp_path,
        """
        ```python
        import asyncio

        gate = asyncio.Event()
        waiting = asyncio.create_task(gate.wait())
        await asyncio.wait({waiting}, timeout=0)
        ```

        ```python
        gate.set()
        assert await waiting
        ```
        """,
    )

    assert ran == 2


def test_a_python_block_that_raises_fails_at_its_line(tmp_path: Path) -> None:
    """The traceback names the line in the document."""
    with pytest.raises(ZeroDivisionError) as failed:
        _run(tmp_path, "\n# Page\n\n```python\nx = 1\n1 / 0\n```\n")

    last = failed.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 6)


def test_only_marked_console_blocks_run(tmp_path: Path) -> None:
    """A console block without the mark is shown and never run."""
    ran = _run(
        tmp_path,
        """
        ```console
        $ exit 1
        ```

        <!-- run -->
        ```console
        $ test -x "$(command -v nats-server)"
        ```
        """,
    )

    assert ran == 1


def test_a_console_block_that_fails_shows_what_it_printed(tmp_path: Path) -> None:
    """The first command that fails ends the block, and the error has its output."""
    with pytest.raises(AssertionError, match="exit code 3") as failed:
        _run(
            tmp_path,
            """
            <!-- run -->

            ```console
            $ echo before; (exit 3)
            $ echo after
            ```
            """,
        )

    assert "before\n" in str(failed.value).partition("it printed")[2]
    assert "after\n" not in str(failed.value).partition("it printed")[2]


def test_a_marked_block_without_a_command_is_an_error(tmp_path: Path) -> None:
    """A block that would pass without running anything is refused."""
    with pytest.raises(ValueError, match="no line of the block starts with"):
        _run(tmp_path, "<!-- run -->\n```console\nbus status\n```\n")


def test_prompts_are_stripped_and_output_is_ignored() -> None:
    """Lines with a prompt are commands, `> ` continues one, all else is output."""
    block = "$ for n in 1 2; do\n>   echo $n\n> done\n1\n2\n$ true\n"

    assert commands_of(block) == ["for n in 1 2; do", "  echo $n", "done", "true"]


def test_what_a_block_left_in_the_background_ends_with_it(tmp_path: Path) -> None:
    """A server that a document starts with & does not outlive its block, nor hold it up."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        code, _ = run_console(f"exec 3>{fifo}; tail -f /dev/null &", tmp_path, 30)
        # The reader sees the end of the file once nobody holds the other end any more.
        ended, _, _ = select.select([reader], [], [], 30)
    finally:
        os.close(reader)

    assert code == 0
    assert ended == [reader]


def test_a_block_that_hangs_is_killed(tmp_path: Path) -> None:
    """After the deadline the block is killed, with what it printed so far."""
    code, printed = run_console("echo begun; exec tail -f /dev/null", tmp_path, 0.5)

    assert code < 0
    assert printed == "begun\n"
