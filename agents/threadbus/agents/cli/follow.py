"""Follow a super-task to its end: show it, and answer what it asks of a person."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rich.text import Text

from threadbus.agents.cli.absent import Absent
from threadbus.agents.cli.live import LiveView
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import neutral
from threadbus.bus import Bus, BusError, Entry, TaskState
from threadbus.schemas import EventId, InputRequested, Recorded, TaskId


async def follow(
    shell: Shell, bus: Bus, task: TaskId, view: LiveView | None, told: Sequence[str] = ()
) -> TaskState:
    """Show a super-task from its beginning until it ends.

    Args:
        shell: where a person may be asked.
        bus: the bus.
        task: the super-task.
        view: where it is shown; nowhere when absent.
        told: who is not living, as was said already; of others it is said here.

    Returns:
        The state that it ended in.

    Cancellation: safe; the super-task goes on.
    """
    state = TaskState(task=task)
    history_ends = (await bus.tasks.state(task)).last_seq
    absent = Absent(shell, bus, told)
    async with (
        _watching(bus, task, view),
        asyncio.TaskGroup() as tasks,
        closing(bus.follow(task)) as entries,
    ):
        prompts: dict[EventId, asyncio.Task[None]] = {}
        watching = tasks.create_task(absent.watch(), name="threadbus.cli.absent")
        async for entry in entries:
            if not isinstance(entry, Recorded):
                if view is not None:
                    view.show_rejected(entry)
                continue
            if entry.event.id in state.seen:
                continue
            counts = _take(state, entry)
            if counts:
                absent.take(entry.event)
            if view is not None:
                view.show(entry, counts=counts)
            if entry.seq >= history_ends and view is not None:
                _ask_person(shell, bus, state, view, prompts, tasks)
            if state.status.is_final:
                for side in (watching, *prompts.values()):
                    side.cancel()
                return state
    return state


@asynccontextmanager
async def closing(entries: AsyncIterator[Entry]) -> AsyncGenerator[AsyncIterator[Entry]]:
    """Close what reads the log before the bus is: left half read, it would be closed after it."""
    try:
        yield entries
    finally:
        if isinstance(entries, AsyncGenerator):
            await entries.aclose()


@asynccontextmanager
async def _watching(bus: Bus, task: TaskId, view: LiveView | None) -> AsyncGenerator[None]:
    if view is None:
        yield
        return
    async with bus.watching_live(task, view.on_live):
        yield


def _take(state: TaskState, entry: Recorded) -> bool:
    """Fold an event in; return whether its sender may speak there."""
    thread = state.thread(entry.event.thread)
    before = thread.ignored
    state.apply(entry)
    return thread.ignored == before


def _ask_person(
    shell: Shell,
    bus: Bus,
    state: TaskState,
    view: LiveView,
    prompts: dict[EventId, asyncio.Task[None]],
    tasks: asyncio.TaskGroup,
) -> None:
    """Begin to ask for what is asked of us, and stop where somebody else has answered."""
    for request in [request for request in prompts if request not in state.requests]:
        prompts.pop(request).cancel()
    for request, asked in state.requests.items():
        if request in prompts:
            continue
        data = asked.event.data
        if state.opened_by == bus.name and sys.stdin.isatty() and not prompts:
            prompts[request] = tasks.create_task(
                _prompt(shell, bus, state.task, request, view), name="threadbus.cli.prompt"
            )
        elif isinstance(data, InputRequested):
            prompts[request] = tasks.create_task(asyncio.sleep(0), name="threadbus.cli.told")
            shell.note(
                f"  answer it with:  bus reply {state.task} TEXT --request {request}", "yellow"
            )


async def _prompt(shell: Shell, bus: Bus, task: TaskId, request: EventId, view: LiveView) -> None:
    view.pause()
    try:
        shell.err.print(Text("your answer> ", "bold yellow"), end="")
        text = (await _line_of_stdin()).strip()
        if text:
            await bus.tasks.give_input(task, text, request=request)
        else:
            shell.note(f"  no answer yet; answer later with:  bus reply {task} TEXT", "yellow")
    except BusError as error:
        shell.error(neutral(str(error)))
    finally:
        view.resume()


async def _line_of_stdin() -> str:
    """Return the next line typed; leaves the terminal alone when it is cancelled."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin)
        if not line.done():
            # The terminal gives whole lines only, so this does not wait.
            line.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        return await line
    finally:
        loop.remove_reader(sys.stdin)
