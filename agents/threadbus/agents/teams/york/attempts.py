"""One attempt at a model: its text, and what was wrong with it, for the next one and for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from threadbus.agents.mention import Mention
from threadbus.schemas import Parts, shorten, text_of

DEFAULT_ATTEMPTS: Final = 5
MOST_ATTEMPTS: Final = 20
_FENCE: Final = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_MAX_FEEDBACK: Final = 20
_MAX_SUMMARY_CHARS: Final = 300
_MAX_SHOWN_CHARS: Final = 40_000


class Attempt(msgspec.Struct, frozen=True):
    """What came of one attempt."""

    number: int
    """From 1."""
    text: str
    """The model in Emfatic; empty where none was written."""
    by: str
    """Who found it wrong: ``syntax``, ``semantics``, or ``solution`` where none was written."""
    feedback: tuple[str, ...]

    def __str__(self) -> str:
        said = "; ".join(self.feedback[:_MAX_FEEDBACK])
        return f"attempt {self.number}, {self.by}: {shorten(said, _MAX_SUMMARY_CHARS)}"


def prompt_for(request: str, attempts: Sequence[Attempt]) -> str:
    """Return what the solution agent is asked: the request, and what was wrong the last time."""
    number = len(attempts) + 1
    if not attempts:
        return f"Attempt {number}.\n\n{request}"
    last = attempts[-1]
    lines = "\n".join(f"- {line}" for line in last.feedback[:_MAX_FEEDBACK])
    earlier = "".join(f"\n{attempt}" for attempt in attempts[:-1])
    before = f"\n\nWhat was wrong before that:{earlier}" if earlier else ""
    return (
        f"Attempt {number}.\n\n{request}\n\n"
        f"The last attempt was:\n```emfatic\n{_shown(last.text)}\n```\n"
        f"It was wrong by its {last.by}:\n{lines}{before}"
    )


def _shown(text: str) -> str:
    if len(text) <= _MAX_SHOWN_CHARS:
        return text
    return f"{text[:_MAX_SHOWN_CHARS]}\n(cut: {len(text):,} characters)"


async def whole_text(mention: Mention, parts: Parts | None = None) -> str:
    """Return what was said as text, also what is so long that it is in the object store."""
    said = mention.parts if parts is None else parts
    return text_of([await mention.bus.artifacts.load(part) for part in said])


def model_text(said: str) -> str:
    """Return the Emfatic text in what a model said: its last fenced block, or all of it."""
    blocks = _FENCE.findall(said)
    return (blocks[-1] if blocks else said).strip()


def json_object(data: object) -> dict[str, object]:
    """Return *data* where it is a JSON object, and an empty one where it is not."""
    return cast("dict[str, object]", data) if isinstance(data, dict) else {}
