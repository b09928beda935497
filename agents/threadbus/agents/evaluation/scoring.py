"""Whether an answer is right: exact match, with numbers, lists and texts brought to one form.

Our own implementation of the rule that GAIA publishes. What is expected decides how it is
compared: a number as a number, without ``$``, ``%`` and thousands separators; something with ``,``
or ``;`` as a list, element by element and in order; anything else as a text without blanks, case
and punctuation.
"""

from __future__ import annotations

import math
import re
import string
from typing import Final

_MAX_CHARS: Final = 100_000
_MARK: Final = re.compile(r"final\s+answer\s*:", re.IGNORECASE)
_SIGNS: Final = str.maketrans("", "", "$%,")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_SEPARATOR: Final = re.compile("[,;]")
_NUMBER: Final = re.compile(
    r"\s*[-+]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][-+]?\d{1,3})?\s*", re.ASCII
)


def final_answer(text: str) -> str:
    """Return what counts of an answer: the line behind the last ``FINAL ANSWER:``, or all of it."""
    marks = list(_MARK.finditer(text[-_MAX_CHARS:]))
    if not marks:
        return text[:_MAX_CHARS].strip()
    after = text[-_MAX_CHARS:][marks[-1].end() :].strip()
    return after.split("\n", 1)[0].strip("*` \t\r")


def is_right(said: str, expected: str) -> bool:
    """Return whether an answer is what is expected.

    Args:
        said: the answer alone, see :func:`final_answer`.
        expected: what is right.
    """
    number = _number(expected)
    if number is not None:
        return _same_number(said, number)
    if _SEPARATOR.search(expected):
        return _same_list(said, expected)
    return _plain(said) == _plain(expected)


def _same_list(said: str, expected: str) -> bool:
    wanted, given = _SEPARATOR.split(expected), _SEPARATOR.split(said)
    return len(wanted) == len(given) and all(
        _same_element(one, other) for one, other in zip(given, wanted, strict=True)
    )


def _same_element(said: str, expected: str) -> bool:
    number = _number(expected)
    if number is not None:
        return _same_number(said, number)
    # In a list punctuation counts: it may be all that an element consists of.
    return _without_blanks(said) == _without_blanks(expected)


def _same_number(said: str, expected: float) -> bool:
    given = _number(said.translate(_SIGNS))
    return given is not None and given == expected


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    return _without_blanks(text).translate(_PUNCTUATION)


def _without_blanks(text: str) -> str:
    return "".join(text[:_MAX_CHARS].split()).lower()
