"""Files of questions: both spellings of the fields, and a clear word for what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from threadbus.agents.evaluation import Question, QuestionsError, read_questions
from threadbus.agents.evaluation import questions as module


def written(folder: Path, *lines: str | Mapping[str, object]) -> Path:
    """Write a file of questions."""
    path = folder / "q.jsonl"
    rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_the_fields_of_gaia_and_plain_ones_say_the_same(tmp_path: Path) -> None:
    """Blank lines and a mark of the encoding are passed over; a `?` is no known answer."""
    (tmp_path / "a.csv").write_text("x")
    gaia = {"task_id": "g", "Question": "Q?", "Final answer": "4", "file_name": "a.csv", "Level": 2}
    plain = {"id": "p", "question": "Q?", "answer": 4, "files": ["a.csv"], "level": "2"}
    path = written(tmp_path, gaia, "", plain, {"question": "R?"}, {"Question": "S?", "answer": "?"})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    first, second, third, fourth = read_questions(path)

    assert first == Question(id="g", text="Q?", answer="4", files=("a.csv",), level="2", line=1)
    assert (second.text, second.answer, second.files) == (first.text, first.answer, first.files)
    assert first.digest == second.digest
    assert (third.id, third.answer, fourth.answer) == ("line-4", None, None)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2: this is no JSON"),
        ("[1]", "line 2: a question is an object"),
        ("{}", "line 2: there is no question: give the field `question`, or `Question`"),
        ('{"question": "  "}', "there is no question"),
        ('{"question": ["a"]}', "the field 'question' is a text or a number, not a list"),
        ('{"question": "a", "answer": true}', "the field 'answer' is a text or a number"),
        ('{"question": "a", "answer": {"b": 1}}', "not an object"),
        ('{"question": "a", "id": "one"}', "the id 'one' stands in line 1 already"),
        ('{"question": "a", "files": "../q.jsonl"}', "is outside of"),
        ('{"question": "a", "files": "/etc/passwd"}', "is outside of"),
        ('{"question": "a", "files": "none.csv"}', "there is no file 'none.csv' in"),
        ('{"question": "a", "files": [1]}', "is a file name, or a list of them"),
        ('{"question": "a", "files": "."}', "there is no file '.' in"),
        ('{"question": "a", "file_name": "a\\u0000b"}', "is a file name"),
        ('{"question": "a\\u0000b"}', "holds a character that no text can have"),
        ('{"question": "a", "id": "a\\nb"}', "the id 'a\\\\nb' cannot be used"),
        (json.dumps({"question": "a" * 100_001}), "is over 100,000 characters"),
        (json.dumps({"question": "a", "files": ["b"] * 17}), "17 files are over the limit of 16"),
        ('{"question": "' + "a" * 1_100_000 + '"}', "bytes are over the limit of 1,048,576"),
        ("[" * 100_000, "this is no JSON"),
        ('{"question": "\\ud800"}', "line 2"),
    ],
    ids=range(21),
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    """The message has the file, the line and what would be right."""
    path = written(tmp_path, {"question": "Q?", "id": "one"}, line)
    with pytest.raises(QuestionsError) as raised:
        read_questions(path)
    assert says in str(raised.value)
    assert raised.value.line == 2
    assert len(str(raised.value)) < 600


def test_a_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are no JSON."""
    path = tmp_path / "q.jsonl"
    path.write_bytes(b'{"question": "\xff"}\n')
    with pytest.raises(QuestionsError, match="line 1: this is no JSON"):
        read_questions(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """What a file of questions names must lie in its folder, also behind a link."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(QuestionsError, match="is outside of"):
        read_questions(written(folder, {"question": "Q?", "files": "link"}))


def test_files_that_cannot_be_read_as_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one, a missing one, a folder, and one with too many questions."""
    with pytest.raises(QuestionsError, match="there is no question in it"):
        read_questions(written(tmp_path, "", " "))
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(QuestionsError):
            read_questions(path)
    monkeypatch.setattr(module, "MAX_QUESTIONS", 2)
    with pytest.raises(QuestionsError, match="line 3: there are more than 2 questions"):
        read_questions(written(tmp_path, *({"question": f"{n}?"} for n in range(3))))
