"""Ask for a model over the native bus, and answer what the team asks."""

from collections.abc import Callable

from threadbus.bus import connect
from threadbus.schemas import InputRequested, Recorded, TaskClosed, text_of


async def model(url: str, request: str, reply: Callable[[str], str]) -> str:
    """Return the answer."""
    async with connect(url, name="caller") as bus:
        task = (await bus.tasks.open(request, to=["collaboration"])).event.task
        async for entry in bus.follow(task):
            data = entry.event.data if isinstance(entry, Recorded) else None
            if isinstance(data, InputRequested):
                await bus.tasks.give_input(task, reply(text_of(data.parts)))
            elif isinstance(data, TaskClosed):
                break
        return (await bus.waits.for_answer(task)).text
