"""The errors of the tools: caught by their roots, picklable, with numbers and a way out."""

from __future__ import annotations

import inspect
import pickle

import pytest

from threadbus.agents.errors import AgentError
from threadbus.agents.tools import errors, web_errors

EXAMPLES: list[tuple[errors.ToolError, str]] = [
    (errors.PathNotAllowedError("../x", "/etc/x", ["/data"]), "'../x', which leads to '/etc/x', "),
    (errors.PathNotAllowedError("/etc/x", "/etc/x", ["/a", "/b"]), "('/a', '/b'): copy the file"),
    (errors.DocumentNotFoundError("x.csv", "it is a folder"), "it is a folder; check the name"),
    (errors.EmptyDocumentError("x.csv"), "send the file again"),
    (
        errors.DocumentTooLargeError("x.csv", "bytes", 2000, 1000, "DocumentLimits.file_bytes"),
        "2,000 bytes, over the limit of 1,000; split the document, or raise DocumentLimits.file",
    ),
    (errors.UnsupportedDocumentError("x", "a PNG image", ["CSV", "PDF"]), "one of CSV, PDF"),
    (errors.WrongExtensionError("x.pdf", ".pdf", "HTML"), "'.pdf' but its content is HTML"),
    (errors.EncryptedDocumentError("x.pdf", "pdf"), "save a copy without a password"),
    (errors.CorruptDocumentError("x.pdf", "pdf", "no pages"), "PDF document: no pages; open it"),
    (errors.DocumentTimeoutError("x.pdf", 1.5, "DocumentLimits.time"), "1.5 s; split the"),
    (errors.MissingExtraError("x.pdf", "pdf", "pypdf"), "pip install 'threadbus[documents]'"),
    (errors.MissingExtraError("x", "page", "trafilatura"), "pip install 'threadbus[web]'"),
    (errors.MissingExtraError("x.png", "image", "rapidocr"), "pip install 'threadbus[ocr]'"),
    (errors.MissingExtraError("x.mp4", "video", "av"), "pip install 'threadbus[transcripts]'"),
    (
        errors.TranscriptionError("x.wav", "whisper", "no such model"),
        "'x.wav' was not transcribed by 'whisper': no such model; check BUS_TRANSCRIPTION_MODEL",
    ),
    (
        web_errors.AddressNotAllowedError("http://x", "it is private"),
        "is not fetched: it is private",
    ),
    (web_errors.PageUnreachableError("http://x", "no route"), "no route; check the address"),
    (web_errors.PageRefusedError("http://x", 404), "answers 404, not a page; try another"),
    (web_errors.PageTooLargeError("http://x", 2000), "more than 2,000 bytes; find a smaller page"),
    (web_errors.PageTimeoutError("http://x", 2.5), "within 2.5 s; try again later"),
    (web_errors.TooManyRedirectsError("http://x", 5), "more than 5 times; fetch where"),
    (web_errors.BrowserError("http://x", "no such program"), "no such program; BUS_WEB_BROWSER"),
    (web_errors.NoSearchError(), "BUS_WEB_SEARCH_URL names a SearXNG-compatible endpoint"),
    (web_errors.BadSearchError("http://x", "no JSON"), "the search at 'http://x' failed: no JSON"),
    (errors.InvalidCodeError("too long"), "too long"),
    (errors.InvalidInputFileError("../x", "no plain path"), "'../x' cannot be given"),
    (errors.ProcessStartError("/bin/x", "No such file"), "No such file"),
    (errors.ProcessLostError(12, 45.0), "process 12 did not end within 45 s"),
]


@pytest.mark.parametrize(
    ("error", "told"),
    EXAMPLES,
    ids=[f"{number}-{type(error).__name__}" for number, (error, _) in enumerate(EXAMPLES)],
)
def test_an_error_tells_what_and_travels(error: errors.ToolError, told: str) -> None:
    """Each error names the value, the limit and the way out, and survives pickling."""
    assert told in str(error)
    assert isinstance(error, AgentError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_every_leaf_is_tried_and_drawn() -> None:
    """No leaf of the tree is missing above, or in the drawing of the tree."""
    leaves: set[type] = set()
    for module in (errors, web_errors):
        found = [value for value in vars(module).values() if inspect.isclass(value)]
        own = [value for value in found if value.__module__ == module.__name__]
        leaves |= {value for value in own if not value.__subclasses__()}
        assert module.__doc__ is not None
        for value in own:
            assert value.__name__ in module.__doc__
    assert leaves == {type(error) for error, _ in EXAMPLES}


def test_hostile_names_are_shortened() -> None:
    """A name of a megabyte, or with control characters, does not flood a message."""
    message = str(errors.EmptyDocumentError("\x1b[2J" + "x" * 1_000_000))
    assert len(message) < 300
    assert message.isprintable()
