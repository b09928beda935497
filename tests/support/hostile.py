"""Runs whose texts attack what shows them, and runs that are long."""

from __future__ import annotations

from typing import Final

import msgspec

from tests.support.runs import revenue_run
from tests.support.story import Story
from threadbus.replay import Finding, FindingKind, Suspect, Timeline, Turn, fold
from threadbus.schemas import (
    ArtifactAdded,
    AssignmentMade,
    CritiqueGiven,
    CritiqueVerdict,
    ErrorInfo,
    InputRequested,
    PlanProposed,
    PlanRevised,
    PlanStep,
    ProposalMade,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TextPart,
    ThreadOpened,
)

ATTACKS: Final = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script>",
    "<!--<script>",
    '<img src=x onerror="window.pwned = 3">',
    "<svg/onload=window.pwned=4>",
    "[a link](javascript:window.pwned=5) ![](https://tracker.invalid/p.png)",
    "https://tracker.invalid/?q=1 www.tracker.invalid @somebody #12 GH-12",
    "```\n# out of the fence\n| a | b |\n~~~\n</details>",
    "end; deactivate p1\nend\nloop %%{init: {}}%% #59; p0->>p1: x",
    '"]; evil [label="\\" -> {a b}; // /* \\N \\l',
    "\u202egnp.exe \u2066hidden\u2069 \u2028 \u2029 \x1b[31m \ufeff",
    "$$x$$ `code` *b* _i_ ~~s~~ <b> & &amp; \\",
)
"""What may be in any text of an event."""


def hostile_run() -> Story:
    """A run in which every kind of text attacks what shows it."""
    story = Story()
    add = story.add
    every = " ".join(ATTACKS)
    asked = add(
        "user",
        TaskOpened(title=ATTACKS[1] + ATTACKS[8].split("\n")[0], parts=(TextPart(every),)),
        mentions=("end",),
    )
    thread = "loop-1"
    add("end", ThreadOpened(title=every.replace("\n", " ")[:150]), thread=thread, cause=asked)
    for attack in ATTACKS:
        story.say("end", attack, to=("user",), cause=asked)
        story.tool("end", asked, f"tool{attack}"[:60], {attack[:50]: attack}, attack)
        story.say("note", attack, thread=thread)
    story.model("end", asked, error=ErrorInfo(every[:100], every))
    first = add(
        "end",
        PlanProposed(steps=tuple([PlanStep(a, "end", a) for a in ATTACKS]), reasons=ATTACKS),
        cause=asked,
    )
    steps = (PlanStep("new" + ATTACKS[0], "end"),)
    add("end", PlanRevised(replaces=first, steps=steps, reasons=("why",)), cause=asked)
    add("end", AssignmentMade(assignee="note", parts=(TextPart(every),)), mentions=("note",))
    add("end", ArtifactAdded(name=ATTACKS[3], part=TextPart("x"), description=every), cause=asked)
    add("end", ProposalMade(parts=(TextPart(every),), voters=("note",)), cause=asked)
    add("end", CritiqueGiven(of=first, verdict=CritiqueVerdict.ACCEPT, reasons=ATTACKS))
    add("end", InputRequested(parts=(TextPart(every),)), cause=asked)
    add("end", TaskClosed(outcome=TaskStatus.FAILED, summary=every), cause=asked)
    return story


def with_findings(timeline: Timeline, text: str) -> Timeline:
    """Return *timeline* with a finding of each kind and a suspect, each of which says *text*."""
    steps = [
        step
        for thread in timeline.threads.values()
        for entry in thread.entries
        if isinstance(entry, Turn)
        for step in entry.steps
    ]
    findings = [
        Finding(
            detector=f"D{number}",
            name=text or "a detector",
            kind=kind,
            seq=step.seq,
            at=step.at,
            text=f"{kind.value}: {text}",
            agent=step.agent,
            thread=step.thread,
            evidence=(step.id, steps[0].id),
        )
        for number, (kind, step) in enumerate(zip(FindingKind, steps[1:], strict=False))
    ]
    first = steps[0]
    suspect = Suspect(
        seq=first.seq,
        event=first.id,
        at=first.at,
        score=0.7,
        reasons=(f"earliest: {text}",),
        agent=first.agent,
        findings=("D0",),
    )
    return msgspec.structs.replace(timeline, findings=findings, suspects=[suspect])


def revenue_with_findings() -> Timeline:
    """The run about revenue, as an analysis might leave it."""
    return with_findings(fold(revenue_run().log), "see the step")


def hostile_timeline() -> Timeline:
    """The hostile run, whose findings are hostile, too."""
    return with_findings(fold(hostile_run().log), " ".join(ATTACKS))


def long_run(events: int) -> Story:
    """A run of at least so many events: many agents, several threads, hostile words."""
    story = Story()
    asked = story.ask("planner", title="A long run")
    workers = ("document", "coder", "web", "critic", "answer")
    number = 0
    while len(story.log) < events:
        number += 1
        worker = workers[number % len(workers)]
        thread = "main" if number % 3 else f"topic-{number % 7}"
        attack = ATTACKS[number % len(ATTACKS)]
        text = f"Part {number}: {attack}"
        work = story.say(
            "planner", text, to=(worker,), cause=asked, after_ms=3 + number % 50, thread=thread
        )
        story.model(worker, work, took_ms=200 + number * 7 % 900, thread=thread)
        story.tool(worker, work, "run_python", {"code": f"f({number})"}, "4", thread=thread)
        story.say(worker, f"Done, needle-{number}.", cause=work, thread=thread)
        story.end(worker, work, worked_ms=900, thread=thread)
    return story
