"""The file of ``--state``: counters and their place in the log, written together."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from threadbus.agents.monitoring.counts import BUCKETS_S, Counts
from threadbus.agents.monitoring.errors import CountsFileError

_MAX_BYTES: Final = 64 * 1024 * 1024
_DECODER: Final = msgspec.json.Decoder(Counts)
_FORM: Final = Counts().form


def read_counts(path: Path) -> Counts | None:
    """Return what a file keeps; None where there is none.

    Raises:
        CountsFileError: it cannot be read, or is none of ours.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CountsFileError(str(path), error.strerror or str(error)) from error
    if len(content) > _MAX_BYTES:
        raise CountsFileError(str(path), f"more than {_MAX_BYTES:,} bytes")
    try:
        found = _DECODER.decode(content)
    except msgspec.DecodeError as error:
        raise CountsFileError(str(path), str(error)) from error
    buckets = len(BUCKETS_S) + 1
    if found.form != _FORM:
        raise CountsFileError(str(path), f"its form is {found.form}, this version reads {_FORM}")
    for series in found.durations.values():
        if any(len(one.counts) != buckets for one in series.values()):
            raise CountsFileError(str(path), f"a histogram has not {buckets} buckets")
    return found


def write_counts(path: Path, counts: Counts) -> None:
    """Replace the file at once: a crash leaves the old one or the new one.

    Raises:
        CountsFileError: it cannot be written.
    """
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(msgspec.json.encode(counts))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CountsFileError(str(path), error.strerror or str(error)) from error
