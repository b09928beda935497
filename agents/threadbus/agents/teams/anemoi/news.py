"""The board of a thread, kept up with the log while the planner makes its moves."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Final

from threadbus.agents.counting import Counting
from threadbus.agents.mention import Mention
from threadbus.agents.teams.anemoi.board import FAR, Board
from threadbus.schemas import Recorded, ThreadId


class News:
    """Follows a thread and folds what counts into its board, in the order of the log.

    The planner's own events come the same way: a result that stands before its cancellation
    counts, for the planner as for whoever reads the thread later.
    """

    def __init__(self, mention: Mention, thread: ThreadId) -> None:
        self._mention = mention
        self._thread = thread
        self._counting = Counting(mention.task)
        self._queue: asyncio.Queue[Recorded] = asyncio.Queue()
        self._reached = 0
        self.board: Final = Board()

    async def read(self) -> None:
        """Take what is in the log now.

        Cancellation: read anew.
        """
        async with aclosing(self._mention.bus.read(self._mention.task, self._thread)) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded):
                    self._take(entry)

    async def follow(self) -> None:
        """Hear of what comes after what was read, until it is cancelled."""
        follow = self._mention.bus.follow(self._mention.task, self._thread, self._reached)
        async with aclosing(follow) as entries:
            async for entry in entries:
                if isinstance(entry, Recorded):
                    self._queue.put_nowait(entry)

    def take(self) -> None:
        """Take what has been heard."""
        while not self._queue.empty():
            self._take(self._queue.get_nowait())

    async def reach(self, seq: int) -> None:
        """Take what comes until a sequence that is in the log.

        Cancellation: safe.
        """
        while self._reached < seq:
            self._take(await self._queue.get())

    async def wait(self, until: int) -> None:
        """Take the next entry, or nothing where none comes until a time in nanoseconds.

        Cancellation: safe.
        """
        left = None if until >= FAR else max(0.0, (until - time.time_ns()) / 1e9)
        try:
            async with asyncio.timeout(left):
                self._take(await self._queue.get())
        except TimeoutError:
            return

    def _take(self, entry: Recorded) -> None:
        self._reached = entry.seq
        if self._counting.counts(entry):
            self.board.take([entry])
