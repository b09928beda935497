"""Logs of other systems become runs: who said what, in which order, and nothing else."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from tests.support.foreign_logs import AG2, LABEL, LINES, MAGENTIC, OTLP, SDK, TAU, span, write
from tests.support.real_logs import real_logs
from threadbus.replay import ImportFileError, Timeline, Turn, fold
from threadbus.replay.importing import ImportedRun, ImportFormat, detect, import_file
from threadbus.replay.verifying import Verifier
from threadbus.schemas import (
    MAIN_THREAD,
    DataPart,
    MessagePosted,
    ModelCalled,
    PlanProposed,
    PlanRevised,
    TaskClosed,
    TaskOpened,
    TextPart,
    ToolCalled,
    ToolReturned,
    decode_recorded_event,
)


def only(path: Path, format_: ImportFormat = ImportFormat.AUTO) -> tuple[ImportedRun, Timeline]:
    """Import the only run of a file; it must be a sound log."""
    (run,) = import_file(path, format_)
    assert_sound(run)
    return run, fold(run.entries)


def assert_sound(run: ImportedRun) -> None:
    """Check what must hold of every imported run: a sound log, times that rise, no labels."""
    verifier = Verifier()
    for item in run.entries:
        verifier.take(item)
        assert decode_recorded_event(item.event.subject, item.body) == item.event
        assert LABEL.encode() not in item.body
    report = verifier.finish()
    assert (report.violations, report.problems) == (0, [])
    assert [item.seq for item in run.entries] == list(range(1, len(run.entries) + 1))
    assert all(1 < seq <= len(run.entries) for seq in run.steps)


def test_a_group_chat_with_a_terminal(tmp_path: Path) -> None:
    """Code that a terminal runs is a tool call of whoever wrote it; who speaks next was woken."""
    run, timeline = only(write(tmp_path, AG2))

    assert (timeline.title, timeline.status) == ("How many clients live in the east?", "completed")
    assert timeline.labels == {
        "import.format": "who-and-when",
        "import.run": "q-1",
        "import.times": "synthetic",
    }
    calls = [item.event for item in run.entries if isinstance(item.event.data, ToolCalled)]
    assert [event.sender for event in calls] == ["data_expert", "data_expert"]
    assert [event.data.arguments for event in calls if isinstance(event.data, ToolCalled)] == [
        {"code": "print(1)\n"},
        {"code": "ls\n"},
    ]
    assert (timeline.totals.tool_calls, timeline.totals.tool_errors) == (2, 1)
    kinds = [type(run.entries[seq - 1].event.data) for seq in run.steps]
    returned = [MessagePosted, ToolReturned] * 2 + [MessagePosted] * 2
    assert kinds == returned
    assert isinstance(run.entries[-2].event.data, TaskClosed)
    assert timeline.open_turns() == []
    assert [turn.agent for turn in turns_of(timeline)] == ["data_expert", "check_expert"]


def turns_of(timeline: Timeline) -> list[Turn]:
    """Return the turns of the main thread."""
    return [entry for entry in timeline.threads[MAIN_THREAD].entries if isinstance(entry, Turn)]


def test_a_chat_with_an_orchestrator(tmp_path: Path) -> None:
    """Who is asked is woken and answers who asked; plans are plans, and ledgers data."""
    run, timeline = only(write(tmp_path, MAGENTIC))
    events = [run.entries[seq - 1].event for seq in run.steps]

    assert [type(event.data) for event in events] == [
        *(MessagePosted, PlanProposed, MessagePosted, MessagePosted, MessagePosted),
        *(MessagePosted, PlanRevised, TaskClosed),
    ]
    assert events[3].mentions == ("websurfer",)
    assert (events[5].sender, events[5].mentions) == ("websurfer", ("orchestrator",))
    assert events[5].cause == events[3].id
    ledger = events[2].data
    assert isinstance(ledger, MessagePosted)
    assert ledger.parts[0] == TextPart("is in loop: False; next speaker: WebSurfer")
    assert isinstance(ledger.parts[1], DataPart)
    first, second = timeline.plans.values()
    assert [step.title for step in first.steps] == ["Search", "Verify it"]
    assert (second.version, second.replaces) == (2, first.id)
    assert (timeline.status, timeline.summary) == ("failed", "Max rounds (30) reached")
    assert timeline.open_turns() == []


def test_a_chat_with_tools(tmp_path: Path) -> None:
    """Calls and returns belong together; an answer that begins with Error is one."""
    path = write(tmp_path, [TAU, {**TAU, "trial": 2}])
    first, second = import_file(path)
    for run in (first, second):
        assert_sound(run)
    assert first.task != second.task
    timeline = fold(first.entries)
    assert timeline.labels["import.format"] == "tau-bench"
    assert first.name == "3, trial 1"
    assert (timeline.totals.tool_calls, timeline.totals.tool_errors) == (1, 1)
    asked, answered = turns_of(timeline)[:2]
    assert (asked.agent, asked.woken_by, asked.outcome) == ("assistant", "user", "replied")
    assert len(asked.steps) == 2
    assert answered.agent == "user"
    assert len(first.steps) == len(TAU["traj"]) if isinstance(TAU["traj"], list) else 0
    indexed = [dict(message, index=number) for number, message in enumerate(messages(), 1)]
    found = detect([[{**TAU, "traj": indexed}]], "x")
    assert found is ImportFormat.AGENTRX


def messages() -> list[dict[str, object]]:
    """Return the messages of the chat with tools."""
    found = TAU["traj"]
    assert isinstance(found, list)
    return [dict(message) for message in found]


@pytest.mark.parametrize("name", ["log.json", "log.jsonl"])
def test_traces_of_the_agents_sdk(tmp_path: Path, name: str) -> None:
    """Spans become turns, model and tool calls with their own times; a handoff wakes."""
    run, timeline = only(write(tmp_path, SDK, name))

    assert (timeline.title, timeline.status) == ("Support", "completed")
    assert timeline.labels["import.times"] == "recorded"
    assert timeline.question == "Where is it?"
    triage, billing = turns_of(timeline)
    assert (triage.agent, triage.worked_ns) == ("triage", 4 * 10**9)
    assert (billing.agent, billing.woken_by) == ("billing", "triage")
    calls = [item.event.data for item in run.entries if isinstance(item.event.data, ModelCalled)]
    assert [(call.model, call.input_tokens) for call in calls] == [("m-1", 20), ("response", 9)]
    assert (timeline.totals.tool_calls, timeline.totals.tool_errors) == (1, 1)
    assert timeline.answer is not None
    assert timeline.answer.text == "I ask."
    assert run.skipped == 1


def test_sdk_traces_below_data(tmp_path: Path) -> None:
    """As its exporter sends them."""
    _, timeline = only(write(tmp_path, {"data": SDK}))
    assert timeline.totals.model_calls == 2


def test_otlp_keeps_the_id_of_the_trace(tmp_path: Path) -> None:
    """Conventions of OpenTelemetry and of OpenInference; other spans are passed through."""
    run, timeline = only(write(tmp_path, OTLP))

    assert run.task == "5b8efff798038103d269b633813fc60c"
    assert timeline.question == "Hi?"
    assert timeline.opened_at == 1_600_000_000 * 10**9
    (turn,) = turns_of(timeline)
    assert turn.agent == "planner"
    assert (timeline.totals.model_calls, timeline.totals.input_tokens) == (1, 12)
    assert timeline.totals.tool_calls == 1
    assert timeline.answer is not None
    assert timeline.answer.text == "Nine."
    assert run.skipped == 1


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.jsonl.gz"])
def test_any_json_of_messages(tmp_path: Path, name: str) -> None:
    """Common keys for author, text, addressee, time and tools."""
    path = write(tmp_path, LINES, name.removesuffix(".gz"))
    if name.endswith(".gz"):
        packed = tmp_path / name
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    run, timeline = only(path)

    assert [item.event.sender for item in run.entries] == [
        *("planner", "planner", "coder", "coder", "coder")
    ]
    assert timeline.labels["import.times"] == "recorded"
    assert run.entries[1].stored_at == 1_700_000_000 * 10**9
    assert run.entries[-1].stored_at - run.entries[1].stored_at == 5 * 10**9
    coder = turns_of(timeline)[-2]
    assert (coder.agent, coder.outcome, len(coder.steps)) == ("coder", "replied", 2)
    assert timeline.totals.tool_calls == 1


def test_one_file_may_hold_several_runs(tmp_path: Path) -> None:
    """Told apart by the id that their messages have."""
    lines = [{**one, "run_id": f"r{number % 2}"} for number, one in enumerate(LINES * 2)]
    runs = list(import_file(write(tmp_path, lines, "log.jsonl")))
    assert [run.name for run in runs] == ["r0", "r1"]
    assert len({run.task for run in runs}) == 2


def test_importing_again_gives_the_same(tmp_path: Path) -> None:
    """Ids and times follow from what the file says, so a second import is no second run."""
    path = write(tmp_path, MAGENTIC)
    assert [run.entries for run in import_file(path)] == [run.entries for run in import_file(path)]


def test_names_that_look_alike_stay_apart(tmp_path: Path) -> None:
    """Case and spaces are dropped only where that mixes nobody up."""
    lines = [{"agent": name, "text": "hi"} for name in ("A b", "a_b", "刘备", "A b")]
    run, _ = only(write(tmp_path, lines))
    names = [item.event.sender for item in run.entries[1:]]
    assert names[0] == names[3] == "a_b"
    assert len(set(names)) == 3


def deep(levels: int) -> str:
    """Nest arrays."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"{", "it is not JSON"),
        (b'{"agent": "a", "text": "x"}\n{"agent": ', "line 2: "),
        (b"\xff\xfe{}", "it is not JSON"),
        (b'{"a": NaN}', "it is not JSON"),
        (deep(100_000).encode(), "it is not JSON: nested too deep"),
        (b"[1, 2, 3]", "it has no objects"),
        (b'{"instruction": "x", "label": "y"}', "its objects have instruction, label"),
        (b'{"seq": 1, "event": {}}', "it is an exported file already"),
        (b"\x1f\x8b\x08garbage", "cannot import"),
    ],
)
def test_what_is_no_log_is_refused_with_its_reason(
    tmp_path: Path, content: bytes, words: str
) -> None:
    """Each says what is wrong with the file; none of them crashes."""
    path = tmp_path / "log.json"
    path.write_bytes(content)
    with pytest.raises(ImportFileError) as caught:
        list(import_file(path))
    assert words in str(caught.value)
    assert "log.json" in str(caught.value)


