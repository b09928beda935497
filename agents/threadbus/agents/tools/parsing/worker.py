"""The bounded process that reads one document.

Its last argument is a :class:`~.model.Task` as JSON; it writes a :class:`~.model.Parsed` or a
:class:`~.model.Refusal` to standard output. It may run out of time or memory at any point: the
agent can tell by how it ended.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Final, cast

import msgspec

from threadbus.agents.tools.parsing.budget import Budget, RefusedError
from threadbus.agents.tools.parsing.hypertext import parse_html
from threadbus.agents.tools.parsing.model import (
    DocumentKind,
    DocumentLimits,
    Parsed,
    Problem,
    Refusal,
    Task,
)
from threadbus.agents.tools.parsing.picture import parse_image
from threadbus.agents.tools.parsing.portable import parse_pdf
from threadbus.agents.tools.parsing.slides import parse_pptx
from threadbus.agents.tools.parsing.sound import parse_sound
from threadbus.agents.tools.parsing.spreadsheet import parse_xlsx
from threadbus.agents.tools.parsing.text import (
    parse_json,
    parse_markdown,
    parse_separated,
    parse_text,
)
from threadbus.agents.tools.parsing.webpage import parse_page
from threadbus.agents.tools.parsing.word import parse_docx

_MAX_REASON_CHARS: Final = 300
_LIBRARIES: Final = {
    DocumentKind.XLSX: "openpyxl",
    DocumentKind.DOCX: "python-docx",
    DocumentKind.PPTX: "python-pptx",
    DocumentKind.PDF: "pypdf",
    DocumentKind.PAGE: "trafilatura",
    DocumentKind.IMAGE: "rapidocr and onnxruntime",
    DocumentKind.AUDIO: "av and pocketsphinx",
    DocumentKind.VIDEO: "av and pocketsphinx",
}


def main() -> None:
    """Read the document that the last argument names."""
    logging.disable()  # libraries tell about every oddity of a file
    task = msgspec.json.decode(sys.argv[-1], type=Task)
    if not task.needs_model:
        # openpyxl loads numpy wherever it is installed, and its threads take the memory of the
        # parser.
        sys.modules["numpy"] = cast("ModuleType", None)
    with open(task.path, "rb") as file:  # noqa: PTH123
        data = file.read()
    reply = parse(task.kind, data, task.limits, task.base, task.pieces, scans=task.scans)
    sys.stdout.buffer.write(msgspec.json.encode(reply))
    sys.stdout.buffer.flush()
    if task.needs_model:
        # Threads of the libraries are not waited for.
        os._exit(0)


def parse(
    kind: DocumentKind,
    data: bytes,
    limits: DocumentLimits,
    base: str = "",
    pieces: int = 0,
    *,
    scans: bool = False,
) -> Parsed | Refusal:
    """Return the content of a document, or why there is nothing to return."""
    try:
        return _parse(kind, data, limits, base, pieces, scans)
    except RefusedError as refused:
        return refused.refusal
    except MemoryError:
        raise
    except ImportError:
        missing = DocumentKind.IMAGE if scans else kind
        return Refusal(problem=Problem.MISSING_LIBRARY, reason=_LIBRARIES.get(missing, ""))
    except Exception as error:  # a parser may fail in any way on hostile bytes
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARS]
        return Refusal(problem=Problem.CORRUPT, reason=reason)


def _parse(
    kind: DocumentKind, data: bytes, limits: DocumentLimits, base: str, pieces: int, scans: bool
) -> Parsed:
    budget = Budget(limits)
    readers: dict[DocumentKind, Callable[[], Parsed]] = {
        DocumentKind.CSV: lambda: parse_separated(data, budget, kind),
        DocumentKind.TSV: lambda: parse_separated(data, budget, kind),
        DocumentKind.XLSX: lambda: parse_xlsx(data, budget, limits),
        DocumentKind.DOCX: lambda: parse_docx(data, budget, limits),
        DocumentKind.PPTX: lambda: parse_pptx(data, budget, limits),
        DocumentKind.PDF: lambda: parse_pdf(data, budget, limits, scans=scans),
        DocumentKind.JSON: lambda: parse_json(data, budget, limits),
        DocumentKind.HTML: lambda: parse_html(data, budget),
        DocumentKind.PAGE: lambda: parse_page(data, budget, base),
        DocumentKind.MARKDOWN: lambda: parse_markdown(data, budget),
        DocumentKind.TEXT: lambda: parse_text(data, budget),
        DocumentKind.IMAGE: lambda: parse_image(data, budget, limits),
        DocumentKind.AUDIO: lambda: parse_sound(data, budget, limits, pieces),
        DocumentKind.VIDEO: lambda: parse_sound(data, budget, limits, pieces),
    }
    return readers[kind]()
