"""Texts made comparable: what two messages share, and what a message admits or claims."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from threadbus.schemas import DataPart, FilePart, Part, ReferencePart, TextPart

MAX_COMPARED_CHARS: Final = 4_000
"""Characters of a text that are compared."""

_MAX_WORDS: Final = 400
_SHINGLE_WORDS: Final = 3
_SHINGLE_CHARS: Final = 5
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")
_IDS: Final = re.compile(r"\b[0-9a-f]{8}[0-9a-f-]{4,}\b")
_JSON: Final = msgspec.json.Encoder(order="sorted")

_ADMITS: Final = re.compile(
    r"\b(errors?|fail(s|ed|ure|ures|ing)?|could ?n[o']t|cannot|can't|unable|sorry"
    r"|not (able|possible|available|found|work)|didn't|did not|does not|doesn't"
    r"|unavailable|timed? ?out|exception|missing|unknown|invalid|no (result|data|answer)s?"
    r"|problem|gave up|without)\b",
    re.IGNORECASE,
)
_NOTHING_WRONG: Final = re.compile(
    r"\b(no|without( any)?|zero) (errors?|problems?|failures?|exceptions?|issues?|trouble)\b",
    re.IGNORECASE,
)
_CLAIMS: Final = re.compile(
    r"\b(tests? (all )?pass(ed|es)?|all tests|(have|has|been|was|were|is|are|i|we) (now )?"
    r"(double-?checked|verified|tested|validated)|verified by|successfully (ran|tested|verified)"
    r"|ran the (tests|code|program|script))\b",
    re.IGNORECASE,
)
_REFUSES: Final = re.compile(
    r"content[ _-]?(filter|policy|management)|responsible ?ai|"
    r"\b(i'm|i am) (sorry|unable)[^.]{0,40}\b(can'?t|cannot|unable|not able)\b|"
    r"\bi (can'?t|cannot|won't) (assist|help|comply|provide that)|guardrail|jailbreak|"
    r"blocked by (the |a )?(policy|safety)|safety (system|policy)",
    re.IGNORECASE,
)
_LIMITED: Final = re.compile(
    r"rate[ _-]?limit|too many requests|\b429\b|quota|overloaded|insufficient_quota",
    re.IGNORECASE,
)
# A search for a word costs a fraction of one by the patterns above.
_REFUSAL_WORDS: Final = (
    "content",
    "responsible",
    "sorry",
    "unable",
    "can't",
    "cant",
    "cannot",
    "won't",
    "guardrail",
    "jailbreak",
    "blocked",
    "safety",
)
_CLAIM_WORDS: Final = ("pass", "all tests", "verified", "checked", "tested", "validated", "ran ")
_TIMED_OUT: Final = re.compile(r"time[d]?[ _-]?out|deadline exceeded", re.IGNORECASE)
_MALFORMED: Final = re.compile(
    r"validation ?error|invalid (argument|parameter|json|call|tool|request|input)|malformed|"
    r"bad ?(tool ?)?argument|unknown ?(tool|function|argument)|no such tool|not a tool|"
    r"json ?decode|missing (\d+ )?required|unexpected keyword|required property|"
    r"does not match (the |its )?schema",
    re.IGNORECASE,
)


def norm(text: str) -> str:
    """Return *text* without what differs by accident: case, white space, long ids, the end."""
    flat = " ".join(text[:MAX_COMPARED_CHARS].lower().split()).rstrip(".!? ")
    return _IDS.sub("", flat) if _DIGIT.search(flat) else flat


def content_of(parts: Sequence[Part]) -> str:
    """Return what tells the content of *parts* apart from another."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    pieces: list[str] = []
    for part in parts:
        match part:
            case TextPart():
                pieces.append(part.text)
            case ReferencePart():
                pieces.append(part.sha256)
            case FilePart():
                pieces.append(str(hash(part.content)))
            case DataPart():
                pieces.append(encoded(part.data))
    return "\n".join(pieces)


def encoded(value: object) -> str:
    """Return *value* as JSON with its keys in order, at most so much of it as is compared."""
    return _JSON.encode(value)[:MAX_COMPARED_CHARS].decode("utf-8", "replace")


def shingles(text: str) -> frozenset[int]:
    """Return the overlapping runs of words of *text*; of characters where it has few spaces."""
    flat = norm(text)
    words = _WORD.findall(flat)[:_MAX_WORDS]
    if len(words) * 15 < len(flat):
        return frozenset(
            [hash(flat[at : at + _SHINGLE_CHARS]) for at in range(len(flat) - _SHINGLE_CHARS + 1)]
        )
    if len(words) < _SHINGLE_WORDS:
        return frozenset([hash(flat)])
    return frozenset([hash(run) for run in zip(words, words[1:], words[2:], strict=False)])


def likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """Return how much two texts share, from 0 to 1 (Jaccard)."""
    if not one or not other:
        return 0.0
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def admits_failure(text: str) -> bool:
    """Whether *text* says that something did not work."""
    told = _NOTHING_WRONG.sub("", text[:MAX_COMPARED_CHARS])
    return _ADMITS.search(told) is not None


def claims_check(text: str) -> str:
    """Return the words with which *text* claims that something was tested; empty where it does
    not."""
    low = text[:MAX_COMPARED_CHARS].lower()
    if not any(word in low for word in _CLAIM_WORDS):
        return ""
    found = _CLAIMS.search(text, 0, MAX_COMPARED_CHARS)
    return "" if found is None else found[0]


def refuses(text: str) -> bool:
    """Whether *text* tells of a refusal or a content filter."""
    low = text[:MAX_COMPARED_CHARS].lower()
    if not any(word in low for word in _REFUSAL_WORDS):
        return False
    return _REFUSES.search(text, 0, MAX_COMPARED_CHARS) is not None


def trouble_of(error: str) -> str:
    """Return from where outside *error* came; empty where it did not."""
    if _LIMITED.search(error, 0, MAX_COMPARED_CHARS):
        return "a rate limit"
    if refuses(error):
        return "a refusal or content filter"
    return "a time limit" if _TIMED_OUT.search(error, 0, MAX_COMPARED_CHARS) else ""


def is_malformed(text: str) -> bool:
    """Whether *text*, an error, says that a call did not have the form that it must have."""
    return _MALFORMED.search(text, 0, MAX_COMPARED_CHARS) is not None
