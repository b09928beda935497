"""What can go wrong in a tool.

    AgentError
    └── ToolError                            a tool cannot do what it was asked
        ├── DocumentError                    a document cannot be read
        │   ├── PathNotAllowedError          a path outside of the allowed folders
        │   ├── DocumentNotFoundError        no such file, or not a file, or not readable
        │   ├── EmptyDocumentError           no content at all
        │   ├── DocumentTooLargeError        more than a limit allows, unpacked content included
        │   ├── UnsupportedDocumentError     a kind that is not read
        │   ├── WrongExtensionError          content of another kind than the name says
        │   ├── EncryptedDocumentError       a password is needed
        │   ├── CorruptDocumentError         content that breaks the rules of its kind
        │   ├── DocumentTimeoutError         reading took too long
        │   ├── MissingExtraError            the library for this kind is not installed
        │   └── TranscriptionError           the endpoint for transcripts gives none
        ├── WebError                         a page or a search cannot be had, see .web_errors
        ├── SandboxError                     code was not run, because it was not asked for rightly
        │   ├── InvalidCodeError             code that is no text, or too long
        │   └── InvalidInputFileError        an input file that cannot be given to the code
        └── ProcessError                     a bounded process failed on our side
            ├── ProcessStartError            it could not be started
            └── ProcessLostError             it could not be ended

What code in the sandbox does wrong is no error here but part of its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadbus.agents.errors import AgentError
from threadbus.schemas import shorten


class ToolError(AgentError):
    """A tool cannot do what it was asked."""


class DocumentError(ToolError):
    """A document cannot be read."""


class PathNotAllowedError(DocumentError):
    """A path leads outside of the allowed folders."""

    def __init__(self, path: str, resolved: str, roots: Sequence[str]) -> None:
        super().__init__(path, resolved, tuple(roots))
        self.path = path
        self.resolved = resolved
        self.roots = tuple(roots)

    def __str__(self) -> str:
        leads = "" if self.resolved == self.path else f", which leads to {shown(self.resolved)},"
        return (
            f"{shown(self.path)}{leads} is not below an allowed folder "
            f"({', '.join(shown(root) for root in self.roots)}): copy the file there, "
            "or allow its folder"
        )


class DocumentNotFoundError(DocumentError):
    """There is no such file, or it is not one that can be opened."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{shown(self.path)} cannot be opened: {self.reason}; check the name and the folder"


class EmptyDocumentError(DocumentError):
    """A document has no content at all."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{shown(self.name)} is empty (0 bytes of content): send the file again"


class DocumentTooLargeError(DocumentError):
    """A document needs more than a limit allows."""

    def __init__(self, name: str, what: str, value: int, limit: int, setting: str) -> None:
        super().__init__(name, what, value, limit, setting)
        self.name = name
        self.what = what
        self.value = value
        self.limit = limit
        self.setting = setting

    def __str__(self) -> str:
        value = f"{self.value:,}" if self.value >= 0 else "more"
        return (
            f"{shown(self.name)}: {value} {self.what}, over the limit of {self.limit:,}; "
            f"split the document, or raise {self.setting} if you trust it"
        )


class UnsupportedDocumentError(DocumentError):
    """A document is of a kind that is not read."""

    def __init__(self, name: str, found: str, supported: Sequence[str]) -> None:
        super().__init__(name, found, tuple(supported))
        self.name = name
        self.found = found
        self.supported = tuple(supported)

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} is {self.found}, which cannot be read; "
            f"convert it to one of {', '.join(self.supported)}"
        )


class WrongExtensionError(DocumentError):
    """The content of a document is of another kind than its name says."""

    def __init__(self, name: str, extension: str, found: str) -> None:
        super().__init__(name, extension, found)
        self.name = name
        self.extension = extension
        self.found = found

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} ends in {self.extension!r} but its content is {self.found}: "
            "give it the right extension, or check that it is the file you meant"
        )


class EncryptedDocumentError(DocumentError):
    """A password is needed to read a document."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name, kind)
        self.name = name
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} is an encrypted {self.kind.upper()} document: "
            "save a copy without a password and send that"
        )


class CorruptDocumentError(DocumentError):
    """The content of a document breaks the rules of its kind."""

    def __init__(self, name: str, kind: str, reason: str) -> None:
        super().__init__(name, kind, reason)
        self.name = name
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} is not a readable {self.kind.upper()} document: "
            f"{shorten(self.reason, 200)}; open it in its own program and save it again"
        )


class DocumentTimeoutError(DocumentError):
    """Reading a document took too long."""

    def __init__(self, name: str, limit_s: float, setting: str) -> None:
        super().__init__(name, limit_s, setting)
        self.name = name
        self.limit_s = limit_s
        self.setting = setting

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} was not read within {self.limit_s:g} s; "
            f"split the document, or raise {self.setting}"
        )


class MissingExtraError(DocumentError):
    """The library that reads this kind of document is not installed."""

    def __init__(self, name: str, kind: str, library: str) -> None:
        super().__init__(name, kind, library)
        self.name = name
        self.kind = kind
        self.library = library

    def __str__(self) -> str:
        extra = _EXTRAS.get(self.kind, "documents")
        return (
            f"{shown(self.name)}: reading {self.kind.upper()} documents needs {self.library}; "
            f"pip install 'threadbus[{extra}]'"
        )


_EXTRAS: Final = {
    "page": "web",
    "browser": "browser",
    "image": "ocr",
    "audio": "transcripts",
    "video": "transcripts",
}
"""Kind → the extra that reads it, where it is not ``documents``."""


class TranscriptionError(DocumentError):
    """The endpoint that hears recordings gives no transcript."""

    def __init__(self, name: str, model: str, reason: str) -> None:
        super().__init__(name, model, reason)
        self.name = name
        self.model = model
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shown(self.name)} was not transcribed by {shown(self.model)}: "
            f"{shorten(self.reason, 300)}; check BUS_TRANSCRIPTION_MODEL and "
            "BUS_TRANSCRIPTION_URL, or unset them to have it heard on this machine"
        )


class SandboxError(ToolError):
    """Code was not run, because it was not asked for rightly."""


class InvalidCodeError(SandboxError, ValueError):
    """Code is no text that can be run, or is too long."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the code cannot be run: {self.reason}"


class InvalidInputFileError(SandboxError, ValueError):
    """An input file cannot be given to the code."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"input file {shown(self.name)} cannot be given to the code: {self.reason}"


class ProcessError(ToolError):
    """A bounded process failed on our side."""


class ProcessStartError(ProcessError):
    """A bounded process could not be started."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(command, reason)
        self.command = command
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shown(self.command)} could not be started in a bounded process: "
            f"{shorten(self.reason, 300)}"
        )


class ProcessLostError(ProcessError):
    """A bounded process could not be ended; the kernel may hold it in a system call."""

    def __init__(self, pid: int, limit_s: float) -> None:
        super().__init__(pid, limit_s)
        self.pid = pid
        self.limit_s = limit_s

    def __str__(self) -> str:
        return (
            f"process {self.pid} did not end within {self.limit_s:g} s, kill included: "
            "look at what holds it (a hung network file system?) before trying again"
        )


def shown(value: str) -> str:
    """Return a name or address for a message: quoted, and not too long."""
    return repr(shorten(value, 120))
