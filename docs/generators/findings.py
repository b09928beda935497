"""The page of the detectors: docs/findings.md, from the detectors themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from threadbus.replay.findings import ALL, GENERAL, Detector, Setting, Value
from threadbus.replay.findings.causes import (
    DETECTOR_WEIGHTS,
    EVENT_WEIGHTS,
    KIND_WEIGHTS,
    MAX_SCORE,
    MAX_SUSPECTS,
    STEP_WEIGHT,
)
from threadbus.replay.findings.judge import FAULTS, MAX_OPINIONS
from threadbus.schemas import DATA_TYPES

HEAD = """\
# Findings

Generated from the detectors by `make docs`; do not edit.

`busreplay` looks for faults in a run: each *detector* is one rule over the log. What it finds is

- a *violation*: a fact of the protocol was broken;
- a *symptom*: something went wrong, or was wasted; its cause may lie earlier;
- a *hint*: it may well be all right.

A finding names the step (the sequence in the log), the agent, the events that show it, and a
sentence. Rules see what is in the log and nothing else: whether an answer is right, a plan wise or
a result read rightly they cannot say; [a model may judge that](#a-model-as-judge).

```python
from threadbus.replay import FileSource, TimelineFold, find_task
from threadbus.replay.findings import Analyser, load_settings

source = FileSource("examples/replay/report-run.jsonl")
story, analyser = TimelineFold(), Analyser(load_settings(overrides=["B1.min_tokens=1000"]))
async for entry in source.read(await find_task(source, "")):
    story.apply(entry)
    analyser.apply(entry)
analysis = analyser.finish(story.timeline)

assert [finding.detector for finding in analysis.findings] == ["B1"]
assert analysis.suspects == ()
```

## Detectors

| id | name | kind | rule | events that it needs | settings |
|---|---|---|---|---|---|
"""

SETTINGS = """
*Every entry*: also those that are no events. *Story*: the detector looks at the run as a whole when
the log has been read. Where its rule says so, a detector reports single findings as graver or
lighter than its kind.

## Settings

Every number above is a setting, because what is too much differs from team to team. Times are in
seconds. `--finding KEY=VALUE` sets one, `--findings-file FILE` reads a TOML file:

```toml
[findings]
polling = ["peek*", "get_status"]
off = ["B3"]

[findings.R1]
times = 3
```

is the same as `--finding polling='peek*,get_status' --finding off=B3 --finding R1.times=3`. What is
given by `--finding` counts more than the file.

| setting | default | meaning |
|---|---|---|
"""

CAUSES = """
## Suspected cause

From each violation and symptom the causes are followed upstream: what the event answers, what it
refers to, the call that a result belongs to. The {most} steps to which most leads are named, each
with a score up to {score} (how sure, not a probability) and with reasons. Never is one step alone
declared guilty: a log shows what depended on what, and not what would have happened otherwise.

What a finding counts: {kinds}, times the weight of its detector, times {step} for each step
upstream, times the weight of the kind of event. Where the tables have no entry, a detector has 1
and an event 0.6. Whoever opened the task is hardly ever suspected.

| detector | weight |
|---|---|
{detectors}
| event | weight |
|---|---|
{events}"""

JUDGE = """
## A model as judge

`--judge` asks a model, once, about what rules cannot see. It is off unless asked for. The model is
the one that `BUS_JUDGE_MODEL` names, or else `BUS_MODEL`, at `OPENAI_BASE_URL` with
`OPENAI_API_KEY`: any OpenAI-compatible server will do. It is given a sheet of bounded size:
question, answer, findings, suspects, and the steps that matter most. What agents wrote stands in it
as data; the model has no tools, and all that can come of its answer is at most {opinions} hints
(detector `J`) about steps of the sheet. Its tokens and time are shown, and its cost where
`BUS_JUDGE_PRICES=0.15,0.60` says what a million tokens cost, in and out. When it fails, the report
says so and is otherwise complete.

It may name these faults:

| fault | meaning |
|---|---|
"""


def files() -> Mapping[str, str]:
    """Return the page."""
    detectors = "".join(f"{_row(detector)}\n" for detector in ALL)
    general = "".join(
        f"| `{one.name}` | {_value(one.default)} | {_cell(one.about)} |\n" for one in GENERAL
    )
    causes = CAUSES.format(
        most=MAX_SUSPECTS,
        score=MAX_SCORE,
        kinds=", ".join(f"a {kind.value} {weight:g}" for kind, weight in KIND_WEIGHTS.items()),
        step=STEP_WEIGHT,
        detectors=_weights(DETECTOR_WEIGHTS),
        events=_weights(EVENT_WEIGHTS),
    )
    faults = "".join(f"| {word.replace('_', ' ')} | {about} |\n" for word, about in FAULTS.items())
    judge = JUDGE.format(opinions=MAX_OPINIONS) + faults
    return {"docs/findings.md": HEAD + detectors + SETTINGS + general + causes + judge}


def _row(detector: type[Detector]) -> str:
    cells = (
        detector.id,
        detector.name,
        detector.kind.value,
        detector.rule,
        _needs(detector),
        "; ".join(_setting(setting) for setting in detector.settings),
    )
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _needs(detector: type[Detector]) -> str:
    hooks = ("see_again", "see_orphan", "see_silence", "see_unreadable")
    if not detector.needs and any(hook in vars(detector) for hook in hooks):
        return "every entry"
    names = sorted(kind.TYPE for kind in detector.needs)
    if len(names) > len(DATA_TYPES) // 2:
        return "all but observations"
    return ", ".join(f"`{name}`" for name in names) or "story"


def _setting(setting: Setting) -> str:
    return f"`{setting.name}` = {_value(setting.default)}: {setting.about}"


def _value(value: Value) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{word}`" for word in value) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _weights(weights: Mapping[str, float]) -> str:
    return "".join(f"| {name} | {weight:g} |\n" for name, weight in _sorted(weights))


def _sorted(weights: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    return sorted(weights.items(), key=lambda item: (-item[1], item[0]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
