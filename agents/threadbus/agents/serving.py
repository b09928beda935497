"""``bus run``: one agent in this process, or a group of replicas in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from threadbus.agents.agent import Agent
from threadbus.agents.model import Model, ModelSettings
from threadbus.agents.runner import AgentRunner
from threadbus.bus import BusSettings, SteadyLog, connect, new_instance

HOLDER_VARIABLE: Final = "THREADBUS_HOLDER"
"""Tells a replica which group it belongs to."""

REPLICAS_VARIABLE: Final = "THREADBUS_REPLICAS"
"""Tells a replica how many the group has."""

_FIRST_RESTART_S: Final = 0.5
_LONGEST_RESTART_S: Final = 30.0
_SETTLED_IN_S: Final = 60.0
"""A replica that ran for so long did not refuse to run, and its restarts begin afresh."""

_NOT_STOPPED: Final = 1
_log: Final = SteadyLog("threadbus.agents")


async def serve(
    agent: Agent,
    settings: BusSettings,
    *,
    model: ModelSettings | None = None,
    takeover: bool = False,
    on_ready: Callable[[AgentRunner], None] | None = None,
) -> None:
    """Run *agent* in this process until SIGTERM or SIGINT, then drain and return.

    Args:
        agent: what to run.
        settings: where the bus is.
        model: what the agent thinks with; without a model name and a server it has none.
        takeover: replace whoever holds the name.
        on_ready: called once mentions are taken.

    Raises:
        ConnectError: there is no usable server.
        AgentNameTakenError, AgentReplacedError: somebody else has the name.

    Cancellation: aborts what runs; its mentions go back at once.
    """
    runner: AgentRunner | None = None
    try:
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(settings, name=agent.name))
            thinking = None
            if model is not None:
                thinking = await stack.enter_async_context(Model(model, agent=agent.name))
            runner = AgentRunner(
                agent,
                bus,
                model=thinking,
                holder=os.environ.get(HOLDER_VARIABLE, ""),
                replicas=int(os.environ.get(REPLICAS_VARIABLE, "1")),
                takeover=takeover,
            )
            await stack.enter_async_context(stopping_on_signals(runner.stop))
            if on_ready is not None:
                told = asyncio.create_task(_tell(runner, on_ready), name="threadbus.agent.ready")
                stack.callback(told.cancel)
            await runner.run()
    finally:
        if runner is not None and runner.abandoned:
            # The end of the loop would wait for them, maybe for ever.
            _log.error("ending with handlers that do not stop", agent=agent.name)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(_NOT_STOPPED)


async def _tell(runner: AgentRunner, on_ready: Callable[[AgentRunner], None]) -> None:
    await runner.ready.wait()
    on_ready(runner)


@asynccontextmanager
async def stopping_on_signals(stop: Callable[[], None]) -> AsyncGenerator[None]:
    """Call *stop* at SIGTERM or SIGINT; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    seen = False

    def on_signal() -> None:
        nonlocal seen
        if seen:
            os._exit(130)
        seen = True
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def supervise(command: Sequence[str], replicas: int) -> int:
    """Run *replicas* processes of *command*, restart those that die, until SIGTERM or SIGINT.

    Args:
        command: the arguments after the Python interpreter; what it starts ends when its
            standard input does.
        replicas: how many processes.

    Returns:
        The exit code: 0 after a stop in order, otherwise that of a replica which refuses to run
        (a name that is taken, a usage error).
    """
    stop = asyncio.Event()
    group = new_instance()
    environ = {**os.environ, HOLDER_VARIABLE: group, REPLICAS_VARIABLE: str(replicas)}
    codes: list[int] = []
    async with stopping_on_signals(stop.set), asyncio.TaskGroup() as tasks:
        for number in range(replicas):
            tasks.create_task(
                _keep_alive(command, environ, stop, codes), name=f"threadbus.replica[{number}]"
            )
    return max(codes, default=0)


async def _keep_alive(
    command: Sequence[str], environ: dict[str, str], stop: asyncio.Event, codes: list[int]
) -> None:
    pause = _FIRST_RESTART_S
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        began = loop.time()
        # The other end of its standard input is ours: it ends with it, so that a replica never
        # outlives a supervisor that was killed.
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, env=environ, stdin=asyncio.subprocess.PIPE
        )
        ended = asyncio.create_task(process.wait(), name="threadbus.replica.wait")
        stopped = asyncio.create_task(stop.wait(), name="threadbus.replica.stop")
        try:
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            code = await ended
        if stop.is_set() or code == 0:
            return
        ran_long = loop.time() - began > _SETTLED_IN_S
        if ran_long:
            pause = _FIRST_RESTART_S
        if code > 0 and not ran_long:
            # It said why it will not run; the same command would say so again.
            codes.append(code)
            stop.set()
            return
        _log.warning("a replica died, starting it again", exit_code=code, pause_s=pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(pause * 2, _LONGEST_RESTART_S)
