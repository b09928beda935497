"""What can be wrong with an event before it reaches a server.

    ThreadbusError                      the root of every error of this project
    └── SchemaError                     an event, id, name or subject breaks the rules
        ├── InvalidIdError              an id that is not 32 lower-case hex digits
        ├── InvalidNameError            an agent name or thread id outside the grammar
        ├── InvalidTextError            text that JSON or a terminal cannot carry
        ├── InvalidSubjectError         a subject that is not one of ours
        ├── LimitExceededError          a count or a size above a named limit
        ├── MalformedEventError         bytes that are not an event
        └── SubjectMismatchError        a body that disagrees with the subject it came on

Each leaf carries what went wrong as attributes and builds its own message, which names the value,
the limit and the way out.
"""

from __future__ import annotations


def shorten(value: str, limit: int = 80) -> str:
    """Return *value* for a message: printable ASCII-safe, at most *limit* characters."""
    shown = value if value.isprintable() else ascii(value)[1:-1]
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


class ThreadbusError(Exception):
    """The root of every error that threadbus raises."""


class SchemaError(ThreadbusError, ValueError):
    """An event, id, name or subject breaks the rules."""


class InvalidIdError(SchemaError):
    """A task or event id is not 32 lower-case hex digits."""

    def __init__(self, what: str, value: str) -> None:
        super().__init__(what, value)
        self.what = what
        self.value = value

    def __str__(self) -> str:
        return (
            f"{self.what} {shorten(self.value)!r} is not an id: "
            "an id is 32 lower-case hex digits (a UUIDv7 without dashes)"
        )


class InvalidNameError(SchemaError):
    """An agent name or a thread id is outside the grammar."""

    def __init__(self, what: str, value: str, suggestion: str = "") -> None:
        super().__init__(what, value, suggestion)
        self.what = what
        self.value = value
        self.suggestion = suggestion

    def __str__(self) -> str:
        hint = f"; {self.suggestion!r} would do" if self.suggestion else ""
        return (
            f"{self.what} {shorten(self.value)!r} is not valid: 1 to 63 characters, "
            f"a-z, 0-9, '_' and '-', starting with a letter or digit{hint}"
        )


class InvalidTextError(SchemaError):
    """Text holds a character that cannot travel."""

    def __init__(self, what: str, codepoint: int, position: int) -> None:
        super().__init__(what, codepoint, position)
        self.what = what
        self.codepoint = codepoint
        self.position = position

    def __str__(self) -> str:
        kind = "NUL" if self.codepoint == 0 else "a lone surrogate"
        where = f" at character {self.position}" if self.position >= 0 else ""
        return (
            f"{self.what} holds U+{self.codepoint:04X} ({kind}){where}: remove it, "
            "or send the bytes as a file part"
        )


class InvalidSubjectError(SchemaError):
    """A subject is not one that threadbus builds."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(subject, reason)
        self.subject = subject
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"subject {shorten(self.subject, 200)!r} is not valid: {self.reason}; "
            "the form is bus.<task>.<thread>.<class>.<sender>[.<mention>…]"
        )


class LimitExceededError(SchemaError):
    """A count or a size is above its limit."""

    def __init__(self, what: str, value: int, limit: int, way_out: str) -> None:
        super().__init__(what, value, limit, way_out)
        self.what = what
        self.value = value
        self.limit = limit
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.what}: {self.value:,} is over the limit of {self.limit:,}; {self.way_out}"


class MalformedEventError(SchemaError):
    """Bytes are not an event."""

    def __init__(self, reason: str, preview: str = "") -> None:
        super().__init__(reason, preview)
        self.reason = reason
        self.preview = preview

    def __str__(self) -> str:
        seen = f" (starts with {self.preview!r})" if self.preview else ""
        return f"not an event: {self.reason}{seen}"


class SubjectMismatchError(SchemaError):
    """The body says something else than the subject it came on."""

    def __init__(self, field: str, in_subject: str, in_body: str) -> None:
        super().__init__(field, in_subject, in_body)
        self.field = field
        self.in_subject = in_subject
        self.in_body = in_body

    def __str__(self) -> str:
        return (
            f"subject and body disagree: {self.field} is {shorten(self.in_subject)!r} in the "
            f"subject and {shorten(self.in_body)!r} in the body; both must be the same"
        )
