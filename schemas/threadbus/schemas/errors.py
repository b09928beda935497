"""What can be wrong with an event before it reaches a server.

    ThreadbusError                      the root of every error of this project
    └── SchemaError                     an event, id, name or subject breaks the rules
        ├── InvalidIdError              an id that is not 32 lower-case hex digits
        ├── InvalidNameError            an agent name or thread id outside the grammar
        ├── InvalidTextError            text that JSON or a terminal cannot carry
        ├── InvalidSubjectError         a subject that is not one of ours
        ├── NotJsonError                a value that JSON would change or cannot hold
        ├── LimitExceededError          a count or a size above a named limit
        ├── MalformedEventError         bytes that are not an event
        └── SubjectMismatchError        a body that disagrees with the subject it came on

Each leaf carries what went wrong as attributes and builds its own message, which names the value,
the limit and the way out.
"""

from __future__ import annotations

from typing import Final

_ID_FORM: Final = "32 lower-case hex digits, the last 16 not all zero (a UUIDv7 without dashes)"
_HEX_DIGITS: Final = frozenset("0123456789abcdef")


def shorten(value: str, limit: int = 80) -> str:
    """Return *value* for a message: no control characters, at most *limit* characters."""
    head = value[: limit + 1]
    shown = head if head.isprintable() else ascii(head)[1:-1]
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _quote(value: str, limit: int = 80) -> str:
    """Quote *value* for a message; unlike ``repr`` it does not escape what is escaped already."""
    return f"'{shorten(value, limit)}'"


class ThreadbusError(Exception):
    """The root of every error that threadbus raises."""


class SchemaError(ThreadbusError, ValueError):
    """An event, id, name or subject breaks the rules."""


class InvalidIdError(SchemaError):
    """A task or event id is not 32 lower-case hex digits.

    Attributes:
        what: which id.
        value: what was given.
    """

    def __init__(self, what: str, value: str) -> None:
        super().__init__(what, value)
        self.what = what
        self.value = value

    def __str__(self) -> str:
        hint = f"; '{self.suggestion}' would do" if self.suggestion else ""
        return f"{self.what} {_quote(self.value)} is not an id: an id is {_ID_FORM}{hint}"

    @property
    def suggestion(self) -> str:
        """The id in the right form where only its case or dashes are wrong, else nothing."""
        plain = self.value[:64].strip().lower().replace("-", "")
        is_id = len(plain) == 32 and _HEX_DIGITS.issuperset(plain) and plain[16:] != 16 * "0"
        return plain if is_id and plain != self.value else ""


class InvalidNameError(SchemaError):
    """An agent name or a thread id is outside the grammar.

    Attributes:
        what: which name.
        value: what was given.
        suggestion: a name that would do, if one is known.
    """

    def __init__(self, what: str, value: str, suggestion: str = "") -> None:
        super().__init__(what, value, suggestion)
        self.what = what
        self.value = value
        self.suggestion = suggestion

    def __str__(self) -> str:
        hint = f"; '{self.suggestion}' would do" if self.suggestion else ""
        return (
            f"{self.what} {_quote(self.value)} is not valid: 1 to 63 characters, "
            f"a-z, 0-9, '_' and '-', starting with a letter or digit{hint}"
        )


class InvalidTextError(SchemaError):
    """Text holds a character that cannot travel.

    Attributes:
        what: which text.
        codepoint: the character, as a number.
        position: its index in the text, from 0; -1 when it is not known.
    """

    def __init__(self, what: str, codepoint: int, position: int) -> None:
        super().__init__(what, codepoint, position)
        self.what = what
        self.codepoint = codepoint
        self.position = position

    def __str__(self) -> str:
        kind = "NUL" if self.codepoint == 0 else "a lone surrogate"
        where = f" at character {self.position}" if self.position >= 0 else ""
        return (
            f"{self.what} holds U+{self.codepoint:04X} ({kind}){where}: remove it "
            "(clean_text does), or send the bytes as a file part"
        )


class InvalidSubjectError(SchemaError):
    """A subject is not one that threadbus builds.

    Attributes:
        subject: what was given.
        reason: what is wrong with it.
        form: how such a subject looks.
    """

    def __init__(
        self,
        subject: str,
        reason: str,
        form: str = "bus.<task>.<thread>.<class>.<sender>[.<mention>…]",
    ) -> None:
        super().__init__(subject, reason, form)
        self.subject = subject
        self.reason = reason
        self.form = form

    def __str__(self) -> str:
        return (
            f"subject {_quote(self.subject, 200)} is not valid: {self.reason}; "
            f"the form is {self.form}"
        )


class NotJsonError(SchemaError):
    """A value would arrive changed, or JSON cannot hold it at all.

    Attributes:
        what: where it is.
        found: what is there.
        way_out: what to send instead.
    """

    def __init__(self, what: str, found: str, way_out: str) -> None:
        super().__init__(what, found, way_out)
        self.what = what
        self.found = found
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.what} is {self.found}, which JSON cannot carry as it is: {self.way_out}"


class LimitExceededError(SchemaError):
    """A count or a size is above its limit.

    Attributes:
        what: what was counted.
        value: how many or how much there is.
        limit: how many or how much there may be, inclusive.
        way_out: what to do instead.
    """

    def __init__(self, what: str, value: int, limit: int, way_out: str) -> None:
        super().__init__(what, value, limit, way_out)
        self.what = what
        self.value = value
        self.limit = limit
        self.way_out = way_out

    def __str__(self) -> str:
        value = shorten(f"{self.value:,}")
        return f"{self.what}: {value} is over the limit of {self.limit:,}; {self.way_out}"


class MalformedEventError(SchemaError):
    """Bytes are not an event, or not a registry entry.

    Attributes:
        reason: what is wrong.
        preview: how the bytes start, printable.
        what: what they should have been.
    """

    def __init__(self, reason: str, preview: str = "", what: str = "event") -> None:
        super().__init__(reason, preview, what)
        self.reason = reason
        self.preview = preview
        self.what = what

    def __str__(self) -> str:
        seen = f" (starts with {_quote(self.preview)})" if self.preview else ""
        return f"not a valid {self.what}: {shorten(self.reason, 500)}{seen}"


class SubjectMismatchError(SchemaError):
    """The body says something else than the subject it came on.

    Attributes:
        field: which part of the envelope differs.
        in_subject: what the subject says.
        in_body: what the body says.
    """

    def __init__(self, field: str, in_subject: str, in_body: str) -> None:
        super().__init__(field, in_subject, in_body)
        self.field = field
        self.in_subject = in_subject
        self.in_body = in_body

    def __str__(self) -> str:
        return (
            f"subject and body disagree: {self.field} is {_quote(self.in_subject)} in the "
            f"subject and {_quote(self.in_body)} in the body; both must be the same"
        )
