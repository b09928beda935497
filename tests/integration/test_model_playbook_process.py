"""The playbook server as a process of its own, and the example of the documentation."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.model_servers import ignore, settings_for
from threadbus.agents.model import ChatMessage, Model, Tool, ToolSpec, run_tools
from threadbus.agents.model.messages import JsonObject

DOCUMENT = Path(__file__).parents[2] / "docs" / "playbooks.md"
COMMAND = [sys.executable, "-m", "threadbus.agents.model.playbook"]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return the full example of the documentation as a file."""
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    path = tmp_path / "example.toml"
    path.write_text(next(block for block in blocks if block.startswith("format = 1")))
    return path


@asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Run the command; it is killed if it does not end."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def output_of(process: asyncio.subprocess.Process) -> tuple[str, str]:
    """Wait for the end and return what was printed."""
    out, err = await process.communicate()
    return out.decode(), err.decode()


async def line_of(process: asyncio.subprocess.Process) -> str:
    """Return the next line on standard output."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_process_says_where_it_is_and_ends_when_told(
    example: Path, number: signal.Signals
) -> None:
    """The base URL first, then what it is; exit code 0, also while a stream runs."""
    first = asyncio.Event()
    async with running(str(example)) as process:
        base_url = await line_of(process)
        label = await line_of(process)
        async with Model(settings_for(base_url), agent="document") as model:
            call = asyncio.create_task(
                model.complete(
                    [ChatMessage.user("Take your time.")], on_delta=lambda _: first.set()
                )
            )
            await first.wait()
            process.send_signal(number)
            assert (await call).system == "playbook"
        _, err = await output_of(process)

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", base_url)
    assert label.startswith("playbook server: answers come from")
    assert (process.returncode, err) == (0, "")


async def test_the_example_of_the_documentation_plays(example: Path) -> None:
    """All that it shows: a tool, a template, a failure that passes, a miss."""

    async def read_csv(arguments: JsonObject) -> str:
        assert arguments == {"path": "sales.csv"}
        return '{"rows": 12, "total": 1234567}'

    tools = {"read_csv": Tool(ToolSpec("read_csv"), read_csv)}
    deltas: list[str] = []
    async with running(str(example), "--port", "0") as process:
        base_url = await line_of(process)
        async with Model(settings_for(base_url), agent="document") as model:
            run = await run_tools(
                model,
                [ChatMessage.user("What is the total of sales.csv?")],
                tools,
                on_delta=deltas.append,
            )
        async with Model(settings_for(base_url), agent="coder") as model:
            code = await model.complete([ChatMessage.user("Add 2 and 3.")])
        async with Model(settings_for(base_url), agent="critic") as model:
            with pytest.raises(Exception, match="no play in") as caught:
                await model.complete([ChatMessage.user("Well?")], on_delta=ignore)
        process.send_signal(signal.SIGTERM)
        await output_of(process)

    assert run.text == "sales.csv has 12 rows; their total is 1,234,567."
    assert len(deltas) > 1
    assert code.text == 'print(f"{2 + 3}")'
    assert code.attempts == 2
    assert "agent 'critic', step 1, turn 1, last message 'Well?'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ('[[play]]\ntext = "a"', 0, "1 plays, nothing wrong"),
        ('[[play]]\ntxt = "a"', 2, "play 1: Object contains unknown field `txt`"),
    ],
)
async def test_a_file_can_be_checked(tmp_path: Path, content: str, code: int, said: str) -> None:
    """Without serving it."""
    path = tmp_path / "book.toml"
    path.write_text(content)
    async with running(str(path), "--check") as process:
        out, err = await output_of(process)

    assert process.returncode == code
    assert said in out + err
    assert (err == "") == (code == 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.toml"], "it cannot be read (No such file or directory)"),
        (["{example}", "--port", "99999"], "cannot be listened on"),
        (["{example}", "--host", "256.0.0.1"], "cannot be listened on"),
        ([], "usage:"),
    ],
)
async def test_a_start_that_fails_says_why(example: Path, arguments: list[str], said: str) -> None:
    """On standard error, with exit code 2."""
    filled = [argument.format(example=example) for argument in arguments]
    async with running(*filled) as process:
        out, err = await output_of(process)

    assert process.returncode == 2
    assert said in err
    assert "Traceback" not in err
    assert out == ""
