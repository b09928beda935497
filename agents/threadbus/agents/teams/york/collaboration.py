"""The collaboration agent: has a model written, checked and judged, until it is right."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from threadbus.agents.agent import Agent, AgentLimits
from threadbus.agents.errors import GiveUpError, InvalidSettingError
from threadbus.agents.mention import Mention
from threadbus.agents.teams.york.attempts import (
    DEFAULT_ATTEMPTS,
    MOST_ATTEMPTS,
    Attempt,
    json_object,
    model_text,
    prompt_for,
    whole_text,
)
from threadbus.agents.teams.york.emfatic import Package, check, to_ecore, to_mermaid
from threadbus.agents.teams.york.solution import LONGEST_TURN, MEDIA_TYPE
from threadbus.bus import AssignmentResult
from threadbus.schemas import DataPart, FilePart, Part, Skill, TextPart

VARIABLE: Final = "BUS_YORK_ATTEMPTS"
RECORD: Final = "attempts.json"
"""The artifact with every attempt, where none was right."""

agent = Agent(
    "collaboration",
    display_name="Collaboration",
    description="Has a domain model written, checked by form and meaning, and refined.",
    skills=[
        Skill(
            id="make-model",
            name="Make a domain model",
            description="From a description to a validated Ecore model, in several attempts.",
            tags=("modelling", "ecore", "coordination"),
            examples=("Model a library with books and writers",),
        )
    ],
    output_modes=("text/plain", MEDIA_TYPE, "application/xmi+xml", "text/vnd.mermaid"),
    limits=AgentLimits(turn_timeout=MOST_ATTEMPTS * LONGEST_TURN),
)


@agent.on_mention
async def collaborate(mention: Mention) -> list[Part]:
    """Make one model, or fail with what was wrong with every attempt."""
    most = attempts_allowed()
    await _gather(mention)
    request = await whole_text(mention)
    attempts: list[Attempt] = []
    while len(attempts) < most:
        await mention.progress(f"attempt {len(attempts) + 1} of at most {most}")
        found = await _attempt(mention, request, attempts)
        if isinstance(found, Attempt):
            attempts.append(found)
        else:
            return await _hand_over(mention, found, attempts)
    record = FilePart(msgspec.json.encode(attempts), RECORD, "application/json")
    await mention.save(RECORD, record, description="every attempt, with what was wrong with it")
    said = "\n".join(str(attempt) for attempt in attempts)
    raise GiveUpError(f"no valid model after {len(attempts)} attempts (all in {RECORD})\n{said}")


def attempts_allowed() -> int:
    """Return how many attempts are made at most.

    Raises:
        InvalidSettingError: the variable is no number from 1 to :data:`MOST_ATTEMPTS`.
    """
    text = os.environ.get(VARIABLE, "") or str(DEFAULT_ATTEMPTS)
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_ATTEMPTS))
    count = int(text) if is_short else 0
    if not 1 <= count <= MOST_ATTEMPTS:
        raise InvalidSettingError(VARIABLE, text, f"it is a number from 1 to {MOST_ATTEMPTS}")
    return count


async def _gather(mention: Mention) -> None:
    """Let the others take part, where whoever asked named only this agent."""
    present = (await mention.participants()).participants
    for name in ("solution", "syntax", "semantics"):
        if name not in present:
            await mention.bus.threads.add(mention.task, mention.thread, name)


@dataclass(frozen=True)
class _Model:
    """A model in which nothing is wrong."""

    text: str
    package: Package


async def _attempt(mention: Mention, request: str, before: list[Attempt]) -> Attempt | _Model:
    """Make one attempt; what was wrong with it, or the model."""
    number = len(before) + 1
    made = await mention.assign(
        "solution",
        prompt_for(request, before),
        title=f"Attempt {number}",
        # A person may be asked in it.
        timeout=LONGEST_TURN,
    )
    if not made.ok:
        return Attempt(number, "", "solution", (made.text or "it gave the attempt up",))
    text = await _model_of(mention, made)
    syntax = await mention.assign(
        "syntax",
        [TextPart("Check this model."), FilePart(text.encode(), "model.emf", MEDIA_TYPE)],
        title=f"Check the form of attempt {number}",
    )
    problems = _lines(syntax, "problems")
    # Parsing takes a while, and the lease of this turn has to be kept.
    package = (await mention.call(check, text)).package
    if not syntax.ok or problems or package is None:
        return Attempt(number, text, "syntax", problems or (syntax.text,))
    judged = await mention.assign(
        "semantics",
        [
            TextPart(f"The request:\n{request}\n\nThe model:\n```emfatic\n{text}\n```"),
            DataPart({"result": made.event.id}),
        ],
        title=f"Judge attempt {number}",
    )
    if not judged.ok or _data(judged).get("ok") is not True:
        return Attempt(number, text, "semantics", _lines(judged, "reasons") or (judged.text,))
    return _Model(text, package)


async def _model_of(mention: Mention, made: AssignmentResult) -> str:
    for part in made.parts:
        loaded = await mention.bus.artifacts.load(part)
        if isinstance(loaded, FilePart) and loaded.media_type == MEDIA_TYPE:
            return loaded.content.decode("utf-8", "replace")
    return model_text(await whole_text(mention, made.parts))


async def _hand_over(mention: Mention, model: _Model, before: list[Attempt]) -> list[Part]:
    """Save the model in its three forms, and answer."""
    text, package, name = model.text, model.package, model.package.name
    ecore: bytes = await mention.call(to_ecore, package)
    files = [
        FilePart(text.encode(), f"{name}.emf", MEDIA_TYPE),
        FilePart(ecore, f"{name}.ecore", "application/xmi+xml"),
        FilePart(to_mermaid(package).encode(), f"{name}.mmd", "text/vnd.mermaid"),
    ]
    for file in files:
        await mention.save(file.name, file)
    classes = [one.name for inner in package.walk() for one in inner.classes()]
    earlier = "".join(f"\n- {attempt}" for attempt in before)
    refined = f"\nBefore that:{earlier}" if earlier else ""
    number = len(before) + 1
    return [
        TextPart(
            f"The model {name} is valid in form and meaning after attempt {number}. "
            f"{len(classes)} classes: {', '.join(classes)}.{refined}\n\n{text}"
        ),
        *files,
    ]


def _data(result: AssignmentResult) -> dict[str, object]:
    for part in result.parts:
        if isinstance(part, DataPart):
            return json_object(part.data)
    return {}


def _lines(result: AssignmentResult, key: str) -> tuple[str, ...]:
    """Return what a supervisor found, as sentences."""
    found = _data(result).get(key)
    if not isinstance(found, list):
        return ()
    return tuple(_line(one) for one in cast("list[object]", found))


def _line(found: object) -> str:
    problem = json_object(found)
    if not problem:
        return str(found)
    where = f"line {problem.get('line')}, column {problem.get('column')}"
    return f"{where}: {problem.get('message')}"
