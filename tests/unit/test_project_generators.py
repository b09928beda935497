"""Generated files: drift is found, written and reported."""

from pathlib import Path

import pytest

from docs.generators.__main__ import differences, write
from docs.generators.adr_index import read_record

RECORD = """\
# Events are never changed

| Metadata | Value |
|---|---|
| Date | 2026-01-31 |
| Author | somebody |
| Status | Approved |
| Tags | log |

| Revision | Date | Info | Version |
|---|---|---|---|
| 1 | 2026-01-31 | Initial decision | 0.1.0 |
"""


def test_what_differs_is_written_and_what_is_left_over_is_removed(tmp_path: Path) -> None:
    """Missing, changed and left-over files all count as drift, until they are written."""
    (tmp_path / "owned").mkdir()
    (tmp_path / "owned" / "old.txt").write_text("old", encoding="utf-8")
    (tmp_path / "changed.txt").write_text("before", encoding="utf-8")
    (tmp_path / "same.txt").write_text("same", encoding="utf-8")
    wanted = {"owned/new.txt": "new", "changed.txt": "after", "same.txt": "same"}

    found = differences(tmp_path, wanted, ["owned"])
    write(tmp_path, wanted, found)

    assert found == ["changed.txt", "owned/new.txt", "owned/old.txt"]
    assert differences(tmp_path, wanted, ["owned"]) == []
    assert (tmp_path / "changed.txt").read_text(encoding="utf-8") == "after"
    assert not (tmp_path / "owned" / "old.txt").exists()


def test_the_head_of_a_decision_record_is_read() -> None:
    """The index shows number, title, status, date and tags."""
    record = read_record("0007-events-are-never-changed.md", RECORD)

    assert (record.number, record.title) == (7, "Events are never changed")
    assert (record.status, record.date, record.tags) == ("Approved", "2026-01-31", "log")


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("7-events.md", RECORD, "NNNN-some-words"),
        ("0007-events.md", RECORD.removeprefix("# "), "first line"),
        ("0007-events.md", RECORD.replace("| Tags | log |\n", ""), "lacks Tags"),
        ("0007-events.md", RECORD.replace("Approved", "Agreed"), "'Agreed' is not one of"),
        ("0007-events.md", RECORD.replace("2026-01-31", "31.1.26", 1), "'31.1.26' is not YYYY"),
        ("0007-events.md", RECORD.replace("| Revision |", "| Rev |"), "revision table"),
    ],
    ids=["name", "title", "metadata", "status", "date", "revisions"],
)
def test_a_record_with_a_wrong_head_is_refused(file: str, text: str, reason: str) -> None:
    """The error names the file and what is wrong with it."""
    with pytest.raises(ValueError, match=reason) as refused:
        read_record(file, text)

    assert file in str(refused.value)
