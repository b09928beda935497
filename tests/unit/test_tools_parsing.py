"""What each kind of document becomes, parsed in the test's own process."""

from __future__ import annotations

import datetime
import io
import sys
from collections.abc import Iterator

import docx
import pytest

from tests.support.tool_files import encrypt_pdf, make_docx, make_pdf, make_xlsx
from threadbus.agents.tools import DocumentKind, DocumentLimits, Table
from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import Parsed, Problem, Refusal
from threadbus.agents.tools.parsing.sniff import document_kind
from threadbus.agents.tools.parsing.worker import parse


def read(name: str, content: bytes, limits: DocumentLimits | None = None) -> Parsed:
    parsed = parse(document_kind(name, content), content, limits or DocumentLimits())
    assert isinstance(parsed, Parsed), parsed
    return parsed


def only_table(document: Parsed) -> Table:
    (section,) = document.sections
    (table,) = section.tables
    return table


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("semicolon.csv", b"a;b\n1,5;2,5\n"),
        ("tab.csv", b"a\tb\n1,5\t2,5\n"),
        ("table.tsv", b"a\tb\n1,5\t2,5\n"),
        ("bar.csv", b"a|b\n1,5|2,5\n"),
        ("utf16.csv", "a;b\n1,5;2,5\n".encode("utf-16")),
        ("bom.csv", b"\xef\xbb\xbfa;b\n1,5;2,5\n"),
    ],
)
def test_the_delimiter_and_the_encoding_are_found_out(name: str, content: bytes) -> None:
    """Tables come as their authors' programs write them."""
    assert only_table(read(name, content)).rows == (("a", "b"), ("1,5", "2,5"))


def test_a_guessed_encoding_is_told() -> None:
    """Text that is not UTF-8 is read, and the reader is told to check it."""
    document = read("old.txt", "café".encode("cp1252"))
    assert document.sections[0].text == "café"
    assert "Windows-1252" in document.notes[0]


def test_a_workbook_is_read_sheet_by_sheet() -> None:
    """Cells come as a person sees them; blank rows are passed over, hidden sheets are named."""
    workbook = make_xlsx(
        {
            "Sales": [
                ["region", "units", "share", "day", "paid"],
                ["North", 5, 0.25, datetime.datetime(2026, 3, 1), True],  # noqa: DTZ001
                [],
                ["South", 7.0, None, datetime.datetime(2026, 3, 1, 9, 30), False],  # noqa: DTZ001
            ],
            "Old": [["x"]],
        },
        hidden="Old",
    )
    document = read("book.xlsx", workbook)
    assert [section.title for section in document.sections] == ["Sales", "Old (hidden)"]
    assert document.sections[0].tables[0].rows == (
        ("region", "units", "share", "day", "paid"),
        ("North", "5", "0.25", "2026-03-01", "TRUE"),
        ("South", "7", "", "2026-03-01 09:30:00", "FALSE"),
    )


def test_a_formula_without_a_stored_result_is_shown_and_told() -> None:
    """A cell that only Excel could compute is never silently empty."""
    document = read("book.xlsx", make_xlsx({"Sum": [[1, 2, "=A1+B1"]]}))
    assert only_table(document).rows == (("1", "2", "=A1+B1"),)
    assert "formulas without stored results" in document.notes[0]


def test_a_report_is_read_by_its_headings() -> None:
    """Text stands under its headings in order; tables, header and footer are read."""
    report = docx.Document()
    report.core_properties.title = "The report"
    report.sections[0].header.paragraphs[0].text = "Confidential"
    report.sections[0].footer.paragraphs[0].text = "Page 1"
    report.add_heading("Summary", 1)
    report.add_paragraph("All is well.")
    report.add_heading("Numbers", 1)
    report.add_paragraph("See below:")
    table = report.add_table(3, 3)
    for row in range(3):
        for column in range(3):
            table.cell(row, column).text = f"{row}{column}"
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).merge(table.cell(2, 2)).text = "tall"
    table.cell(2, 0).add_table(1, 1).cell(0, 0).text = "inner"
    report.add_paragraph("And so on.")
    saved = io.BytesIO()
    report.save(saved)
    document = read("report.docx", saved.getvalue())
    assert document.title == "The report"
    assert [(section.title, section.text) for section in document.sections] == [
        ("Summary", "All is well."),
        ("Numbers", "See below:\n[table]\nAnd so on."),
        ("Header", "Confidential"),
        ("Footer", "Page 1"),
    ]
    rows = document.sections[1].tables[0].rows
    assert rows[0] == ("wide", "", "02")
    assert rows[1] == ("10", "11", "tall")
    assert rows[2][0].split() == ["20", "inner"]
    assert rows[2][1:] == ("21",)


def test_a_pdf_is_read_page_by_page() -> None:
    """Each page is a section, and a page without text is told."""
    document = read("report.pdf", make_pdf(["Revenue was 12", "", "And 7"]))
    assert [(section.title, section.text) for section in document.sections] == [
        ("Page 1", "Revenue was 12"),
        ("Page 2", ""),
        ("Page 3", "And 7"),
    ]
    assert document.notes == ("no text on page 2; drawings are not read",)


