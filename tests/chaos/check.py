"""Check exported logs against histories: ``python -m tests.chaos.check LOG… --history FILE…``.

A log is what `busreplay export` writes; a history is described in :mod:`tests.chaos.history`.
Without histories only what the log alone tells is checked. The exit code is 1 where there is a
breach, and 2 where a file cannot be read.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos.checking import check
from tests.chaos.history import read_history
from tests.chaos.table import report
from threadbus.replay import LogItem, parse_line
from threadbus.schemas import Rejected, ThreadbusError

_GZIP_MAGIC: Final = b"\x1f\x8b"
_MARK_START: Final = b'{"export'


class _Mark(msgspec.Struct):
    export_end: dict[str, int] | None = None


_MARK: Final = msgspec.json.Decoder(_Mark)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, check and print; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.check", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="exported super-tasks")
    parser.add_argument(
        "--history", action="append", type=Path, default=[], metavar="FILE", help="of a writer"
    )
    parser.add_argument(
        "--complete",
        action="append",
        default=[],
        metavar="NAME",
        help="the histories have all that NAME sent",
    )
    parser.add_argument(
        "--outside",
        action="append",
        default=[],
        metavar="NAME",
        help="is mentioned and is no agent",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    try:
        items = [item for path in given.logs for item in read_log(path)]
        histories = [read_history(path) for path in given.history]
    except (ThreadbusError, OSError, EOFError, msgspec.MsgspecError) as error:
        print(error, file=sys.stderr)
        return 2
    verdict = check(items, histories, complete=given.complete, outside=given.outside)
    if given.json:
        print(msgspec.json.encode(verdict).decode())
    else:
        print(report(verdict))
    return 1 if verdict.breaches else 0


def read_log(path: Path) -> Iterator[LogItem]:
    """Read every entry of an exported file; what is missing at its end is an unreadable one.

    Raises:
        OSError, EOFError, msgspec.MsgspecError: it cannot be read, or was cut off.
    """
    with path.open("rb") as file:
        is_packed = file.peek(2)[:2] == _GZIP_MAGIC
    told, entries = 0, 0
    with gzip.open(path) if is_packed else path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.startswith(_MARK_START):
                entries += 1
                yield parse_line(line, number)
            elif (end := _MARK.decode(line).export_end) is not None:
                told += end.get("entries", 0)
    if told != entries:
        yield Rejected(0, "", f"{path}: {told:,} entries were exported, {entries:,} are here")


if __name__ == "__main__":
    sys.exit(main())
