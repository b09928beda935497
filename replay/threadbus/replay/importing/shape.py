"""Files of other systems, opened: bounded, untyped JSON, and careful ways to look into it."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec

from threadbus.replay.errors import ImportFileError
from threadbus.schemas import clean_text

Json: TypeAlias = "Mapping[str, object]"

MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""Bytes of one file, unpacked."""

MAX_RUNS: Final = 100_000
"""Runs of one file."""

MAX_TEXT_CHARS: Final = 1_000_000
"""Characters that are kept of one message."""

_DECODER: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder()
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_YEAR_2100_S: Final = 4_102_444_800
_NUMBER: Final = re.compile(r"[0-9]{1,19}(\.[0-9]{1,9})?", re.ASCII)


def load(path: Path) -> list[object]:
    """Return the JSON documents of a file: the only one, or one for each line.

    Raises:
        ImportFileError: it cannot be read, is too large, or is no JSON.
    """
    content = _bytes(path)
    if not content.strip():
        raise ImportFileError(str(path), "it is empty")
    try:
        return [_DECODER.decode(content)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = _reason(error)
        whole = error
    documents: list[object] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            documents.append(_DECODER.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if number > 1:
                reason = f"line {number:,}: {_reason(error)}"
            raise ImportFileError(str(path), f"it is not JSON: {reason}") from whole
    return documents


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == _GZIP_MAGIC
            stream = gzip.GzipFile(fileobj=file) if packed else file
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ImportFileError(str(path), reason) from error
    if len(content) > MAX_FILE_BYTES:
        raise ImportFileError(
            str(path), f"over the limit of {MAX_FILE_BYTES:,} bytes", "split it into several"
        )
    return content.removeprefix(_BOM)


def record(value: object) -> Json:
    """Return *value* where it is an object, otherwise an empty one."""
    return cast("Json", value) if type(value) is dict else {}


def records(value: object) -> list[Json]:
    """Return the objects of an array; nothing where it is none."""
    return [record(cast("object", one)) for one in items(value) if isinstance(one, dict)]


def items(value: object) -> Sequence[object]:
    """Return the elements of an array; nothing where it is none."""
    return cast("list[object]", value) if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return what a value says as text: strings as they are, lists of parts joined, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean_text(value, MAX_TEXT_CHARS)
    if isinstance(value, list):
        parts = [_part(one) for one in items(cast("object", value))]
        return clean_text("\n".join(part for part in parts if part), MAX_TEXT_CHARS)
    return clean_text(msgspec.json.encode(value).decode(), MAX_TEXT_CHARS)


def _part(value: object) -> str:
    part = record(value)
    for key in ("text", "content", "input_text", "output_text"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def first(source: Json, *keys: str) -> object:
    """Return the value of the first of *keys* that is there and says something."""
    for key in keys:
        value = source.get(key)
        if value not in (None, "", [], {}):
            return value
    return None


def word(source: Json, *keys: str) -> str:
    """Return the first of *keys* whose value is a string or a number, as one line."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
            return clean_text(str(value), 4000).strip()
    return ""


def count(value: object) -> int:
    """Return a number that is none or negative as 0."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**62:
        return 0
    return int(value)


def moment_ns(value: object) -> int:
    """Return a time as nanoseconds since the epoch: ISO 8601, or a number in s, ms, µs or ns.

    0 where it is none.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return _iso_ns(value)
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**63:
        return 0
    for factor in (1_000_000_000, 1_000_000, 1_000):
        if value * factor < _YEAR_2100_S * 1_000_000_000:
            return int(value * factor)
    return int(value)


def _iso_ns(value: str) -> int:
    try:
        when = datetime.fromisoformat(value.strip())
    except ValueError:
        return 0
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return max((since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000, 0)


def each(documents: Sequence[object]) -> Iterator[Json]:
    """Yield every object of some documents, those of arrays one by one."""
    for document in documents:
        if isinstance(document, list):
            yield from records(cast("object", document))
        elif isinstance(document, dict):
            yield record(cast("object", document))
