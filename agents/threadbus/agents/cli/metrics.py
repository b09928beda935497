"""``bus metrics``: an endpoint that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results_operating import MetricsServed
from threadbus.agents.cli.shell import Shell
from threadbus.agents.monitoring import (
    Request,
    Response,
    Watch,
    Watcher,
    check_installed,
    parse_address,
    render,
    serving,
    watching,
)
from threadbus.agents.serving import stopping_on_signals

DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
_MAX_AGENTS: Final = 10_000
_PAGE: Final = b"threadbus: /metrics is for Prometheus, /healthz says whether all of it is known\n"


@command("metrics", panel="Look")
async def metrics(
    shell: Shell,
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Where to serve; port 0: a free one.")
    ] = DEFAULT_ADDRESS,
    every: Annotated[
        float, typer.Option("--every", help="Seconds between two looks at the server.")
    ] = 15,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="File of the counters: a start goes on from it."),
    ] = None,
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Begin at the end of the log, with counters of 0.")
    ] = False,
    max_agents: Annotated[
        int, typer.Option("--max-agents", help="Agents with a label of their own.")
    ] = 200,
    once: Annotated[
        bool, typer.Option("--once", help="Print what a scrape would get, and end.")
    ] = False,
) -> None:
    """Serve metrics for Prometheus at http://HOST:PORT/metrics. Looks only.

    Counters are counted from the log: the same log gives the same numbers, so a restart counts
    nothing twice. They are hidden until the log is read to its end; --state makes that quick.
    docs/operations/monitoring.md has every metric, a dashboard and alerts.
    """
    watch = _watch(every, state, max_agents, from_now=from_now, patient=not once)
    try:
        host, port = parse_address(http)
    except ValueError:
        raise UsageError("--http", http, "HOST:PORT, as 127.0.0.1:9464 or [::1]:9464") from None
    check_installed()
    async with shell.bus(ensure=False) as bus, watching(bus, watch) as watcher:
        if once:
            await _print_once(watcher)
        else:
            await _serve(shell, watcher, host, port)


def _watch(
    every: float, state: Path | None, max_agents: int, *, from_now: bool, patient: bool
) -> Watch:
    if not 0.1 <= every <= 3600:
        raise UsageError("--every", f"{every:g}", "0.1 to 3600 seconds")
    if not 1 <= max_agents <= _MAX_AGENTS:
        raise UsageError("--max-agents", str(max_agents), f"1 to {_MAX_AGENTS:,}")
    return Watch(
        every_s=every, state=state, from_now=from_now, max_agents=max_agents, patient=patient
    )


async def _print_once(watcher: Watcher) -> None:
    await watcher.counted.wait()
    await watcher.sampled.wait()
    text, _ = render(watcher.shown())
    sys.stdout.write(text.decode())


async def _serve(shell: Shell, watcher: Watcher, host: str, port: int) -> None:
    stop = asyncio.Event()

    def answer(request: Request) -> Callable[[], Response]:
        if request.path == "/metrics":
            shown = watcher.shown()
            return lambda: Response(200, *render(shown, request.accept))
        if request.path == "/healthz":
            ready = watcher.is_ready
            return lambda: Response(200, b"ok\n") if ready else Response(503, b"not yet\n")
        return lambda: Response(200 if request.path == "/" else 404, _PAGE)

    async with stopping_on_signals(stop.set), serving(host, port, answer) as url:
        if shell.json:
            shell.result(MetricsServed(url=f"{url}/metrics"))
        else:
            shell.note(f"metrics at {url}/metrics; Ctrl-C ends it")
        await stop.wait()
