"""Small invented logs in the forms of other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

LABEL: Final = "the right answer"
"""What no run may hold: a benchmark's label."""

AG2 = {
    "question": "How many clients live in the east?\nThink.",
    "question_ID": "q-1",
    "ground_truth": LABEL,
    "is_correct": False,
    "mistake_agent": LABEL,
    "mistake_step": "1",
    "mistake_reason": LABEL,
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
    "info": {"task": LABEL},
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


def span(id_: str, parent: str | None, start: int, end: int, **data: object) -> dict[str, object]:
    """Make a span of the Agents SDK."""
    error = data.pop("error", None)
    return {
        "object": "trace.span",
        "id": id_,
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
LINES: list[dict[str, object]] = [
    {"agent": "Planner", "to": "Coder", "content": "Sum it.", "timestamp": 1_700_000_000},
    {"agent": "Coder", "tool": "sum", "args": {"a": 1}, "result": 3, "timestamp": 1_700_000_002.5},
    {"agent": "Coder", "to": ["Planner"], "text": "3", "timestamp": "2023-11-14T22:13:25Z"},
]


def write(folder: Path, document: object, name: str = "log.json") -> Path:
    """Write a document, or one to a line."""
    path = folder / name
    if name.endswith(".jsonl") and isinstance(document, list):
        path.write_text(
            "".join(json.dumps(one) + "\n" for one in cast("list[object]", document)),
            encoding="utf-8",
        )
    else:
        path.write_text(json.dumps(document), encoding="utf-8")
    return path
