"""Reads questions from JSONL: our own field names, or those of GAIA."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn, cast

import msgspec

from threadbus.agents.evaluation.errors import QuestionsError
from threadbus.schemas import FilePart, shorten

MAX_QUESTIONS: Final = 10_000
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 16
_MAX_ID_CHARS: Final = 200
_MAX_TEXT_CHARS: Final = 100_000

_IDS: Final = ("task_id", "id")
_QUESTIONS: Final = ("Question", "question")
_ANSWERS: Final = ("Final answer", "final_answer", "answer")
_FILES: Final = ("file_name", "files")
_LEVELS: Final = ("Level", "level")
_UNKNOWN: Final = frozenset({"", "?"})


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    id: str
    text: str
    answer: str | None = None
    """What is right; None where it is not known, and the question is not scored."""
    files: tuple[str, ...] = ()
    """Paths inside the folder of the questions."""
    level: str = ""
    line: int = 0
    """Where it stands in its file, from 1."""

    @property
    def digest(self) -> str:
        """A short hash of what is asked and expected: results of another text do not count."""
        said = msgspec.json.encode([self.text, self.answer, self.files])
        return hashlib.sha256(said).hexdigest()[:16]


def read_questions(path: Path, *, files: Path | None = None) -> list[Question]:
    """Read a file of questions, one JSON object a line; blank lines are passed over.

    Args:
        path: the file.
        files: the folder of the files that go with questions; that of *path* when absent.

    Raises:
        QuestionsError: with the line, and what would be right.
    """
    found: list[Question] = []
    lines: dict[str, int] = {}
    folder = files or path.parent
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        if len(found) == MAX_QUESTIONS:
            _fail(path, number, f"there are more than {MAX_QUESTIONS:,} questions; split the file")
        question = _question(path, number, line, folder)
        first = lines.setdefault(question.id, number)
        if first != number:
            shown = shorten(question.id)
            _fail(path, number, f"the id {shown!r} stands in line {first} already; ids differ")
        found.append(question)
    if not found:
        raise QuestionsError(str(path), 0, "there is no question in it; write one a line, as JSON")
    return found


def load_files(question: Question, folder: Path, limit: int) -> list[FilePart]:
    """Read the files that go with a question.

    Args:
        question: which one.
        folder: where its files are.
        limit: bytes that one may have.

    Raises:
        QuestionsError: one cannot be read, or is too large.
    """
    parts: list[FilePart] = []
    for name in question.files:
        path = folder / name
        try:
            with path.open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            _fail(path, 0, f"question {question.id}: {error.strerror or error}")
        if len(content) > limit:
            _fail(
                path, 0, f"question {question.id}: over {limit:,} bytes; raise the artifact limit"
            )
        kind, _ = mimetypes.guess_type(path.name)
        parts.append(FilePart(content, path.name, kind or "application/octet-stream"))
    return parts


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise QuestionsError(str(path), 0, error.strerror or str(error)) from error
    if len(content) > MAX_FILE_BYTES:
        raise QuestionsError(str(path), 0, f"over {MAX_FILE_BYTES:,} bytes; split the file")
    return content.removeprefix(b"\xef\xbb\xbf").split(b"\n")


def _question(path: Path, number: int, line: bytes, folder: Path) -> Question:
    if len(line) > MAX_LINE_BYTES:
        _fail(path, number, f"{len(line):,} bytes are over the limit of {MAX_LINE_BYTES:,}")
    try:
        row: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _fail(path, number, f"this is no JSON: {shorten(str(error), 200)}")
    if not isinstance(row, dict):
        _fail(path, number, 'a question is an object, as {"question": "…", "answer": "…"}')
    fields = cast("dict[str, object]", row)
    text = _text(path, number, fields, _QUESTIONS)
    if text is None or not text.strip():
        _fail(path, number, "there is no question: give the field `question`, or `Question`")
    answer = _text(path, number, fields, _ANSWERS)
    name = _text(path, number, fields, _IDS) or f"line-{number}"
    if len(name) > _MAX_ID_CHARS or not name.isprintable():
        shown = shorten(name)
        _fail(path, number, f"the id {shown!r} cannot be used; up to {_MAX_ID_CHARS} characters")
    return Question(
        id=name,
        text=text,
        answer=None if answer is None or answer.strip() in _UNKNOWN else answer,
        files=_files(path, number, fields, folder),
        level=_text(path, number, fields, _LEVELS) or "",
        line=number,
    )


def _text(path: Path, number: int, row: dict[str, object], names: Sequence[str]) -> str | None:
    name, value = _first(row, names)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        _fail(path, number, f"the field {name!r} is a text or a number, not {_kind(value)}")
    text = str(value)
    if len(text) > _MAX_TEXT_CHARS:
        _fail(path, number, f"the field {name!r} is over {_MAX_TEXT_CHARS:,} characters")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        _fail(path, number, f"the field {name!r} holds a character that no text can have")
    return text


def _files(path: Path, number: int, row: dict[str, object], folder: Path) -> tuple[str, ...]:
    name, value = _first(row, _FILES)
    if value is None or value == "":
        return ()
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(names) > MAX_FILES:
        _fail(path, number, f"{len(names):,} files are over the limit of {MAX_FILES}")
    for one in names:
        if not isinstance(one, str) or not one or "\0" in one:
            _fail(path, number, f"the field {name!r} is a file name, or a list of them")
        _check_inside(path, number, one, folder)
    return tuple(cast("list[str]", names))


def _check_inside(path: Path, number: int, name: str, folder: Path) -> None:
    """Check that a file is below the folder: a file of questions may come from anywhere."""
    shown = shorten(name)
    try:
        found = (folder / name).resolve()
        if not found.is_relative_to(folder.resolve()):
            _fail(path, number, f"the file {shown!r} is outside of {folder}; give --files FOLDER")
        if not found.is_file():
            _fail(path, number, f"there is no file {shown!r} in {folder}; give --files FOLDER")
    except OSError as error:
        _fail(path, number, f"the file {shown!r}: {error.strerror or error}")


def _first(row: dict[str, object], names: Sequence[str]) -> tuple[str, object]:
    return next(
        ((name, row[name]) for name in names if row.get(name) is not None), (names[0], None)
    )


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "true or false"


def _fail(path: Path, number: int, reason: str) -> NoReturn:
    raise QuestionsError(str(path), number, reason)
