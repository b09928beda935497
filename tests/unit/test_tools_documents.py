"""Documents of every kind, built by their own libraries and read in the bounded process."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from tests.support.tool_files import make_docx, make_pdf, make_xlsx
from threadbus.agents.tools import (
    Document,
    DocumentKind,
    DocumentLimits,
    DocumentNotFoundError,
    NamedBytes,
    PathNotAllowedError,
    Table,
    read_document,
)


def read(name: str, content: bytes, limits: DocumentLimits | None = None) -> Document:
    return asyncio.run(read_document(NamedBytes(name, content), limits or DocumentLimits()))


def read_path(path: Path, *roots: Path) -> Document:
    return asyncio.run(read_document(path, roots=roots))


def only_table(document: Document) -> Table:
    (section,) = document.sections
    (table,) = section.tables
    return table


def test_a_csv_file_is_one_table(tmp_path: Path) -> None:
    """A path is read with its name, size and hash; the name without extension is the title."""
    content = b'region,revenue\r\nNorth,"1,200"\r\n"South ""S""",5\r\n\r\n'
    path = tmp_path / "sales.csv"
    path.write_bytes(content)
    document = read_path(path, tmp_path)
    assert (document.name, document.kind, document.title) == (
        "sales.csv",
        DocumentKind.CSV,
        "sales",
    )
    assert (document.size, document.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert only_table(document).rows == (
        ("region", "revenue"),
        ("North", "1,200"),
        ('South "S"', "5"),
    )
    assert not document.truncated


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("t.tsv", b"a\tb\n1\t2\n", "t", "| 1 | 2 |"),
        ("t.xlsx", make_xlsx({"Sheet": [["a", "b"], [1, 2]]}), "t", "| 1 | 2 |"),
        ("t.docx", make_docx("One", "text"), "One", "text"),
        ("t.pdf", make_pdf(["text"]), "t", "text"),
        ("t.json", b'{"a": 1}', "t", '{"a": 1}'),
        ("t.html", b"<title>T</title><p>text", "T", "text"),
        ("t.md", b"# One\n\ntext", "One", "text"),
        ("t.txt", b"text", "t", "text"),
    ],
)
def test_every_kind_is_read(name: str, content: bytes, title: str, text: str) -> None:
    """Bytes with a name are read like a file, whatever their kind."""
    document = read(name, content)
    assert (document.title, document.size) == (title, len(content))
    assert text in document.render().splitlines()


def test_a_truncated_document_says_so() -> None:
    """A document over the limits is cut, and the end of it tells by how much."""
    rows = b"".join(b"%d,x\n" % number for number in range(100))
    document = read("long.csv", rows, DocumentLimits(cells=20))
    assert document.truncated
    assert len(only_table(document).rows) == 10
    assert document.render().endswith("[truncated: 90 table rows left out]\n")


def test_the_rendered_document_is_markdown() -> None:
    """A model gets headings, text, tables with their bars escaped, and notes."""
    rendered = read("t.csv", b"a,b\n1|2,\n").render()
    assert rendered == "# t (t.csv, csv)\n\n| a | b |\n| --- | --- |\n| 1\\|2 |  |\n"


def test_a_path_outside_of_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    """Neither '..' nor a symbolic link leads out of the allowed folders."""
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    (other / "secret.txt").write_text("secret")
    (allowed / "link.txt").symlink_to(other / "secret.txt")
    (allowed / "folder").symlink_to(other)
    (allowed / "inside.txt").write_text("inside")
    (allowed / "inner.txt").symlink_to("inside.txt")
    for path in ("../other/secret.txt", "link.txt", "folder/secret.txt"):
        with pytest.raises(PathNotAllowedError, match="not below an allowed folder"):
            read_path(allowed / path, allowed)
    with pytest.raises(PathNotAllowedError):
        read_path(other / "secret.txt")  # the current folder, since no other is allowed
    assert read_path(allowed / "inner.txt", other, allowed).sections[0].text == "inside"


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and a loop of links each say what they are."""
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (
        ("missing.txt", "No such file"),
        (".", "a folder"),
        ("pipe.txt", "not a regular file"),
        ("loop", "oop"),
        ("nul\0.txt", "NUL character"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(DocumentNotFoundError, match=reason):
            read_path(tmp_path / name, tmp_path)
