"""``busreplay diff``: two runs side by side, and where they first differ."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from threadbus.replay.diffing import View, compare, write_diff
from threadbus.replay.export import FileSource
from threadbus.replay.paint import painter_for
from threadbus.replay.point import whole
from threadbus.replay.source import LogItem, Source
from threadbus.replay.terminal import (
    CredsOption,
    NkeyOption,
    Place,
    PricesOption,
    TimeoutOption,
    UrlOption,
    make_app,
    open_source,
    prices_at,
    run,
)

app = make_app()

_WHICH = (
    "A super-task id or the start of it; or an exported file, FILE#TASK where it holds several."
)


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_WHICH)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same for the other run.")],
    view: Annotated[
        View, typer.Option("--view", help="Side by side, or one below the other.")
    ] = View.AUTO,
    prices: PricesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    url: UrlOption = None,
    creds: CredsOption = None,
    nkey: NkeyOption = None,
    connect_timeout: TimeoutOption = None,
) -> None:
    """Compare two runs: their steps aligned, the first difference, steps of one only, and the
    differences in time, tokens, costs, failures, findings and outcome."""
    table = prices_at(prices)
    place = Place(url=url, credentials=creds, nkey=nkey, connect_timeout=connect_timeout)

    async def compared() -> None:
        names: list[str] = []
        runs: list[list[LogItem]] = []
        async with AsyncExitStack() as stack:
            server: Source | None = None
            for wanted in (a, b):
                file, task = _file(wanted)
                source: Source
                if file is not None:
                    source = FileSource(file)
                else:
                    if server is None:
                        server = await stack.enter_async_context(open_source(place))
                    source = server
                names.append(source.name)
                runs.append((await whole(source, task))[1])
        result = compare(runs[0], runs[1], names=(names[0], names[1]), prices=table)
        if as_json:
            document = msgspec.json.format(msgspec.json.encode(result), indent=2)
            sys.stdout.buffer.write(document + b"\n")
            sys.stdout.buffer.flush()
        else:
            write_diff(painter_for(sys.stdout), result, view)

    run(compared())


def _file(wanted: str) -> tuple[Path | None, str]:
    """Tell a file from an id: what exists, or looks like a path, is one."""
    name, _, task = wanted.partition("#")
    path = Path(name)
    if path.is_file() or "/" in name or name.endswith((".jsonl", ".gz")):
        return path, task
    return None, wanted
