"""Show a very large super-task with `busreplay`: the first line, all of it, and the peak of memory.

Compared with a process that reads the same exported file and only decodes its events, and with
what is aimed at. Each is an OS process of its own, so the start of Python is in all of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Final, NamedTuple

from benchmarks.figures import AIM, Figure, Target, say
from benchmarks.options import Options, main
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    EventId,
    HandlingEnded,
    MessagePosted,
    ModelCalled,
    Recorded,
    TaskOpened,
    TextPart,
    ToolCalled,
    ToolReturned,
    export_line,
    make_event,
    new_task_id,
)

EVENTS: Final = 100_000
_AGENTS: Final = 20
_STARTED_NS: Final = 1_700_000_000_000_000_000
_MS: Final = 1_000_000
_TEXT: Final = "The ledger says 41,200 and the report says 42,100; row 17 is counted twice. " * 4
_FORMS: Final = ("tree", "timeline", "json", "jsonl")
_MOST_FIRST_S: Final = 1.0
_MOST_S: Final = 10.0
_MOST_MB: Final = 500.0
_DECODE: Final = """
import sys
from threadbus.replay import parse_line
print("first", flush=True)
with open(sys.argv[1], "rb") as file:
    for line in file:
        parse_line(line)
"""


class _Run(NamedTuple):
    first_s: float
    """Until the first line was there."""
    all_s: float
    cpu_s: float
    """Processor time, which does not count who else runs."""
    peak_mb: float


async def measure(options: Options) -> Sequence[Figure]:
    """Return the times and the memory of each form."""
    count = options.count(EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        say(f"replaying, writing {count:,} events")
        write_run(path, count)
        command = str(Path(sys.executable).parent / "busreplay")
        decoded: list[_Run] = []
        shown: dict[str, list[_Run]] = {form: [] for form in _FORMS}
        for turn in range(options.rounds):
            say(f"replaying, round {turn + 1} of {options.rounds}")
            decoded.append(_run(sys.executable, "-c", _DECODE, str(path)))
            for form in _FORMS:
                shown[form].append(_run(command, "--file", str(path), "--format", form))
    return [figure for form in _FORMS for figure in _figures(form, count, shown[form], decoded)]


def _figures(
    form: str, count: int, shown: Sequence[_Run], decoded: Sequence[_Run]
) -> Iterator[Figure]:
    what, only = f"busreplay of {count:,} events as {form}", "decoding only"
    rounds = len(shown)
    least, whole, peak = (
        [run.first_s for run in shown],
        [run.all_s for run in shown],
        [run.peak_mb for run in shown],
    )
    # How much is aimed at is said of the usual count; more may take longer.
    aims = count <= EVENTS
    target = Target(1.0) if aims else None
    if form in {"tree", "timeline"}:
        yield Figure(f"{what}, first line", AIM, "s", least, [_MOST_FIRST_S] * rounds, target)
    yield Figure(f"{what}, all of it", AIM, "s", whole, [_MOST_S] * rounds, target)
    ours, theirs = [run.cpu_s for run in shown], [run.cpu_s for run in decoded]
    yield Figure(f"{what}, processor time", only, "s", ours, theirs)
    yield Figure(f"{what}, memory", AIM, "MB", peak, [_MOST_MB] * rounds, target)
    yield Figure(f"{what}, memory", only, "MB", peak, [run.peak_mb for run in decoded])


def _run(*command: str) -> _Run:
    started = time.perf_counter()
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL) as process:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        process.stdout.readline()
        first = time.perf_counter() - started
        while process.stdout.read(1 << 20):
            pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    # Kilobytes on Linux, bytes on macOS.
    unit = 1_000_000 if sys.platform == "darwin" else 1_000
    cpu = used.ru_utime + used.ru_stime
    return _Run(first, time.perf_counter() - started, cpu, used.ru_maxrss / unit)


def write_run(path: Path, count: int) -> None:
    """Write the log of a run of twenty agents who wake each other, *count* events long."""
    with path.open("wb") as file:
        for entry in _entries(count):
            file.write(export_line(entry))


def _entries(count: int) -> Iterator[Recorded]:
    task = new_task_id()
    made = 0
    now = _STARTED_NS

    def entry(sender: str, data: AnyData, cause: EventId | None, to: str = "") -> Recorded:
        nonlocal made
        made += 1
        event = make_event(
            data,
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName(sender),
            cause=cause,
            mentions=(AgentName(to),) if to else (),
            event_id=EventId(f"{task[:12]}7000{0x8000000000000000 + made:016x}"),
            at=now,
        )
        return Recorded(made, event, now)

    first = entry("user", TaskOpened(title="A very long run", parts=(TextPart(_TEXT),)), None, "a0")
    yield first
    mention = first.event.id
    turn = 0
    while made < count:
        agent, other = f"a{turn % _AGENTS}", f"a{(turn + 1) % _AGENTS}"
        now += 200 * _MS
        called = ModelCalled(
            model="some-model",
            started_at=now - 200 * _MS,
            duration_ns=200 * _MS,
            input_tokens=1_200,
            output_tokens=80,
        )
        tool = ToolCalled(call_id=f"call-{turn}", tool="read", arguments={"row": turn})
        returned = ToolReturned(
            call_id=f"call-{turn}", tool="read", duration_ns=_MS, parts=(TextPart(_TEXT),)
        )
        ended = HandlingEnded(received_at=now - 210 * _MS, started_at=now - 205 * _MS, ended_at=now)
        asks = entry(agent, MessagePosted(parts=(TextPart(_TEXT),)), mention, other)
        for made_entry in (
            entry(agent, called, mention),
            entry(agent, tool, mention),
            entry(agent, returned, mention),
            asks,
            entry(agent, ended, mention),
        ):
            if made_entry.seq <= count:
                yield made_entry
        mention = asks.event.id
        turn += 1


if __name__ == "__main__":
    main(__doc__, [measure])
