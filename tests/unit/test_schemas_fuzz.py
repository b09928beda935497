"""Bytes and values that nobody thought of: an event or a SchemaError, never anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schema_strategies import json_values
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    DataPart,
    Event,
    MessagePosted,
    SchemaError,
    TaskId,
    decode_event,
    decode_recorded_event,
    encode_event,
    make_event,
)

TASK = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
GOLDEN = [
    path.read_bytes()
    for path in sorted((Path(__file__).parents[1] / "golden" / "events").glob("*/*.json"))
]
SNIPPETS = [
    b"",
    b"\0",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xed\xa0\x80",
    b"[" * 70,
    b"]" * 70,
    b"{",
    b"}",
    b"null",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b",",
    b":",
    b'"data":',
    b"\n",
]
golden = st.sampled_from(GOLDEN)
snippets = st.sampled_from(SNIPPETS) | st.binary(max_size=4)


def decoded(body: bytes) -> Event | None:
    """Decode *body*, or return nothing where that is refused; anything else is a failure."""
    refusal = ""
    try:
        event = decode_event(body)
    except SchemaError as error:
        event, refusal = None, str(error)
    if event is None:
        assert 0 < len(refusal) < 2000
        return None
    # What was taken in can be sent on, and reads the same again.
    assert decode_event(encode_event(event)).data == event.data
    assert decode_recorded_event(event.subject, encode_event(event)) == event
    return event


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_an_event_or_a_schema_error(body: bytes) -> None:
    """Bytes of no shape at all."""
    assert decoded(body) is None


@given(json_values)
def test_any_json_is_an_event_or_a_schema_error(value: object) -> None:
    """JSON of any shape, alone and as the data of every kind of event."""
    assert decoded(json.dumps(value).encode()) is None
    for name in ("message.posted", "task.opened", "tool.called", "x.y"):
        fields = json.loads(GOLDEN[0]) | {"type": name, "data": value}
        decoded(json.dumps(fields).encode())


@settings(max_examples=100)
@given(golden, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), snippets), max_size=3))
def test_damaged_events_are_read_or_refused(
    body: bytes, edits: list[tuple[float, int, bytes]]
) -> None:
    """A golden event with some bytes cut out and others put in."""
    for place, cut, snippet in edits:
        at = int(place * len(body))
        body = body[:at] + snippet + body[at + cut :]

    decoded(body)


@settings(max_examples=100)
@given(golden, st.data())
def test_events_with_a_foreign_value_are_read_or_refused(body: bytes, data: st.DataObject) -> None:
    """A golden event in which any one value, at any depth, is replaced by any other."""
    fields = json.loads(body)
    places = list(spots(fields))
    container, key = data.draw(st.sampled_from(places))
    container[key] = data.draw(json_values)

    decoded(json.dumps(fields).encode())


def spots(node: object) -> Iterator[tuple[Any, Any]]:
    """Yield every place in *node* that holds a value: its container and its key or index."""
    if isinstance(node, dict):
        for key, item in cast("dict[str, object]", node).items():
            yield cast("Any", node), key
            yield from spots(item)
    elif isinstance(node, list):
        for index, item in enumerate(cast("list[object]", node)):
            yield cast("Any", node), index
            yield from spots(item)


hostile_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=5)
    | st.dates()
    | st.decimals()
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(
            st.text(st.characters(), max_size=3) | st.integers() | st.none() | st.floats(),
            inner,
            max_size=3,
        )
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=100)
@given(hostile_values)
def test_a_value_arrives_as_it_is_or_is_refused(value: object) -> None:
    """No Python value is sent as something else; a tuple alone becomes a list."""
    sent = make_event(
        MessagePosted(parts=(DataPart(value),)),
        task=TASK,
        thread=MAIN_THREAD,
        sender=AgentName("a"),
    )
    refusal = ""
    body = b""
    try:
        body = encode_event(sent)
    except SchemaError as error:
        refusal = str(error)
    if refusal:
        assert "data.parts[0].data" in refusal
        return

    (part,) = cast("MessagePosted", decode_event(body).data).parts
    assert cast("DataPart", part).data == with_lists(value)


def with_lists(value: object) -> object:
    """Return *value* with each tuple as a list."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {key: with_lists(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [with_lists(item) for item in cast("list[object]", value)]
    return value
