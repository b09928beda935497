"""The analysis as a whole: order, bounds, what it survives, and what it says of sound runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from tests.support.analysis import analyse, found
from tests.support.replay_logs import LOGS
from tests.support.runs import closed, revenue_run, troubled_run
from tests.support.story import Story
from threadbus.replay import FileSource, FindingKind, LogItem, find_task, fold
from threadbus.replay.findings import ALL, Analyser, Analysis, Detector, FindingSettings, Seen
from threadbus.schemas import DATA_TYPES, MessagePosted

ROOT = Path(__file__).parents[2]


def sound_chat() -> Story:
    """Return a long run of three agents in which nothing goes wrong."""
    story = Story()
    asked = story.open("planner", "coder", "document")
    done = asked
    for number in range(40):
        work = story.assign("planner", "coder", f"Sum the sheet of week {number}", asked)
        story.model("coder", work)
        story.tool("coder", work, "run_python", {"code": f"print({number})"}, f"It is {number}00.")
        done = story.finish("coder", work, f"Week {number} has {number}00.", to=("planner",))
        story.end("coder", work, worked_ms=1300)
        question = story.say(
            "planner", f"Does page {number} agree?", to=("document",), cause=asked, awaited=True
        )
        story.model("document", question)
        story.say("document", f"It does, in line {number}.", cause=question)
        story.end("document", question, worked_ms=1300)
    story.end("planner", done, worked_ms=5)
    story.close("planner", story.answer("planner", "They agree.", asked))
    story.end("planner", asked, worked_ms=90_000)
    return story


async def test_the_example_has_no_findings() -> None:
    """A real run of a demo, in which everything went well."""
    source = FileSource(ROOT / "examples" / "replay" / "report-run.jsonl")
    task = await find_task(source, "")
    items: list[LogItem] = [item async for item in source.read(task)]

    assert analyse(items) == Analysis()


@pytest.mark.parametrize("run", [revenue_run, sound_chat])
def test_a_sound_run_has_neither_violations_nor_symptoms(run: Callable[[], Story]) -> None:
    """Every prefix of it is sound, too, while it goes on."""
    log = run().log
    now = log[-1].stored_at
    for end in (*range(1, len(log), 7), len(log)):
        findings = analyse(log[:end], now=now if end == len(log) else log[end - 1].stored_at)
        kinds = {finding.kind for finding in findings.findings}
        assert kinds <= {FindingKind.HINT}, (end, findings.findings)


def test_a_troubled_run_is_told_in_the_order_of_its_log() -> None:
    """Findings are sorted, name events of the run, and the gravest is known."""
    run = closed(troubled_run())
    analysis = analyse(run)
    ids = {item.event.id for item in run.log}

    assert [one.seq for one in analysis.findings] == sorted(one.seq for one in analysis.findings)
    assert {event for one in analysis.findings for event in one.evidence} <= ids
    assert analysis.gravest is FindingKind.VIOLATION
    assert {"U1", "O2", "E2", "F2", "P3"} <= {one.detector for one in analysis.findings}


def test_texts_of_others_are_harmless_in_findings() -> None:
    """What a terminal would obey comes as escapes."""
    analysis = analyse(troubled_run())
    said = [finding.text for finding in analysis.findings]
    said += [reason for suspect in analysis.suspects for reason in suspect.reasons]

    assert any("\\x1b" in text for text in said)
    assert [text for text in said if not text.isprintable()] == []


def test_findings_are_bounded_and_the_rest_is_counted() -> None:
    """The last one that is kept says how many more there are."""
    story = Story()
    asked = story.open("planner")
    for _ in range(9):
        story.say("ghost", "Boo.", cause=asked)
    analysis = analyse(story, "most=4")
    findings = [one for one in analysis.findings if one.detector == "P3"]

    assert (len(findings), analysis.more["P3"]) == (4, 5)
    assert findings[-1].text.endswith("(and 5 more of P3)")


def test_a_detector_that_is_off_does_not_look() -> None:
    """The others still do."""
    run = troubled_run()
    assert found("O2", run, "off=O2,P3") == []
    assert len(found("F2", run, "off=O2,P3")) == 1


def test_another_task_in_the_log_is_passed_over() -> None:
    """The first event says which one this is about."""
    story = Story()
    asked = story.open("planner")
    other = story.log[0].event
    moved = msgspec.structs.replace(other, id=asked[:-1] + "f", task=other.task[:-1] + "f")
    story.log.append(msgspec.structs.replace(story.log[0], seq=9, event=moved))

    assert analyse(story, now=story.now) == Analysis()


@settings(max_examples=150, deadline=None)
@given(LOGS)
def test_whatever_is_left_of_a_log_can_be_analysed(items: list[LogItem]) -> None:
    """Nothing fails, the same log says the same, and every score is between 0 and 1."""
    first = analyse(items)

    assert analyse(items) == first
    assert all(0 < suspect.score <= 1 for suspect in first.suspects)
    assert len(first.suspects) <= 3


def test_every_detector_is_told_apart() -> None:
    """Ids are unique, and each says what it is, in the form that the documentation has."""
    ids = [detector.id for detector in ALL]

    assert len(set(ids)) == len(ids) == 42
    for detector in ALL:
        assert detector.rule.endswith(".")
        assert detector.name[0].islower()
        assert {kind.TYPE for kind in detector.needs} <= set(DATA_TYPES)
        names = [setting.name for setting in detector.settings]
        assert len(set(names)) == len(names)


def test_a_detector_of_ones_own_can_be_given() -> None:
    """A class with a rule is all that it takes."""

    class Shouting(Detector):
        id = "X1"
        name = "shouting"
        kind = FindingKind.HINT
        rule = "A message is in capitals."
        needs = (MessagePosted,)

        def see(self, seen: Seen) -> None:
            if seen.content.isupper():
                self.report(seen, f"{seen.event.sender} shouts")

    story = Story()
    asked = story.open("planner")
    story.say("planner", "STOP", cause=asked)
    analyser = Analyser(FindingSettings(), [Shouting])
    for item in story.log:
        analyser.apply(item)

    assert [one.detector for one in analyser.finish(fold(story.log)).findings] == ["X1"]
