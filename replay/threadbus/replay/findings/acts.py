"""What was done step by step, condensed to what tells a step that goes wrong from others."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFinished,
    AssignmentMade,
    CritiqueGiven,
    MessagePosted,
    PlanProposed,
    PlanRevised,
    ToolCalled,
    ToolReturned,
)

MAX_ACTS: Final = 2_000
"""Acts of one run that are kept; later ones are not ranked."""

MAX_CHARS: Final = 20_000
"""Characters of one act that are looked at."""

MARKS: Final = {
    "invents": re.compile(
        r"\b(assum(e|es|ed|ing|ption|ptions)|hypothetical|simulat\w+|placeholders?|mock(ed)?"
        r"|dummy|sample data|example data|fictional|made[- ]up|for (the )?(sake|purpose)s? of"
        r"|your_api_key|your_\w+_key)\b",
        re.IGNORECASE,
    ),
    "doubts": re.compile(
        r"\b(however|incorrect(ly)?|mistakes?|wrong|error|errors|issues?|apologi[sz]e|sorry"
        r"|discrepanc\w+|inconsisten\w+|not (correct|accurate|found|able|possible)"
        r"|fail(ed|s|ure)?|unable|did ?n[o']t|does ?n[o']t|could ?n[o']t|cannot|can't)\b",
        re.IGNORECASE,
    ),
    "broken": re.compile(
        r"exitcode: -?[1-9]|execution failed|traceback \(most recent|unknown language",
        re.IGNORECASE,
    ),
    "concludes": re.compile(
        r"\b(conclu\w+|final (answer|result|output)|therefore|thus|in summary|to summari[sz]e"
        r"|the answer is|confirm(s|ed)?|verified|correct(ly)?|accurate(ly)?|as expected)\b",
        re.IGNORECASE,
    ),
    "hands": re.compile(
        r"\b(manual(ly)?|please (share|provide|run|execute|let me know|confirm|verify)"
        r"|let me know|could you|can you|would you)\b",
        re.IGNORECASE,
    ),
    "knows": re.compile(
        r"\b(based on|according to|known|i (found|identified|recall|know|have (found|identified))"
        r"|here (is|are)|the following|as follows|are:|is:)\b|:\s*$",
        re.IGNORECASE | re.MULTILINE,
    ),
}
"""Words by which an act is told: what it says of itself, or of others."""

_DIGITS: Final = re.compile(r"\d")
_CODE: Final = re.compile(r"```.*?(```|\Z)", re.DOTALL)
_END: Final = re.compile(r"TERMINATE\W*\Z")
_EMPTY: Final = re.compile(
    r"\s*(exitcode: 0[^\n]*\n)?\s*(code output:)?\s*(\[\]|none|null|nan|\{\}|0|.{0,60}"
    r"\b(not|no|none|n/a|unavailable)\b.{0,60})?\s*\Z",
    re.IGNORECASE,
)
_SPOKEN: Final = (
    AnswerSubmitted,
    AssignmentFinished,
    AssignmentMade,
    CritiqueGiven,
    MessagePosted,
    PlanProposed,
    PlanRevised,
)


class Act(msgspec.Struct, gc=False):
    """One thing said, or what a tool brought."""

    ref: Ref
    agent: AgentName
    is_tool: bool = False
    is_error: bool = False
    is_empty: bool = False
    """Of a tool: it worked and brought nothing."""
    no_code: bool = False
    """Of a tool: there was nothing to run."""
    chars: int = 0
    digits: int = 0
    has_code: bool = False
    """Whether it is, or holds, something for a tool to run."""
    ends: bool = False
    """Whether it says that all is done."""
    marks: dict[str, int] = {}


class Acts:
    """The acts of a run in order."""

    def __init__(self) -> None:
        self.all: list[Act] = []

    def take(self, seen: Seen) -> None:
        """Take the next event."""
        data = seen.event.data
        if len(self.all) >= MAX_ACTS:
            return
        if isinstance(data, ToolCalled):
            last = self.all[-1] if self.all else None
            if last is None or last.is_tool or last.agent != seen.event.sender:
                # A call without a word is an act of its own.
                self._spoken(seen, is_call=True)
        elif isinstance(data, ToolReturned):
            self._returned(seen, data)
        elif isinstance(data, _SPOKEN):
            self._spoken(seen)

    def _spoken(self, seen: Seen, *, is_call: bool = False) -> None:
        text = seen.content[:MAX_CHARS]
        words = _CODE.sub(" ", text)
        self.all.append(
            Act(
                ref=seen.ref,
                agent=seen.event.sender,
                chars=len(words),
                digits=len(_DIGITS.findall(words)),
                has_code=is_call or "```" in text,
                ends=_END.search(text) is not None,
                marks={name: len(mark.findall(text)) for name, mark in MARKS.items()},
            )
        )

    def _returned(self, seen: Seen, data: ToolReturned) -> None:
        text = seen.content[:MAX_CHARS]
        error = data.error
        self.all.append(
            Act(
                ref=seen.ref,
                agent=seen.event.sender,
                is_tool=True,
                is_error=error is not None and error.kind != "no code",
                no_code=error is not None and error.kind == "no code",
                is_empty=error is None and _EMPTY.match(text) is not None,
                chars=len(text),
            )
        )