def test_a_pdf_that_only_forbids_copying_is_read() -> None:
    """A document that opens without a password is no encrypted one to a reader."""
    document = read("locked.pdf", encrypt_pdf(make_pdf(["open to all"]), ""))
    assert document.sections[0].text == "open to all"


def test_html_is_read_without_its_markup() -> None:
    """Text and tables stay; scripts, styles and tags go, and broken markup is no error."""
    page = b"""<!DOCTYPE html><html><head><title>The page</title><style>p {}</style></head><body>
    <p>Before</p><h1>One &amp; only</h1><p>Some <b>bold</b> text<script>alert(1)</script></p>
    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2 <p>more</td></table>
    <h2>Two</h2><ul><li>x<li>y</ul><table><tr><td>open"""
    document = read("page.html", page)
    assert document.title == "The page"
    assert [(section.title, section.text) for section in document.sections] == [
        ("", "Before"),
        ("One & only", "Some bold text"),
        ("Two", "x\ny"),
    ]
    assert document.sections[1].tables[0].rows == (("a", "b"), ("1", "2 more"))
    assert document.sections[2].tables[0].rows == (("open",),)
    assert "alert" not in str(document)


def test_json_records_are_a_table_and_other_json_is_its_text() -> None:
    """Numbers stay as they were written."""
    records = read("r.json", b'[{"a": 1.50, "b": null}, {"a": 12345678901234567890, "c": true}]')
    assert only_table(records).rows == (
        ("a", "b", "c"),
        ("1.50",),
        ("12345678901234567890", "", "true"),
    )
    nested = read("n.json", b' {"a": [1, {"b": 2}]}\n')
    assert nested.sections[0].text == '{"a": [1, {"b": 2}]}'


def test_markdown_is_read_by_its_headings() -> None:
    """Headings make sections, save inside of a fenced block."""
    text = b"intro\n\n# One\ntext\n```\n# no heading\n```\n## Two ##\nmore"
    document = read("notes.md", text)
    assert [(section.title, section.text) for section in document.sections] == [
        ("", "intro"),
        ("One", "text\n```\n# no heading\n```"),
        ("Two", "more"),
    ]
    assert document.title == "One"


def test_a_text_of_unknown_name_is_plain_text() -> None:
    """What is text can be read, whatever it is called."""
    assert document_kind("settings.toml", b"a = 1\n") is DocumentKind.TEXT
    assert document_kind("noname", b"<!doctype html><p>hi") is DocumentKind.HTML


def test_what_is_left_out_is_told() -> None:
    """A document over the limits is cut, and says by how much."""
    rows = b"".join(b"%d,x\n" % number for number in range(100))
    document = read("long.csv", rows, DocumentLimits(cells=20))
    assert len(only_table(document).rows) == 10
    assert document.omitted.marker() == "[truncated: 90 table rows left out]"
    text = read("long.txt", b"x" * 1000, DocumentLimits(characters=100))
    assert text.sections[0].text == "x" * 100
    assert text.omitted.marker() == "[truncated: 900 characters left out]"
    pages = read("long.pdf", make_pdf(["text"], copies=10_000), DocumentLimits(sections=3))
    assert len(pages.sections) == 3
    assert pages.omitted.marker() == "[truncated: 9,997 sections, pages or sheets left out]"


@pytest.mark.parametrize(
    ("name", "content", "library", "module"),
    [
        ("t.xlsx", make_xlsx({"Sheet": [[1]]}), "openpyxl", "openpyxl"),
        ("t.docx", make_docx("One", "text"), "python-docx", "docx"),
        ("t.pdf", make_pdf(["text"]), "pypdf", "pypdf"),
    ],
)
def test_a_missing_library_is_told(
    name: str, content: bytes, library: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the optional libraries the refusal names the one that is missing."""
    monkeypatch.setitem(sys.modules, module, None)
    refusal = parse(document_kind(name, content), content, DocumentLimits())
    assert refusal == Refusal(problem=Problem.MISSING_LIBRARY, reason=library)


def test_counting_what_is_left_out_ends_in_time() -> None:
    """A budget that is full counts on for half of the time, then says "at least"."""
    now = 0.0
    budget = Budget(DocumentLimits(cells=2, time=datetime.timedelta(seconds=10)), clock=lambda: now)

    def rows() -> Iterator[list[str]]:
        nonlocal now
        for _ in range(1000):
            now += 1
            yield ["x"]

    assert len(budget.table(rows())[0].rows) == 2
    omitted = budget.parsed().omitted
    assert omitted.marker() == "[truncated: at least 4 table rows left out]"


def test_text_that_json_cannot_carry_is_replaced() -> None:
    """Lone surrogates and NUL never reach an event."""
    document = read("bad.json", rb'[{"a": "x\ud800y\u0000z"}]')
    assert only_table(document).rows == (("a",), ("x\ufffdy\ufffdz",))
