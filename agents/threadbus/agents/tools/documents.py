"""Read a document that nobody trusts into text and tables.

:func:`read_document` takes a path below an allowed folder, or bytes with a name (an artifact, an
upload). It tells the kind by the content, and parses in a bounded process: a bomb, a hang or a
crash of a parser ends that process and becomes an error. What is left out because of a limit is
told in :attr:`~.Document.omitted`; nothing is left out in silence.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path, PurePath
from typing import Final, NoReturn

import msgspec

from threadbus.agents.tools.errors import (
    CorruptDocumentError,
    DocumentError,
    DocumentNotFoundError,
    DocumentTimeoutError,
    DocumentTooLargeError,
    EmptyDocumentError,
    EncryptedDocumentError,
    MissingExtraError,
    PathNotAllowedError,
)
from threadbus.agents.tools.parsing.budget import Budget
from threadbus.agents.tools.parsing.model import (
    Document,
    DocumentKind,
    DocumentLimits,
    Parsed,
    Problem,
    Refusal,
    Task,
)
from threadbus.agents.tools.parsing.portable import scans_note
from threadbus.agents.tools.parsing.sniff import document_kind
from threadbus.agents.tools.parsing.sound import MOST_PIECES, PIECE, RATE, add_transcript
from threadbus.agents.tools.process.bounded import module_argv, run_bounded
from threadbus.agents.tools.process.outcome import Bounds, Ended, Outcome, last_line
from threadbus.agents.tools.process.workspace import in_thread, working_folder
from threadbus.agents.tools.transcribing import OpenAITranscriber, Transcriber

_WORKER: Final = "threadbus.agents.tools.parsing.worker"
_MAX_NAME_CHARS: Final = 200
# What JSON may add: a character takes up to 6 bytes, a cell or a row some punctuation.
_BYTES_PER_CHARACTER: Final = 6
_BYTES_PER_CELL: Final = 8
_BYTES_PER_SECTION: Final = 4096
_PIECE_BYTES: Final = (int(PIECE.total_seconds()) + 1) * RATE * 2
_MODEL_THREADS: Final = 4


class NamedBytes(msgspec.Struct, frozen=True):
    """The content of a document that is not a file here: an artifact, an upload."""

    name: str
    """Its extension counts like that of a file."""
    content: bytes


async def read_document(
    source: str | Path | NamedBytes,
    limits: DocumentLimits = DocumentLimits(),  # noqa: B008 -- frozen
    *,
    roots: Sequence[Path] = (),
    transcriber: Transcriber | None = None,
) -> Document:
    """Read *source* as text and tables.

    Of a picture, and of a page of a PDF that has no other text, the text in it is read; of a
    recording or film what is said.

    Args:
        source: A path, or content with a name.
        limits: What reading may use and return.
        roots: Folders below which a path must lie, symbolic links resolved; none means the
            current working folder.
        transcriber: Hears recordings and films; by default the endpoint that the variables name
            (see :meth:`.OpenAITranscriber.from_env`), or a model on this machine.

    Raises:
        PathNotAllowedError: The path leads outside of *roots*.
        DocumentNotFoundError: There is no such file.
        EmptyDocumentError: The document has no content.
        DocumentTooLargeError: It needs more than *limits* allow.
        UnsupportedDocumentError: Its kind is not read.
        WrongExtensionError: Its content is of another kind than its name says.
        EncryptedDocumentError: It needs a password.
        CorruptDocumentError: It breaks the rules of its kind.
        DocumentTimeoutError: Reading took longer than *limits* allow.
        MissingExtraError: ``threadbus[documents]`` is not installed; ``threadbus[ocr]`` for
            pictures, ``threadbus[transcripts]`` for recordings and films.
        TranscriptionError: The endpoint gives no transcript.
        InvalidSettingError: The variables of the endpoint cannot be used.
        ProcessError: The bounded process could not be started or ended.

    Cancellation: ends the process, and is passed on.
    """
    if isinstance(source, NamedBytes):
        name, data = _short(source.name), source.content
        _check_size(name, len(data), limits)
    else:
        name = _short(Path(source).name)
        data = await in_thread(_read_file, Path(source), roots or [Path.cwd()], limits)
    if not data.strip():
        raise EmptyDocumentError(name)
    kind = document_kind(name, data)
    if kind.is_heard:
        transcriber = transcriber or OpenAITranscriber.from_env()
        return await _read(name, kind, data, limits, transcriber=transcriber)
    return await _read(name, kind, data, limits)


async def read_page(
    source: NamedBytes,
    address: str = "",
    limits: DocumentLimits = DocumentLimits(),  # noqa: B008 -- frozen
) -> Document:
    """Read HTML from the web: its main text, without what surrounds it, and its links.

    Args:
        source: The page.
        address: Where it comes from; relative links are relative to it.
        limits: What reading may use and return.

    Raises:
        EmptyDocumentError: The page has no content.
        DocumentTooLargeError, CorruptDocumentError, DocumentTimeoutError, ProcessError: See
            :func:`read_document`.
        MissingExtraError: ``threadbus[web]`` is not installed.

    Cancellation: ends the process, and is passed on.
    """
    name = _short(source.name)
    _check_size(name, len(source.content), limits)
    if not source.content.strip():
        raise EmptyDocumentError(name)
    return await _read(name, DocumentKind.PAGE, source.content, limits, address)


async def _read(
    name: str,
    kind: DocumentKind,
    data: bytes,
    limits: DocumentLimits,
    base: str = "",
    *,
    transcriber: Transcriber | None = None,
) -> Document:
    parsed = await _parse(name, kind, data, limits, base, transcriber)
    if parsed.scans:
        parsed = await _with_scans(name, data, limits, parsed)
    return Document(
        name=name,
        kind=kind,
        title=parsed.title or PurePath(name).stem,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sections=parsed.sections,
        notes=parsed.notes,
        omitted=parsed.omitted,
    )


async def _with_scans(name: str, data: bytes, limits: DocumentLimits, parsed: Parsed) -> Parsed:
    """Return a PDF with the text in its pictures, or with why that is not there."""
    try:
        return await _parse(name, DocumentKind.PDF, data, limits, "", None, scans=True)
    except DocumentError as error:
        note = scans_note(parsed.scans, str(error))
        return msgspec.structs.replace(parsed, notes=(*parsed.notes, note))


def _short(name: str) -> str:
    """Return the last *_MAX_NAME_CHARS* characters of *name*, which the extension is among."""
    return PurePath(name).name[-_MAX_NAME_CHARS:] or "unnamed"


def _check_size(name: str, size: int, limits: DocumentLimits) -> None:
    if size > limits.file_bytes:
        raise DocumentTooLargeError(
            name, "bytes", size, limits.file_bytes, "DocumentLimits.file_bytes"
        )


def _read_file(path: Path, roots: Sequence[Path], limits: DocumentLimits) -> bytes:
    shown = str(path)
    if "\0" in shown:
        raise DocumentNotFoundError(shown, "its name holds a NUL character")
    try:
        allowed = [root.resolve(strict=True) for root in roots]
        _check_below(shown, path.resolve(), allowed)
        # Not blocking: opening a named pipe would wait for its writer.
        descriptor = os.open(path.resolve(), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before 3.13
        reason = getattr(error, "strerror", None) or str(error)
        raise DocumentNotFoundError(shown, reason) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise DocumentNotFoundError(shown, f"it is {what}")
    with open(descriptor, "rb") as file:  # noqa: PTH123 -- a descriptor
        # A folder on the way may have become a link since the check above.
        opened = Path(f"/proc/self/fd/{descriptor}")
        if opened.exists():
            _check_below(shown, opened.resolve(), allowed)
        _check_size(path.name, status.st_size, limits)
        data = file.read(limits.file_bytes + 1)
    _check_size(path.name, len(data), limits)  # it may have grown
    return data


def _check_below(shown: str, resolved: Path, allowed: Sequence[Path]) -> None:
    if not any(resolved.is_relative_to(root) for root in allowed):
        raise PathNotAllowedError(shown, str(resolved), [str(root) for root in allowed])


async def _parse(
    name: str,
    kind: DocumentKind,
    data: bytes,
    limits: DocumentLimits,
    base: str,
    transcriber: Transcriber | None,
    *,
    scans: bool = False,
) -> Parsed:
    pieces = 0
    if transcriber is not None:
        pieces = min(MOST_PIECES, max(1, -(-limits.duration // PIECE)))
    async with working_folder("document", {"document": data}) as folder:
        task = Task(
            path="document", kind=kind, limits=limits, base=base, pieces=pieces, scans=scans
        )
        outcome = await run_bounded(
            [*module_argv(_WORKER, site=True), msgspec.json.encode(task).decode()],
            folder=folder,
            bounds=_bounds(task),
            environment={
                "LANG": "C.UTF-8",
                "MALLOC_ARENA_MAX": "2",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
        )
        reply = _reply(name, task, outcome)
        if isinstance(reply, Refusal):
            _raise(name, DocumentKind.IMAGE if scans else kind, reply)
        if transcriber is None or not reply.pieces:
            return reply
        sounds = [await in_thread(_piece, folder, piece) for piece in reply.pieces[:pieces]]
    said = [await transcriber.transcribe(name, sound) for sound in sounds]
    return _with_transcript(reply, said, limits)


def _piece(folder: Path, name: str) -> bytes:
    """Return a file that the process has written; it may be anything but what was asked for."""
    path = folder / PurePath(name).name
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:  # noqa: PTH123 -- a descriptor
        return file.read(_PIECE_BYTES)


def _with_transcript(parsed: Parsed, said: Sequence[str], limits: DocumentLimits) -> Parsed:
    """Return what was parsed with what an endpoint has heard, as far as it may be kept."""
    budget = Budget(limits)
    add_transcript([one.strip() for one in said if one.strip()], budget)
    found = budget.parsed()
    omitted = msgspec.structs.replace(found.omitted, exact=parsed.omitted.exact)
    return Parsed(sections=found.sections, notes=(*parsed.notes, *found.notes), omitted=omitted)


def _bounds(task: Task) -> Bounds:
    limits, pieces, is_model = task.limits, task.pieces, task.needs_model
    time = limits.model_time if is_model else limits.time
    return Bounds(
        wall_time=time,
        # Of all threads together.
        cpu_time=time * (_MODEL_THREADS if is_model else 1) + timedelta(seconds=1),
        memory_bytes=limits.model_memory_bytes if is_model else limits.memory_bytes,
        output_bytes=limits.characters * _BYTES_PER_CHARACTER
        + limits.cells * _BYTES_PER_CELL
        + (limits.sections + 100) * _BYTES_PER_SECTION,
        file_bytes=_PIECE_BYTES if pieces else 0,
        folder_bytes=limits.file_bytes * 2 + pieces * _PIECE_BYTES,
        folder_entries=16 + pieces,
        processes=32 if is_model else 4,
        open_files=64,
    )


def _reply(name: str, task: Task, outcome: Outcome) -> Parsed | Refusal:
    limits, is_model = task.limits, task.needs_model
    match outcome.ended:
        case Ended.EXIT if outcome.exit_status == 0:
            reply: Parsed | Refusal = msgspec.json.decode(outcome.stdout, type=Parsed | Refusal)
            return reply
        case Ended.MEMORY:
            raise DocumentTooLargeError(
                name,
                "bytes of memory needed than allowed",
                -1,
                limits.model_memory_bytes if is_model else limits.memory_bytes,
                f"DocumentLimits.{'model_' if is_model else ''}memory_bytes",
            )
        case Ended.WALL_TIME | Ended.CPU_TIME:
            limit = limits.model_time if is_model else limits.time
            setting = f"DocumentLimits.{'model_' if is_model else ''}time"
            raise DocumentTimeoutError(name, limit.total_seconds(), setting)
        case _:
            reason = last_line(outcome.stderr) or outcome.signal or outcome.ended.value
            raise CorruptDocumentError(name, task.kind.value, f"its parser failed: {reason}")


def _raise(name: str, kind: DocumentKind, refusal: Refusal) -> NoReturn:
    match refusal.problem:
        case Problem.ENCRYPTED:
            raise EncryptedDocumentError(name, kind.value)
        case Problem.TOO_LARGE:
            raise DocumentTooLargeError(
                name, refusal.reason, refusal.value, refusal.limit, refusal.setting
            )
        case Problem.MISSING_LIBRARY:
            raise MissingExtraError(name, kind.value, refusal.reason)
        case Problem.CORRUPT:
            raise CorruptDocumentError(name, kind.value, refusal.reason)
