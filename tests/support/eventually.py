"""Wait for what happens elsewhere, in another process or thread, where no event can be awaited."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

PATIENCE_S = 60.0
_PAUSE_S = 0.02


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], what: str, patience_s: float = PATIENCE_S
) -> None:
    """Return as soon as *holds* is true, and fail with *what* after *patience_s* seconds.

    Inside one event loop wait for an event or a condition instead; this is for what sets none.

    Raises:
        AssertionError: It still did not hold at the deadline.
    """
    never = asyncio.Event()
    try:
        async with asyncio.timeout(patience_s):
            while not await _value(holds()):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        await never.wait()
    except TimeoutError as error:
        raise AssertionError(f"still not after {patience_s} s: {what}") from error


async def _value(answer: bool | Awaitable[bool]) -> bool:
    return answer if isinstance(answer, bool) else await answer
