"""Tokens of an Anemoi task: what is new in a turn, against the whole thread again in every step.

Both are counted over one and the same run: what the models were sent (``model.called``), and what
they would have been sent had every model call carried all that was said in the thread so far, as
the original does. The run is the team's own code on a server of its own; a playbook says the words.

    python -m benchmarks.context                    # tasks of several lengths
    python -m benchmarks.context run.jsonl …        # or runs that were exported
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from threadbus.agents import Agent, AgentRunner, load_agent
from threadbus.agents.model import PLAYBOOK, Model, ModelSettings
from threadbus.agents.model.playbook import PlaybookServer, parse_playbook
from threadbus.agents.teams.anemoi.context import line_of, tokens_of
from threadbus.agents.teams.anemoi.plans import MAX_STEPS
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.bus import Bus, connect
from threadbus.bus.server import EmbeddedServer
from threadbus.schemas import (
    MAIN_THREAD,
    ContextUsed,
    Event,
    FilePart,
    ModelCalled,
    Part,
    Recorded,
    TextPart,
    decode_event,
)

STEPS: Final = (2, 4, 8, MAX_STEPS)
_LINES: Final = 40
_LINE: Final = "Berth {n}, line {line}: the {n}th crane moved {tons} tons before the tide turned."


class Tokens(NamedTuple):
    """What one task cost in input tokens."""

    calls: int
    events: int
    sent: int
    """As it is: what is new, after a bounded summary."""
    resent: int
    """Had every call carried the whole thread."""

    @property
    def ratio(self) -> float:
        """How many times as much resending takes."""
        return self.resent / max(1, self.sent)


def count(events: Sequence[Event]) -> Tokens:
    """Count the input tokens of a run both ways.

    Args:
        events: the whole super-task, in log order.
    """
    said = shown = sent = resent = calls = 0
    contexts: dict[tuple[str, str | None], int] = {}
    for event in events:
        key = (event.sender, event.cause)
        match event.data:
            case ContextUsed() as data:
                contexts[key] = data.tokens
            case ModelCalled() as data if data.error is None:
                calls += 1
                sent += data.input_tokens
                resent += data.input_tokens - contexts.get(key, 0) + tokens_of("x" * said)
            case _:
                line = line_of(event) if event.thread != MAIN_THREAD else ""
                said += len(line)
                shown += bool(line)
    return Tokens(calls, shown, sent, resent)


def exported(path: Path) -> list[Event]:
    """Return the events of a run that was exported as JSON lines."""
    rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    return [decode_event(msgspec.json.encode(row["event"])) for row in rows if "event" in row]


async def run_task(steps: int) -> list[Event]:
    """Let the team work on a task of so many steps, each with a page of findings.

    Args:
        steps: how many; at most :data:`MAX_STEPS`.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = await stack.enter_async_context(EmbeddedServer(Path(folder) / "data"))
        playbook = await stack.enter_async_context(
            PlaybookServer(parse_playbook(_playbook(steps), "context.toml"))
        )
        settings = ModelSettings(base_url=playbook.base_url, model=PLAYBOOK)
        bus = await stack.enter_async_context(connect(server.url, name="user"))
        for target in SCRIPT.agents.values():
            agent = load_agent(target)
            model = await stack.enter_async_context(Model(settings, agent=agent.name))
            await stack.enter_async_context(_running(agent, bus, model))
        files: list[Part] = [
            FilePart(_page(number).encode(), f"part-{number}.md", "text/markdown")
            for number in range(1, steps + 1)
        ]
        opened = await bus.tasks.open(
            [TextPart("What was moved at each berth?"), *files],
            to=SCRIPT.to,
            participants=SCRIPT.participants,
        )
        await bus.waits.for_answer(opened.event.task)
        entries = [entry async for entry in bus.read(opened.event.task)]
    return [entry.event for entry in entries if isinstance(entry, Recorded)]


@asynccontextmanager
async def _running(agent: Agent, bus: Bus, model: Model) -> AsyncGenerator[None]:
    runner = AgentRunner(agent, bus.acting_as(agent.name), model=model)
    work = asyncio.create_task(runner.run(), name=f"benchmark[{agent.name}]")
    try:
        await runner.ready.wait()
        yield
    finally:
        runner.stop()
        await work


def _page(number: int) -> str:
    lines = (_LINE.format(n=number, line=n, tons=n * 37 % 90) for n in range(1, _LINES + 1))
    return f"# Berth {number}\n\n" + "\n".join(lines) + "\n"


def _playbook(steps: int) -> str:
    listed = ",\n".join(
        f'{{ title = "Quote part-{n}.md", assignee = "document", '
        f"after = [{'' if n == 1 else n - 1}] }}"
        for n in range(1, steps + 1)
    )
    return f"""
[[play]]
agent = "planner"
step = 1
[[play.call]]
tool = "propose_plan"
arguments = {{ steps = [{listed}], reasons = ["one after the other"] }}

[[play]]
agent = "document"
step = 1
when = 'You are asked:\\s+Quote (?P<file>\\S+\\.md)'
[[play.call]]
tool = "read_file"
arguments = {{ name = "{{{{ match.file }}}}" }}

[[play]]
after_tool = "read_file"
text = "{{{{ tool.read_file }}}}"

[[play]]
agent = "critique"
step = 1
when = "Judge what"
[[play.call]]
tool = "judge"
arguments = {{ verdict = "accept", reasons = ["It is quoted."] }}

[[play]]
step = 1
when = "The candidate answer:"
[[play.call]]
tool = "vote"
arguments = {{ verdict = "approve", reasons = ["It follows."] }}

[[play]]
text = "As it stands in the findings."
"""


def show(name: str, tokens: Tokens) -> None:
    """Print one line."""
    print(
        f"{name:<24} {tokens.events:>7,} {tokens.calls:>7,} {tokens.sent:>12,} "
        f"{tokens.resent:>12,} {tokens.ratio:>7.2f}",
        flush=True,
    )


async def _main(files: Sequence[Path], steps: Sequence[int]) -> None:
    print(f"{'task':<24} {'events':>7} {'calls':>7} {'sent':>12} {'resent':>12} {'ratio':>7}")
    for path in files:
        show(path.name[:24], count(exported(path)))
    if not files:
        for number in steps:
            show(f"{number} steps", count(await run_task(number)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="*", type=Path, help="exported runs instead of new ones")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, help="steps of each task")
    given = parser.parse_args()
    asyncio.run(_main(given.files, given.steps))
