"""docs/busreplay.md leaves nothing out, and its JSON Schema describes what is written."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.main import get_command

from tests.support.json_schema import NotValidError, draft_2020_12
from tests.support.runs import revenue_run, troubled_run
from tests.support.story import Story
from threadbus.replay import (
    FailureStep,
    FileSource,
    ModelStep,
    SaidStep,
    ThreadStory,
    Timeline,
    TimelineFold,
    ToolStep,
    Totals,
    Turn,
    TurnOutcome,
    find_task,
    fold,
)
from threadbus.replay.cli import VERBS, app
from threadbus.replay.show import Format
from threadbus.replay.terminal import ExitCode

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "busreplay.md").read_text(encoding="utf-8")
SHARED_BY_STEPS = {"seq", "id", "at", "agent", "thread", "cause"}
IN_OTHER_WORDS = {"input_tokens", "output_tokens", "cached_tokens"}


def test_every_option_is_described() -> None:
    """The command has no option that the page is silent about."""
    options = {
        option
        for parameter in get_command(app).params
        for option in (*parameter.opts,)
        if "-" in option
    }
    assert len(options) > 8
    general = {"--version", "--install-completion", "--show-completion"}
    assert {option for option in options - general if f"`{option}" not in TEXT} == set()


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_and_its_options_are_described(verb: str) -> None:
    """Each has a section that leaves out no option of its own."""
    command = get_command(importlib.import_module(VERBS[verb].module).app)
    own = {option for parameter in command.params for option in parameter.opts if "--" in option}
    general = {"--install-completion", "--show-completion"}
    _, _, rest = TEXT.partition(f": `busreplay {verb}`\n")
    if not rest:
        # It is described with what it writes.
        _, _, rest = TEXT.partition(f"`busreplay {verb} ")
    section = rest.partition("\n## ")[0]

    assert section
    shared = set(re.findall(r"`(--[a-z-]+)", TEXT.partition("## The tree")[0]))
    described = set(re.findall(r"(--[a-z-]+)", section)) | {"--output"}
    assert own - general - shared - described == set()


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_described(code: ExitCode) -> None:
    """Each has a row in the table."""
    assert f"\n| {code.value} | " in TEXT


@pytest.mark.parametrize("form", list(Format))
def test_every_format_is_described(form: Format) -> None:
    """Each has a row in the table."""
    assert f"`--format {form.value}`" in TEXT


@pytest.mark.parametrize(
    "kind", [Timeline, Totals, ThreadStory, Turn, ModelStep, ToolStep, FailureStep, SaidStep]
)
def test_every_field_of_the_document_is_described(kind: type[msgspec.Struct]) -> None:
    """What a program may read of the document has a word on the page."""
    fields = set(kind.__struct_fields__) - SHARED_BY_STEPS - IN_OTHER_WORDS
    assert {field for field in fields if f"`{field}`" not in TEXT} == set()


def test_every_outcome_is_described() -> None:
    """A turn ends in one of these."""
    assert [outcome for outcome in TurnOutcome if f"`{outcome.value}`" not in TEXT] == []


@pytest.mark.parametrize("run", [revenue_run, troubled_run])
def test_the_document_is_as_its_schema_says(run: Callable[[], Story]) -> None:
    """Any JSON Schema validator can check what is written."""
    schema = json.loads((ROOT / "docs" / "busreplay.schema.json").read_text(encoding="utf-8"))
    document = json.loads(msgspec.json.encode(fold(run().log)))

    validator = draft_2020_12(schema)
    validator.validate(document)
    with pytest.raises(NotValidError):
        validator.validate({**document, "totals": {"events": "many"}})


async def test_the_example_run_is_whole() -> None:
    """The run that ships with the examples can be read for ever."""
    source = FileSource(ROOT / "examples" / "replay" / "report-run.jsonl")
    folding = TimelineFold()
    async for item in source.read(await find_task(source, "")):
        folding.apply(item)
    timeline = folding.timeline

    assert (timeline.totals.events, timeline.totals.unreadable) == (41, 0)
    assert (timeline.status, timeline.unknown_types) == ("completed", {})
    assert timeline.answer is not None
    assert "185,310" in timeline.answer.text
