"""The report of the example agrees with its data in everything but one number."""

from __future__ import annotations

import asyncio
import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from threadbus.agents.tools import Document, read_document

EXAMPLE = Path(__file__).parents[2] / "examples" / "quarterly-report"
FIRST, SECOND = "2026-Q1", "2026-Q2"
RIGHT, WRONG = 185_310, 158_310


def read(path: Path) -> Document:
    return asyncio.run(read_document(path, roots=[path.parent]))


def revenues() -> Counter[tuple[str, str]]:
    """Return the revenue by region and quarter, added up from the file."""
    sums: Counter[tuple[str, str]] = Counter()
    with (EXAMPLE / "sales.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            sums[row["region"], row["quarter"]] += int(row["revenue_eur"])
    return sums


def test_the_data_is_whole() -> None:
    """40 rows, one for each region, product and quarter, and the price of a product is one."""
    with (EXAMPLE / "sales.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert len({(row["region"], row["product"], row["quarter"]) for row in rows}) == 40
    prices = {(row["product"], int(row["revenue_eur"]) / int(row["units"])) for row in rows}
    assert len(prices) == 5


@pytest.mark.parametrize("name", ["report.docx", "report.pdf"])
def test_every_number_but_one_follows_from_the_data(name: str) -> None:
    """Each number of prose and table is a sum of the data, and only the South's is not."""
    sums = revenues()
    totals = [sum(sums[key] for key in sums if key[1] == quarter) for quarter in (FIRST, SECOND)]
    with (EXAMPLE / "sales.csv").open(newline="") as file:
        units = sum(int(row["units"]) for row in csv.DictReader(file) if row["quarter"] == SECOND)
    true = {*sums.values(), *totals, units}
    rendered = read(EXAMPLE / name).render()
    stated = [
        int(found.replace(",", "")) for found in re.findall(r"\b\d{1,3}(?:,\d{3})+\b", rendered)
    ]
    assert set(stated) - true == {WRONG}
    assert true - set(stated) == {RIGHT}
    assert stated.count(WRONG) == 2
    assert sums["South", SECOND] == RIGHT
    assert f"{100 * (totals[1] - totals[0]) / totals[0]:.1f} percent more" in " ".join(
        rendered.split()
    )


def test_the_table_of_the_report_does_not_add_up() -> None:
    """What a careful reader sees without the data: the total is not the sum of the regions."""
    (table,) = (
        table for section in read(EXAMPLE / "report.docx").sections for table in section.tables
    )
    second = [int(row[2].replace(",", "")) for row in table.rows[1:]]
    assert sum(second[:-1]) - second[-1] == WRONG - RIGHT


def test_the_readme_tells_both_numbers() -> None:
    """The answer stands in the README, as the files have it."""
    text = (EXAMPLE / "README.md").read_text()
    assert f"{RIGHT:,}" in text
    assert f"{WRONG:,}" in text


def test_the_files_are_what_the_script_makes(tmp_path: Path) -> None:
    """The committed files are those of the script: the same data, and the same words."""
    command = [sys.executable, "-B", str(EXAMPLE / "make_files.py"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("sales.csv", "report.pdf"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes()
    # The template in a DOCX file is the library's, and changes with it.
    assert read(tmp_path / "report.docx").sections == read(EXAMPLE / "report.docx").sections
