"""The sheet that a judge is given: what happened, what was found, and who is suspected.

Computed from the log and bounded; texts are what agents, models and tools wrote, so they stand in
it as JSON strings, which cannot end the sheet or begin anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from threadbus.replay.finding import Finding, Suspect
from threadbus.replay.findings.analyser import Analysis
from threadbus.replay.story import AnyStep, Timeline, Turn
from threadbus.replay.text import first_line
from threadbus.replay.words import words_of

MAX_SHEET_CHARS: Final = 24_000
"""Characters of a sheet."""

_MAX_TEXT_CHARS: Final = 240
_MAX_FINDINGS: Final = 40
_NEAR: Final = 3
_ENDS: Final = 12
_JSON: Final = msgspec.json.Encoder()


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the sheet."""

    seq: int
    ms: int
    """Milliseconds since the start of the run."""
    agent: str
    thread: str
    did: str
    text: str = ""


class Sheet(msgspec.Struct, frozen=True):
    """What a judge is shown."""

    question: str
    status: str
    answer: str
    agents: tuple[str, ...]
    findings: tuple[dict[str, object], ...]
    suspects: tuple[dict[str, object], ...]
    steps: tuple[Step, ...]
    steps_left_out: int

    def encode(self) -> str:
        """Return the sheet as text."""
        return _JSON.encode(self).decode()


def sheet_of(timeline: Timeline, analysis: Analysis, most: int = MAX_SHEET_CHARS) -> Sheet:
    """Return the sheet of a run.

    Args:
        timeline: the run.
        analysis: what the detectors found in it.
        most: characters that it may have; steps far from every finding are left out first.
    """
    steps = sorted(_steps(timeline), key=lambda step: step.seq)
    answer = timeline.answer
    head = Sheet(
        question=first_line(timeline.question or timeline.title, 1_500),
        status=timeline.status,
        answer="" if answer is None else first_line(answer.text, 1_500),
        agents=tuple(list(timeline.agents)[:64]),
        findings=tuple(_finding(one) for one in analysis.findings[:_MAX_FINDINGS]),
        suspects=tuple(_suspect(one) for one in analysis.suspects),
        steps=(),
        steps_left_out=0,
    )
    left = most - len(head.encode())
    kept: set[int] = set()
    for index in _by_weight(steps, analysis):
        size = len(_JSON.encode(steps[index])) + 1
        if size > left:
            break
        left -= size
        kept.add(index)
    return msgspec.structs.replace(
        head,
        steps=tuple(steps[index] for index in sorted(kept)),
        steps_left_out=len(steps) - len(kept),
    )


def _by_weight(steps: list[Step], analysis: Analysis) -> Iterator[int]:
    """Return places in the list, those that matter most first, each once."""
    places = {step.seq: index for index, step in enumerate(steps)}
    named = [finding.seq for finding in analysis.findings]
    named = [suspect.seq for suspect in analysis.suspects] + named
    around = [places[seq] for seq in named if seq in places]
    order = [*around]
    for reach in range(1, _NEAR + 1):
        order += [place + step for place in around for step in (-reach, reach)]
    order += [*range(_ENDS), *range(len(steps) - _ENDS, len(steps)), *range(len(steps))]
    done: set[int] = set()
    for index in order:
        if 0 <= index < len(steps) and index not in done:
            done.add(index)
            yield index


def _steps(timeline: Timeline) -> Iterator[Step]:
    start = timeline.opened_at or timeline.first_at
    done: set[int] = set()
    for thread in timeline.threads.values():
        for entry in thread.entries:
            steps: list[AnyStep] = entry.steps if isinstance(entry, Turn) else [entry]
            for step in steps:
                if step.seq in done:
                    continue
                done.add(step.seq)
                words = words_of(step, timeline)
                yield Step(
                    step.seq,
                    max(step.at - start, 0) // 1_000_000,
                    step.agent,
                    step.thread,
                    first_line(words.verb, 120),
                    first_line(words.text, _MAX_TEXT_CHARS),
                )


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "seq": finding.seq,
        "detector": finding.detector,
        "kind": finding.kind.value,
        "agent": finding.agent,
        "text": first_line(finding.text, _MAX_TEXT_CHARS),
    }


def _suspect(suspect: Suspect) -> dict[str, object]:
    return {"seq": suspect.seq, "agent": suspect.agent, "score": suspect.score}
