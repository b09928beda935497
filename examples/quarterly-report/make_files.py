"""Make the files of this example: ``python make_files.py [FOLDER]``. The same every time.

All of it is invented: the company, its products and every number. One number in the report is
wrong on purpose, see :data:`WRONG`; everything else that it says follows from the data.
"""

from __future__ import annotations

import csv
import datetime
import io
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import docx

QUARTERS: Final = ("2026-Q1", "2026-Q2")
PRICES_EUR: Final = {
    "Flow meter": 420,
    "Level sensor": 185,
    "Pump controller": 960,
    "Sampler": 1240,
    "Turbidity probe": 310,
}
# Units sold, products in the order above; the first row of a region is the first quarter.
UNITS: Final = {
    "North": ((212, 340, 61, 38, 145), (228, 355, 64, 41, 139)),
    "South": ((124, 198, 33, 17, 96), (131, 214, 37, 19, 102)),
    "East": ((167, 251, 48, 29, 118), (159, 263, 52, 27, 125)),
    "West": ((143, 226, 42, 22, 101), (150, 219, 45, 26, 110)),
}

WRONG_REGION: Final = "South"
WRONG: Final = 158_310
"""What the report says about the second quarter in the South; two digits changed places."""

_EPOCH: Final = (2026, 7, 6, 9, 0, 0)
_TITLE: Final = "Tarnwater Instruments: second quarter of 2026"


class Sale(NamedTuple):
    """One row of the data."""

    region: str
    product: str
    quarter: str
    units: int
    revenue_eur: int


def sales() -> list[Sale]:
    """Return all rows of the data."""
    return [
        Sale(region, product, quarter, units, units * price)
        for quarter_index, quarter in enumerate(QUARTERS)
        for region, both in UNITS.items()
        for (product, price), units in zip(PRICES_EUR.items(), both[quarter_index], strict=True)
    ]


def revenue(region: str, quarter: str) -> int:
    """Return the revenue in euros of *region* in *quarter*, by the data."""
    return sum(
        sale.revenue_eur for sale in sales() if (sale.region, sale.quarter) == (region, quarter)
    )


class Report(NamedTuple):
    """What the report says."""

    paragraphs: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    closing: str


def report() -> Report:
    """Return the text and the table of the report, with the wrong number in both."""
    first, second = QUARTERS
    totals = [sum(revenue(region, quarter) for region in UNITS) for quarter in QUARTERS]
    units = sum(sale.units for sale in sales() if sale.quarter == second)
    growth = 100 * (totals[1] - totals[0]) / totals[0]
    rows = [
        (region, *(_euros(_stated(region, quarter)) for quarter in QUARTERS)) for region in UNITS
    ]
    best = max(UNITS, key=lambda region: _stated(region, second))
    return Report(
        paragraphs=(
            f"Revenue in the second quarter was EUR {_euros(totals[1])}, after "
            f"EUR {_euros(totals[0])} in the first: {growth:.1f} percent more. "
            f"We sold {units:,} units.",
            f"The {best} stays our largest region with EUR {_euros(_stated(best, second))}. "
            f"The {WRONG_REGION} came to EUR {_euros(WRONG)} in its second quarter under the "
            "new team.",
        ),
        table=(
            ("Region", f"{first} (EUR)", f"{second} (EUR)"),
            *rows,
            ("Total", *(_euros(total) for total in totals)),
        ),
        closing="All figures are net revenue from the order book, closed on the last day of the "
        "quarter.",
    )


def _stated(region: str, quarter: str) -> int:
    if (region, quarter) == (WRONG_REGION, QUARTERS[1]):
        return WRONG
    return revenue(region, quarter)


def _euros(amount: int) -> str:
    return f"{amount:,}"


def make_csv() -> bytes:
    """Return ``sales.csv``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Sale._fields)
    writer.writerows(sales())
    return text.getvalue().encode()


def make_docx() -> bytes:
    """Return ``report.docx``."""
    content = report()
    document = docx.Document()
    made = datetime.datetime(*_EPOCH, tzinfo=datetime.UTC).replace(tzinfo=None)
    properties = document.core_properties
    properties.title, properties.author = _TITLE, "Tarnwater Instruments"
    properties.created = properties.modified = made
    document.sections[0].header.paragraphs[0].text = "Tarnwater Instruments, quarterly report"
    document.add_heading(_TITLE, 0)
    document.add_heading("Summary", 1)
    for paragraph in content.paragraphs:
        document.add_paragraph(paragraph)
    document.add_heading("Revenue by region", 1)
    table = document.add_table(len(content.table), len(content.table[0]), "Light Grid Accent 1")
    for row, cells in zip(table.rows, content.table, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph(content.closing)
    saved = io.BytesIO()
    document.save(saved)
    return _same_dates(saved.getvalue())


def _same_dates(archive: bytes) -> bytes:
    """Return a ZIP archive with the same content and a date that does not change."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as source,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for entry in source.infolist():
            copy = zipfile.ZipInfo(entry.filename, _EPOCH)
            copy.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(copy, source.read(entry))
    return written.getvalue()


def make_pdf() -> bytes:
    """Return ``report.pdf``: one page that says the same, written by hand."""
    content = report()
    lines: list[tuple[int, int, int, str]] = [(72, 770, 16, _TITLE)]
    y = 735
    for paragraph in (*content.paragraphs, "Revenue by region"):
        for line in _wrapped(paragraph, 88):
            lines.append((72, y, 11, line))
            y -= 15
        y -= 9
    for row in content.table:
        lines += [(x, y, 11, cell) for x, cell in zip((72, 220, 370), row, strict=True)]
        y -= 16
    y -= 9
    lines += [(72, y - 15 * i, 11, line) for i, line in enumerate(_wrapped(content.closing, 88))]
    return _pdf(lines)


def _wrapped(text: str, width: int) -> Iterable[str]:
    line = ""
    for word in text.split():
        if len(line) + len(word) >= width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


def _pdf(lines: Sequence[tuple[int, int, int, str]]) -> bytes:
    page = "".join(
        f"BT /F1 {size} Tf {x} {y} Td ({text.translate(_ESCAPED)}) Tj ET\n"
        for x, y, size, text in lines
    ).encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%sendstream" % (len(page), page),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Title (%s) >>" % _TITLE.translate(_ESCAPED).encode("latin-1"),
    ]
    body = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, written in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, written)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table, len(objects) + 1, len(body))
    )


_ESCAPED: Final = str.maketrans({"(": r"\(", ")": r"\)", "\\": r"\\"})


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    made = {"sales.csv": make_csv(), "report.docx": make_docx(), "report.pdf": make_pdf()}
    for name, content in made.items():
        (folder / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
