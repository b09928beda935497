"""An agent that knows nothing of threadbus takes part by subjects and JSON alone."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from threadbus.bus import connect
from threadbus.schemas import Recorded

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_nats.py"


def test_the_example_is_short() -> None:
    """It fits on a page: at most 40 lines."""
    assert len(EXAMPLE.read_text().splitlines()) <= 40


async def test_an_agent_in_plain_nats_py_answers(bus_url: str) -> None:
    """A question to it is answered, and its events are as good as anybody's."""
    async with connect(bus_url) as bus:
        agent = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), bus_url, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert agent.stdout is not None
            async with asyncio.timeout(20):
                assert await agent.stdout.readline() == b"ready\n"
            answers = [
                await bus.ask(text, to=["plain"], timeout=timedelta(seconds=20))
                for text in ("hello", "刘备 🚀")
            ]
            entries = [entry async for entry in bus.read(answers[0].task)]
        finally:
            agent.kill()
            await agent.wait()

    assert [answer.text for answer in answers] == ["5 characters", "4 characters"]
    assert all(isinstance(entry, Recorded) for entry in entries)
