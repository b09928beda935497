"""Read what is text already: CSV, TSV, JSON, Markdown and plain text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

from threadbus.agents.tools.parsing.budget import Budget, refuse, refuse_size
from threadbus.agents.tools.parsing.model import (
    DocumentKind,
    DocumentLimits,
    Parsed,
    Problem,
    Section,
)

_DELIMITERS: Final = ",;\t|"
_SNIFFED_CHARS: Final = 16 * 1024
_SNIFFED_LINES: Final = 20
_MAX_COLUMNS: Final = 256
_MAX_FIELD_CHARS: Final = 1024 * 1024
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$")
# A string that never ends counts to the end, so that no character is looked at twice.
_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
_FENCE: Final = re.compile(r"^ {0,3}(```|~~~)")


def decode(data: bytes, budget: Budget) -> str:
    """Return *data* as text; tells in a note when the encoding had to be guessed."""
    for bom, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        budget.note(
            f"not UTF-8 (byte {error.start:,}); read as Windows-1252, check accented letters"
        )
        return data.decode("cp1252", "replace")


def parse_text(data: bytes, budget: Budget) -> Parsed:
    """Read plain text as one section."""
    text = decode(data, budget)
    budget.add(Section(text=budget.text(text)))
    return budget.parsed()


def parse_markdown(data: bytes, budget: Budget) -> Parsed:
    """Read Markdown as one section for each heading."""
    title = ""
    for heading, text in _headed(decode(data, budget)):
        title = title or heading
        if budget.takes_sections:
            budget.add(Section(title=budget.title(heading), text=budget.text(text)))
        else:
            budget.lose_sections(1)
    return budget.parsed(title)


def _headed(text: str) -> Iterator[tuple[str, str]]:
    heading, lines, fenced = "", list[str](), False
    for line in text.splitlines():
        fenced ^= bool(_FENCE.match(line))
        match = None if fenced else _HEADING.match(line)
        if match is None:
            lines.append(line)
            continue
        if heading or any(lines):
            yield heading, "\n".join(lines).strip()
        heading, lines = match[1], []
    yield heading, "\n".join(lines).strip()


def parse_separated(data: bytes, budget: Budget, kind: DocumentKind) -> Parsed:
    """Read CSV or TSV as one table; the delimiter of CSV is found out."""
    text = decode(data, budget)
    delimiter = "\t" if kind is DocumentKind.TSV else _delimiter(text)
    csv.field_size_limit(_MAX_FIELD_CHARS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        budget.add(Section(tables=budget.table(reader)))
    except csv.Error as error:
        refuse(Problem.CORRUPT, f"line {reader.line_num:,}: {error}")
    return budget.parsed()


def _delimiter(text: str) -> str:
    """Return the delimiter that cuts the first lines into the most columns of equal number."""
    lines = text[:_SNIFFED_CHARS].splitlines()[:_SNIFFED_LINES]

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            return 0.0, 0
        width, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
        return (count / len(widths), width) if width > 1 else (0.0, 0)

    return max(_DELIMITERS, key=fit)


def parse_json(data: bytes, budget: Budget, limits: DocumentLimits) -> Parsed:
    """Read JSON as its own text, and an array of flat objects also as a table."""
    text = decode(data, budget)
    depth = _depth(text, limits.depth)
    if depth > limits.depth:
        refuse_size("levels of nesting at least", depth, limits.depth, "DocumentLimits.depth")
    try:
        # Numbers stay as written: none is rounded, and none is too long.
        value: object = json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        refuse(Problem.CORRUPT, f"line {error.lineno:,}, column {error.colno:,}: {error.msg}")
    records = _records(value)
    if records:
        budget.add(Section(tables=budget.table(records)))
    else:
        budget.add(Section(text=budget.text(text.strip())))
    return budget.parsed()


def _depth(text: str, limit: int) -> int:
    """Return the depth of nesting; counting ends above *limit*."""
    depth = deepest = 0
    for token in _JSON_TOKEN.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > limit:
                break
        elif first in "]}":
            depth -= 1
    return deepest


def _records(value: object) -> list[list[str]]:
    """Return an array of flat objects as rows, column names first; empty for anything else."""
    if not isinstance(value, list):
        return []
    columns: dict[str, None] = {}
    records: list[dict[str, object]] = []
    for item in cast("list[object]", value):
        if not isinstance(item, dict):
            return []
        record = cast("dict[str, object]", item)
        if any(isinstance(cell, dict | list) for cell in record.values()):
            return []
        columns.update(dict.fromkeys(record))
        if len(columns) > _MAX_COLUMNS:
            return []
        records.append(record)
    rows = [[_scalar(record.get(column)) for column in columns] for record in records]
    return [list(columns), *rows] if rows else []


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