def test_a_missing_file_and_a_wrong_format_are_refused(tmp_path: Path) -> None:
    """The format that was asked for is named."""
    with pytest.raises(ImportFileError, match="No such file"):
        list(import_file(tmp_path / "nothing.json"))
    with pytest.raises(ImportFileError, match="no run of the format otlp-json"):
        list(import_file(write(tmp_path, AG2), ImportFormat.OTLP_JSON))


def test_hostile_values_do_no_harm(tmp_path: Path) -> None:
    """Wrong types, NUL and surrogates, huge numbers, circles of spans, odd names."""
    odd: list[object] = [
        None,
        7,
        True,
        [],
        {},
        [[{}]],
        {"a": [None]},
        "\x00\ud800",
        2**80,
        -1,
        "9" * 30,
    ]
    for value in odd:
        for document in (
            {"history": [{"content": value, "role": value, "name": value}]},
            {"traj": [{"role": "assistant", "content": value, "tool_calls": value}]},
            {"traj": [{"role": "tool", "content": value, "tool_call_id": value}]},
            {"agent": "a", "text": value, "to": value, "timestamp": value},
            {"agent": "a", "tool": value, "args": value, "text": "x"},
            {"object": "trace.span", "id": "a", "parent_id": "a", "span_data": value},
            span("a", "b", 1, 2, type="agent", name=value),
            span("a", None, 1, 2, type="generation", usage=value, input=value, output=value),
            {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": value, "spanId": value}]}]}]},
        ):
            path = write(tmp_path, document)
            try:
                for run in import_file(path):
                    fold(run.entries)
            except ImportFileError:
                continue
    circle = [span("a", "b", 1, 2, type="custom", name="x"), span("b", "a", 1, 2, type="agent")]
    run, _ = only(write(tmp_path, circle))
    assert run.entries


def test_too_many_agents_are_refused(tmp_path: Path) -> None:
    """One event lets in so many and no more."""
    lines = [{"agent": f"a{number}", "text": "x"} for number in range(300)]
    with pytest.raises(ImportFileError, match="more than 255 agents"):
        list(import_file(write(tmp_path, lines)))


@pytest.mark.parametrize(
    ("folder", "runs", "messages"),
    [
        ("who_and_when/algorithm_generated", 126, 1099),
        ("tau_bench", 200, 5308),
        ("agentrx/tau_retail", 129, 0),
    ],
)
def test_real_logs_are_imported_whole(folder: str, runs: int, messages: int) -> None:
    """Each run of the public sets, each message of it, as a sound log without its labels."""
    data = real_logs()
    found = 0
    steps = 0
    formats: Counter[str] = Counter()
    for path in sorted(Path(data, folder).glob("*.json")):
        for run in import_file(path):
            assert_sound(run)
            found += 1
            steps += len(run.steps)
            opening = run.entries[0].event.data
            assert isinstance(opening, TaskOpened)
            formats[opening.labels["import.format"]] += 1
            for label in (b"mistake_agent", b"mistake_reason", b"ground_truth", b'"reward"'):
                assert not any(label in item.body for item in run.entries)
    assert found == runs
    assert not messages or steps == messages
    assert len(formats) == 1
