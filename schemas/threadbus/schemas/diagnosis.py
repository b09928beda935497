"""Say what in a value JSON cannot carry, and where it is; runs only once something is wrong.

msgspec quietly turns some values into other ones (NaN into null, bytes into base64 text, the key 1
into "1") and refuses others without saying where they are. Here such a value is looked for, so that
the error can name its path and the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import msgspec

from threadbus.schemas.errors import (
    InvalidTextError,
    LimitExceededError,
    NotJsonError,
    SchemaError,
    shorten,
)
from threadbus.schemas.limits import MAX_INTEGER_DIGITS

_ENCODER: Final = msgspec.json.Encoder()
_CONVERT: Final = "convert it to null, true, false, a number, a string, a list or a dictionary"
_DIGITS_PER_BIT: Final = 0.30103


def member_path(where: str, key: str) -> str:
    """Return the path of the member *key* of the object at *where*."""
    text = shorten(key, 40)
    return f"{where}.{text}" if text.isidentifier() else f"{where}['{text}']"


def _children(value: object, where: str) -> Iterator[tuple[str, object]]:
    """Yield what *value* is made of, each with its path; a key comes before what it leads to."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield f"{where}.{field}", getattr(value, field)
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            yield f"a key of {where}", key
            yield member_path(where, str(key)), item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            yield f"{where}[{index}]", item


def find_text(value: object, where: str, character: str) -> tuple[str, int] | None:
    """Find the first text in *value* that holds *character*.

    Returns:
        The path of the text and the index in it, or nothing.
    """
    if isinstance(value, str):
        index = value.find(character)
        return (where, index) if index >= 0 else None
    for path, child in _children(value, where):
        found = find_text(child, path, character)
        if found is not None:
            return found
    return None


def why_not_encoded(value: object, where: str, error: Exception) -> SchemaError:
    """Explain why *value* does not encode: follow *error* to the innermost value that causes it.

    A loop and not recursion, because such a value may be nested as deep as Python allows.
    """
    while True:
        for path, child in _children(value, where):
            problem = _encoding_error(child)
            if problem is not None:
                value, where, error = child, path, problem
                break
        else:
            return _unencodable(value, where, error)


def _encoding_error(value: object) -> Exception | None:
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError) as error:
        return error
    return None


def _unencodable(value: object, where: str, error: Exception) -> SchemaError:
    if isinstance(error, UnicodeEncodeError):
        return InvalidTextError(where, ord(error.object[error.start]), error.start)
    if isinstance(value, int):
        digits = int(value.bit_length() * _DIGITS_PER_BIT) + 1
        return LimitExceededError(
            f"digits of {where}", digits, MAX_INTEGER_DIGITS, "send the number as a string"
        )
    problem = _key_problem(value, where)
    return _not_json(value, where) if problem is None else problem


def _not_json(value: object, where: str) -> NotJsonError:
    if isinstance(value, float):
        return NotJsonError(where, str(value), "send null or a string")
    if isinstance(value, bytes | bytearray | memoryview):
        return NotJsonError(where, "bytes", "send them as a file part")
    return NotJsonError(where, f"of the type {type(value).__name__}", _CONVERT)


def _key_problem(value: object, where: str) -> NotJsonError | None:
    for key in cast("dict[object, object]", value) if isinstance(value, dict) else ():
        if not isinstance(key, str):
            found = f"{shorten(repr(key), 40)} ({type(key).__name__})"
            return NotJsonError(f"a key of {where}", found, "make it a string")
    return None


def why_changed(before: object, after: object, where: str) -> SchemaError | None:
    """Explain how *after*, which is what a reader gets, differs from *before*.

    A list in place of a tuple is no difference.
    """
    if before == after:
        return None
    problem = _key_problem(before, where)
    if problem is not None:
        return problem
    shape = _shape(before)
    if shape is None or shape is not _shape(after):
        return _not_json(before, where)
    pairs = zip(_children(before, where), _children(after, where), strict=False)
    changes = (why_changed(one, other, path) for (path, one), (_, other) in pairs)
    return next((change for change in changes if change is not None), None)


def _shape(value: object) -> type | None:
    """Return which kind of container *value* is, or nothing."""
    if isinstance(value, msgspec.Struct):
        return type(value)
    if isinstance(value, dict):
        return dict
    return list if isinstance(value, list | tuple) else None
