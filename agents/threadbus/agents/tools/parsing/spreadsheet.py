"""Read XLSX: each sheet as one table of what a person would see in its cells."""

from __future__ import annotations

import datetime
import importlib
import io
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Protocol, cast

from threadbus.agents.tools.parsing.archive import check_archive
from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Section


class _Sheet(Protocol):
    title: str
    sheet_state: str

    def reset_dimensions(self) -> None: ...
    def iter_rows(self, *, values_only: bool) -> Iterator[tuple[object, ...]]: ...


class _Properties(Protocol):
    title: str | None


class _Workbook(Protocol):
    properties: _Properties
    worksheets: Sequence[_Sheet]


class _Openpyxl(Protocol):
    def load_workbook(
        self, file: io.BytesIO, *, read_only: bool, data_only: bool, keep_links: bool
    ) -> _Workbook: ...


def parse_xlsx(data: bytes, budget: Budget, limits: DocumentLimits) -> Parsed:
    """Read each sheet; a formula without a stored result is shown as the formula."""
    # By name: the library has no types, and may not be installed.
    library = cast("_Openpyxl", importlib.import_module("openpyxl"))
    check_archive(data, limits)
    results, formulas = (
        library.load_workbook(io.BytesIO(data), read_only=True, data_only=flag, keep_links=False)
        for flag in (True, False)
    )
    for result, formula in zip(results.worksheets, formulas.worksheets, strict=True):
        if not budget.takes_sections:
            budget.lose_sections(1)
            continue
        title = result.title if result.sheet_state == "visible" else f"{result.title} (hidden)"
        table = budget.table(_rows(result, formula, budget))
        budget.add(Section(title=budget.title(title), tables=table))
    return budget.parsed(results.properties.title or "")


def _rows(result: _Sheet, formula: _Sheet, budget: Budget) -> Iterator[list[str]]:
    for sheet in (result, formula):
        # The size that a file claims for a sheet may be too small and would hide rows.
        sheet.reset_dimensions()
    pairs = zip_longest(
        result.iter_rows(values_only=True), formula.iter_rows(values_only=True), fillvalue=()
    )
    for values, sources in pairs:
        yield [
            _shown(value, source, result.title, budget)
            for value, source in zip_longest(values, sources)
        ]


def _shown(value: object, source: object, sheet: str, budget: Budget) -> str:
    if value is None and source is not None:
        text = str(getattr(source, "text", source))  # an array formula is an object
        if text.startswith("="):
            budget.note(f"sheet {sheet!r} has formulas without stored results, shown as formulas")
            return text
    return _cell(value)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)
