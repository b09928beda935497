"""The index of the decision records: docs/adr/README.md, from the head of each record.

A record is ``docs/adr/NNNN-words.md``. It starts with its title and two tables: the metadata
(Date, Author, Status, Tags) and the revisions.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ADR = Path(__file__).parents[1] / "adr"
STATUSES = ("Proposed", "Approved", "Partially Implemented", "Implemented", "Deprecated")
HEAD = """\
# Decision records

Why things are as they are: one file for each decision that is hard to turn back. This index is
generated from them by `make docs`.

To add one, copy the form of an existing record (title, metadata, revisions, context, decision,
consequences), take the next number, and run `make docs`. A decision that changes gets a row in its
revision table, or a new record that deprecates it.

| Record | Status | Date | Tags |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Record:
    """The head of one decision record."""

    number: int
    file: str
    title: str
    date: str
    status: str
    tags: str


def files() -> Mapping[str, str]:
    """Return the index."""
    paths = sorted(path for path in ADR.glob("*.md") if path.name != "README.md")
    records = [read_record(path.name, path.read_text(encoding="utf-8")) for path in paths]
    numbers = [record.number for record in records]
    if numbers != list(range(1, len(records) + 1)):
        raise ValueError(f"docs/adr: the numbers must be 1, 2, 3 … without a gap, not {numbers}")
    rows = (
        f"| [{r.number:04}. {r.title}]({r.file}) | {r.status} | {r.date} | {r.tags} |\n"
        for r in records
    )
    return {"docs/adr/README.md": HEAD + "".join(rows)}


def read_record(file: str, text: str) -> Record:
    """Read the head of the record *text* that lies in *file*.

    Raises:
        ValueError: The name, the title, the metadata or the revisions are not as they must be.
    """
    name = re.fullmatch(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md", file)
    if name is None:
        raise ValueError(f"docs/adr/{file}: the name must be NNNN-some-words.md")
    title = re.match(r"# (\S.*)\n", text)
    if title is None:
        raise ValueError(f"docs/adr/{file}: the first line must be '# ' and the title")
    cells = dict(re.findall(r"^\| (Date|Author|Status|Tags) \| (\S.*?) \|$", text, re.MULTILINE))
    missing = {"Date", "Author", "Status", "Tags"} - cells.keys()
    if missing:
        raise ValueError(f"docs/adr/{file}: the metadata table lacks {', '.join(sorted(missing))}")
    if cells["Status"] not in STATUSES:
        raise ValueError(
            f"docs/adr/{file}: status {cells['Status']!r} is not one of {', '.join(STATUSES)}"
        )
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", cells["Date"]):
        raise ValueError(f"docs/adr/{file}: date {cells['Date']!r} is not YYYY-MM-DD")
    if not re.search(r"^\| Revision \|", text, re.MULTILINE):
        raise ValueError(f"docs/adr/{file}: the revision table is missing")
    return Record(
        number=int(name[1]),
        file=file,
        title=title[1],
        date=cells["Date"],
        status=cells["Status"],
        tags=cells["Tags"],
    )
