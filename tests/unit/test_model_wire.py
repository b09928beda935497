"""The chat-completions wire: requests as they go out, answers in the dialects of servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from threadbus.agents.errors import ModelOutputTooLargeError
from threadbus.agents.model import ChatMessage, Completion, ToolCall, ToolSpec, Usage
from threadbus.agents.model.assembly import Assembler
from threadbus.agents.model.request import MAX_TOOLS, request_body
from threadbus.agents.model.wire import TransientError, decode_answer, server_sent_events
from threadbus.schemas import InvalidTextError, LimitExceededError


def assembled(*answers: object, max_chars: int = 1_000, max_tool_calls: int = 8) -> Completion:
    assembler = Assembler("host", max_chars, max_tool_calls)
    for answer in answers:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        assembler.feed(decode_answer(body))
    assert assembler.is_whole
    return assembler.completion("host", 1)


def chunk(delta: dict[str, object], finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "r1", "model": "m", "choices": [choice]}


def call_chunk(**call: object) -> dict[str, object]:
    return chunk({"tool_calls": [call]})


def test_a_conversation_becomes_a_request() -> None:
    """Every role and a tool call are translated."""
    call = ToolCall("c1", "add", '{"a":1}')
    body = request_body(
        [
            ChatMessage.system("Be terse."),
            ChatMessage.user("Add."),
            ChatMessage.assistant("", (call,)),
            ChatMessage.tool("c1", "2"),
        ],
        [ToolSpec("add", "Adds.", {"type": "object"})],
        {"temperature": 0},
    )

    assert body == {
        "messages": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "Add."},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a":1}'},
                    }
                ],
            },
            {"role": "tool", "content": "2", "tool_call_id": "c1"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("raw", "sent"),
    [("", "{}"), (' {"a":1} ', '{"a":1}'), ("{'a'", '{"invalid_arguments":"{\'a\'"}')],
)
def test_earlier_arguments_go_back_as_json(raw: str, sent: str) -> None:
    """Servers with a chat template fail on earlier arguments that are not JSON."""
    message = ChatMessage.assistant("", (ToolCall("c1", "add", raw),))
    body = msgspec.json.decode(msgspec.json.encode(request_body([message], [], {})))

    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == sent


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    """JSON cannot carry it."""
    with pytest.raises(InvalidTextError, match=r"message 2 to the model.*U\+D800.*character 1"):
        request_body([ChatMessage.user("ok"), ChatMessage.user("a\ud800")], [], {})


def test_a_request_is_bounded() -> None:
    """Too much of anything is named with its limit."""
    with pytest.raises(LimitExceededError, match="tools in one request: 129"):
        request_body([], [ToolSpec("t")] * (MAX_TOOLS + 1), {})
    with pytest.raises(LimitExceededError, match="messages in one request"):
        request_body([ChatMessage.user("x")] * 10_001, [], {})
    with pytest.raises(LimitExceededError, match="characters in one request"):
        request_body([ChatMessage.user("x" * 16_000_001)], [], {})


def test_a_whole_answer_is_translated() -> None:
    """Text, reason, usage and ids."""
    answer = {
        "id": "r1",
        "model": "m-2026",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }

    assert assembled(answer) == Completion(
        text="Hi",
        finish_reason="stop",
        usage=Usage(9, 2, 4, reported=True),
        model="m-2026",
        response_id="r1",
        system="host",
    )


def test_chunks_are_put_together() -> None:
    """Text and tool calls that come in pieces; the name that some servers repeat counts once."""
    completion = assembled(
        chunk({"role": "assistant", "content": "Let "}),
        chunk({"content": "me see."}),
        call_chunk(index=0, id="a", function={"name": "add", "arguments": ""}),
        call_chunk(index=0, id="a", function={"name": "add", "arguments": '{"a"'}),
        call_chunk(index=0, function={"arguments": ":1}"}),
        call_chunk(index=1, id="b", function={"name": "now", "arguments": ""}),
        chunk({}, "tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
        {"choices": []},
    )

    assert completion.text == "Let me see."
    assert completion.tool_calls == (ToolCall("a", "add", '{"a":1}'), ToolCall("b", "now", ""))
    assert completion.usage == Usage(5, 7, 0, reported=True)


def test_a_server_without_usage_is_tolerated() -> None:
    """The counts are 0, and a flag says that nothing was reported."""
    assert assembled(chunk({"content": "Hi"}, "stop")).usage == Usage(reported=False)


@pytest.mark.parametrize(
    "calls",
    [
        [{"index": 0, "id": "a"}, {"index": 0, "id": "b"}],
        [{"id": "a"}, {"id": "b"}],
    ],
    ids=["all with the index 0", "without an index"],
)
def test_calls_are_told_apart_by_id_where_the_index_does_not(
    calls: list[dict[str, object]],
) -> None:
    """Both are what known servers send."""
    functions = [{"name": "add", "arguments": "{}"}, {"name": "sub", "arguments": "{}"}]
    chunks = [call_chunk(**call, function=f) for call, f in zip(calls, functions, strict=True)]

    completion = assembled(*chunks, chunk({}, "tool_calls"))

    assert completion.tool_calls == (ToolCall("a", "add"), ToolCall("b", "sub"))


def test_ids_of_calls_are_made_unique() -> None:
    """Results refer to calls by id, also where the server repeats or leaves out ids."""
    message = {
        "tool_calls": [
            {"id": "x", "function": {"name": "a", "arguments": "{}"}},
            {"id": "x-2", "function": {"name": "b", "arguments": "{}"}},
            {"id": "x", "function": {"name": "c", "arguments": "{}"}},
            {"function": {"name": "d", "arguments": "{}"}},
            {"id": "", "function": {"name": "e", "arguments": "{}"}},
        ]
    }
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    calls = assembled(answer).tool_calls

    assert [call.name for call in calls] == ["a", "b", "c", "d", "e"]
    assert len({call.id for call in calls}) == 5


def test_arguments_may_come_as_an_object() -> None:
    """Some servers do not write them as a string."""
    message = {"tool_calls": [{"id": "x", "function": {"name": "a", "arguments": {"n": 1}}}]}
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}

    assert assembled(answer).tool_calls[0].arguments == {"n": 1}


def test_content_may_come_in_parts_and_a_refusal_is_text() -> None:
    """Neither is lost."""
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    in_parts = {"choices": [{"message": {"content": parts}}]}
    refused = {"choices": [{"message": {"content": None, "refusal": "I will not."}}]}

    assert assembled(in_parts).text == "ab"
    assert assembled(refused).text == "I will not."


def test_halves_of_a_character_in_two_deltas_are_joined() -> None:
    """The delta holds the first half back until the second comes."""
    assembler = Assembler("host", 100, 1)
    deltas = [
        assembler.feed(decode_answer(json.dumps(chunk({"content": text})).encode()))
        for text in ("a\ud83d", "\ude00b", "c\ud83d")
    ]

    assert deltas == ["a", "😀b", "c"]
    assert assembler.completion("host", 1).text == "a😀bc\ufffd"


def test_other_choices_are_left_out() -> None:
    """Only the first is asked for."""
    answer = {
        "choices": [
            {"index": 1, "message": {"content": "no"}},
            {"index": 0, "message": {"content": "yes"}},
        ]
    }

    assert assembled(answer).text == "yes"


def test_too_much_text_is_an_error_as_soon_as_it_is() -> None:
    """Arguments count like text."""
    with pytest.raises(ModelOutputTooLargeError, match="more than 10 characters"):
        assembled(chunk({"content": "x" * 11}), max_chars=10)
    with pytest.raises(ModelOutputTooLargeError, match="more than 10 characters"):
        assembled(call_chunk(index=0, function={"arguments": "x" * 11}), max_chars=10)


def test_too_many_tool_calls_are_an_error() -> None:
    """With the limit."""
    chunks = [call_chunk(index=number, id=str(number)) for number in range(3)]

    with pytest.raises(ModelOutputTooLargeError, match="more than 2 tool calls"):
        assembled(*chunks, max_tool_calls=2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a chat completion"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway"),
        (b"[]", "not a chat completion"),
        (b'{"choices": 3}', "not a chat completion"),
        (b"[" * 100_000, "not a chat completion"),
        (b"\xff\xfe", "not a chat completion"),
        (b'{"error": {"message": "overloaded", "code": 529}}', "overloaded"),
        (b'{"error": "out of memory"}', "out of memory"),
        (b'{"error": {}}', "without a message"),
    ],
)
def test_what_is_no_answer_is_told_and_may_be_tried_again(body: bytes, reason: str) -> None:
    """The reason quotes the beginning, or the server's own words."""
    with pytest.raises(TransientError) as caught:
        decode_answer(body)

    assert reason in caught.value.reason
    assert len(caught.value.reason) < 500


async def in_pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
async def test_events_are_found_however_the_bytes_are_cut(size: int, newline: bytes) -> None:
    """Comments, other fields, events of two lines and the end mark are understood."""
    lines = [
        b": ping",
        b"event: message",
        b'data: {"a":1}',
        b"",
        b"data:x",
        b"data: y",
        b"",
        b"",
        b"data: [DONE]",
        b"",
        b"data: late",
        b"",
    ]
    body = newline.join(lines)
    events = [event async for event in server_sent_events(in_pieces(body, size), 1_000)]

    assert events == [b'{"a":1}', b"x\ny"]


async def test_a_last_event_without_its_blank_line_counts() -> None:
    """As it comes from servers that close at once."""
    events = [event async for event in server_sent_events(in_pieces(b"data: x\n", 100), 1_000)]

    assert events == [b"x"]


@pytest.mark.parametrize("body", [b"data: " + b"x" * 2_000, b"data: xxxx\n" * 300])
async def test_an_event_is_bounded(body: bytes) -> None:
    """Whether it is one long line or many short ones."""
    with pytest.raises(TransientError, match="more than 1,000 bytes"):
        _ = [event async for event in server_sent_events(in_pieces(body, 100), 1_000)]
