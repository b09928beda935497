"""Work that a cancellation must not leave half done: threads, and folders that are removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

from threadbus.agents.tools.process import folders

P = ParamSpec("P")
T = TypeVar("T")


async def outlast(task: asyncio.Task[T], on_cancel: Callable[[], None] | None = None) -> T:
    """Wait until *task* has ended, whatever happens to the caller, and return its result.

    Cancellation: *on_cancel* is called, *task* is waited for, then the cancellation is passed on
    and the result of *task* is lost.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen; the cancellation comes first
    raise cancelled


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run *function* in a thread.

    Cancellation: passed on when the thread has ended, so that it never works beside what follows.
    """
    work = asyncio.to_thread(function, *args, **kwargs)
    return await outlast(asyncio.create_task(work, name="threadbus.agents.tools.in_thread"))


@contextlib.asynccontextmanager
async def working_folder(name: str, files: Mapping[str, bytes]) -> AsyncGenerator[Path]:
    """Make a folder of this run alone, with *files* in it, and remove it afterwards.

    Args:
        name: Stands in the name of the folder.
        files: Content by relative name, checked by the caller.

    Cancellation: the folder is removed before it is passed on.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"threadbus-{name}-", dir=_temporary()))
    try:
        await in_thread(_write, folder, files)
        yield folder
    finally:
        await in_thread(folders.remove, str(folder))


def _temporary() -> str:
    # As a process in it sees it, so that its name can be cut out of what the process prints.
    return os.path.realpath(tempfile.gettempdir())


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
