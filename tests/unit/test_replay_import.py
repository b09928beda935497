"""Logs of other systems become runs: who said what, in which order, and nothing that was not said."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from threadbus.replay import ImportFileError, Timeline, fold
from threadbus.replay.importing import ImportedRun, ImportFormat, detect, import_file
from threadbus.replay.verifying import Verifier
from threadbus.schemas import (
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

DATA = Path(os.environ.get("THREADBUS_DATA", Path(__file__).parents[5] / "work/shared/data"))
SECRET = "the right answer"

AG2 = {
    "question": "How many clients live in the east?\nThink.",
    "question_ID": "q-1",
    "ground_truth": SECRET,
    "is_correct": False,
    "mistake_agent": SECRET,
    "mistake_step": "1",
    "mistake_reason": SECRET,
    "history": [
        {"content": "```python\nprint(1)\n```", "role": "assistant", "name": "Data_Expert"},
        {
            "content": "exitcode: 1 (execution failed)\nCode output: no",
            "role": "user",
            "name": "Computer_terminal",
        },
        {"content": "Again:\n```sh\nls\n```", "role": "user", "name": "Data_Expert"},
        {
            "content": "exitcode: 0 (execution succeeded)\nCode output: a",
            "role": "user",
            "name": "Computer_terminal",
        },
        {"content": "It is four.", "role": "user", "name": "Check_Expert"},
        {"content": "TERMINATE", "role": "user", "name": "Check_Expert"},
    ],
}
MAGENTIC = {
    "question": "Who won?",
    "question_ID": "q-2",
    "mistake_step": "3",
    "history": [
        {"content": "Who won?", "role": "human"},
        {
            "content": "Here is the plan to follow as best as possible:\n\n- Search\n- Verify it",
            "role": "Orchestrator (thought)",
        },
        {
            "content": '{"is_in_loop": {"reason": "r", "answer": false}, '
            '"next_speaker": {"reason": "r", "answer": "WebSurfer"}}',
            "role": "Orchestrator (thought)",
        },
        {"content": "Please search.", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "Next speaker WebSurfer", "role": "Orchestrator (thought)"},
        {"content": "I have searched.", "role": "WebSurfer"},
        {"content": "New plan:\n1. Stop", "role": "Orchestrator (thought)"},
        {"content": "Max rounds (30) reached", "role": "Orchestrator (termination condition)"},
    ],
}
TAU = {
    "task_id": 3,
    "trial": 1,
    "reward": 0.5,
    "info": {"task": SECRET},
    "traj": [
        {"role": "system", "content": "Be polite."},
        {"role": "user", "content": "Book it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "book", "arguments": '{"seat": 7}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "name": "book", "content": "Error: full"},
        {"role": "assistant", "content": "It is full."},
        {"role": "user", "content": "Pity."},
    ],
}


def span(name: str, parent: str | None, start: int, end: int, **data: object) -> dict[str, object]:
    """Make a span of the Agents SDK."""
    error = data.pop("error", None)
    return {
        "object": "trace.span",
        "id": name,
        "trace_id": "trace_1",
        "parent_id": parent,
        "started_at": f"2026-01-02T03:04:{start:02}.500000+00:00",
        "ended_at": f"2026-01-02T03:04:{end:02}.500000+00:00",
        "span_data": data,
        "error": error,
    }


SDK: list[dict[str, object]] = [
    {"object": "trace", "id": "trace_1", "workflow_name": "Support", "group_id": None},
    span("a", None, 5, 9, type="agent", name="Triage"),
    span(
        "g",
        "a",
        5,
        6,
        type="generation",
        model="m-1",
        input=[{"role": "user", "content": "Where is it?"}],
        output=[{"role": "assistant", "content": "I ask."}],
        usage={"input_tokens": 20, "output_tokens": 5},
    ),
    span("h", "a", 6, 6, type="handoff", from_agent="Triage", to_agent="Billing"),
    span("b", None, 7, 9, type="agent", name="Billing"),
    span(
        "f", "b", 7, 8, type="function", name="find", input='{"id": 7}', error={"message": "gone"}
    ),
    span("r", "b", 8, 9, type="response", response_id="resp_1", usage={"input_tokens": 9}),
    span("x", "b", 8, 8, type="custom", name="turn", data={"sdk_span_type": "turn"}),
]


def otlp_span(span_id: str, parent: str, start: int, end: int, **attributes: object) -> object:
    """Make an OTLP span."""
    values = {
        key.replace("__", "."): {"intValue": str(value)}
        if isinstance(value, int)
        else {"stringValue": value}
        for key, value in attributes.items()
    }
    return {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": span_id,
        "parentSpanId": parent,
        "name": "span",
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str(end * 10**9),
        "attributes": [{"key": key, "value": value} for key, value in values.items()],
    }


OTLP = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "planner"}}]
            },
            "scopeSpans": [
                {
                    "spans": [
                        otlp_span(
                            "A1",
                            "",
                            1_600_000_000,
                            1_600_000_009,
                            gen_ai__operation__name="invoke_agent",
                            gen_ai__input__messages='[{"role":"user","parts":[{"content":"Hi?"}]}]',
                        ),
                        otlp_span("A2", "A1", 1_600_000_001, 1_600_000_003),
                        otlp_span(
                            "A3",
                            "A2",
                            1_600_000_001,
                            1_600_000_002,
                            openinference__span__kind="LLM",
                            llm__model_name="m-2",
                            llm__token_count__prompt=12,
                            output__value="Nine.",
                        ),
                        otlp_span(
                            "A4",
                            "A2",
                            1_600_000_002,
                            1_600_000_003,
                            gen_ai__operation__name="execute_tool",
                            gen_ai__tool__name="sum",
                            gen_ai__tool__call__arguments='{"a": 1}',
                        ),
                    ]
                }
            ],
        }
    ]
}
LINES = [
    {"agent": "Planner", "to": "Coder", "content": "Sum it.", "timestamp": 1_700_000_000},
    {"agent": "Coder", "tool": "sum", "args": {"a": 1}, "result": 3, "timestamp": 1_700_000_002.5},
    {"agent": "Coder", "to": ["Planner"], "text": "3", "timestamp": "2023-11-14T22:13:25Z"},
]


def write(folder: Path, document: object, name: str = "log.json") -> Path:
    """Write a document, or one to a line."""
    path = folder / name
    if name.endswith(".jsonl") and isinstance(document, list):
        path.write_text("".join(json.dumps(one) + "\n" for one in document), encoding="utf-8")
    else:
        path.write_text(json.dumps(document), encoding="utf-8")
    return path


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
        assert SECRET.encode() not in item.body
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


def turns_of(timeline: Timeline) -> list[object]:
    """Return the turns of the main thread."""
    return [entry for entry in timeline.threads["main"].entries if hasattr(entry, "mention")]
