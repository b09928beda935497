"""JSON values of A2A, which are protobuf there, to what an event holds and back; integers exact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from google.protobuf import json_format, struct_pb2

from threadbus.gateways.a2a.exact import MAX_SAFE, marked, unmark
from threadbus.gateways.errors import ForeignPartError

# Readers of protobuf, and of its JSON, stop at 100 levels, of which a part has some around it.
_MAX_LEVELS: Final = 84
_OBJECT_LEVELS: Final = 3
_ARRAY_LEVELS: Final = 2


def from_value(value: struct_pb2.Value) -> Any:
    """Return a protobuf value as JSON has it; whole numbers as integers.

    Raises:
        ForeignPartError: a number that is none in JSON, or has too many digits.
    """
    match value.WhichOneof("kind"):
        case "struct_value":
            return from_struct(value.struct_value)
        case "list_value":
            return [from_value(item) for item in value.list_value.values]
        case "string_value":
            return _text_or_number(value.string_value)
        case "number_value":
            number = value.number_value
            if not math.isfinite(number):
                raise ForeignPartError("a number in a data part", "JSON has no such number")
            return int(number) if number.is_integer() and abs(number) <= MAX_SAFE else number
        case "bool_value":
            return value.bool_value
        case _:
            return None


def from_struct(value: struct_pb2.Struct) -> dict[str, Any]:
    """Return a protobuf object as JSON has it (see :func:`from_value`)."""
    return {key: from_value(item) for key, item in value.fields.items()}


def _text_or_number(text: str) -> str | int:
    try:
        number = unmark(text)
    except ValueError:
        raise ForeignPartError("an integer in a data part", "it has too many digits") from None
    return text if number is None else number


def fits(data: Any) -> bool:
    """Whether a JSON value is nested less deeply than the protocol's readers go."""
    level: list[Any] = [data]
    left = _MAX_LEVELS
    while level and left >= 0:
        below: list[Any] = []
        cost = _ARRAY_LEVELS
        for item in level:
            if isinstance(item, dict):
                cost = _OBJECT_LEVELS
                below += cast("dict[str, Any]", item).values()
            elif isinstance(item, list):
                below += item
        left -= cost
        level = below
    return left >= 0


def to_value(data: Any) -> struct_pb2.Value:
    """Return a JSON value as protobuf has it."""
    value = struct_pb2.Value()
    json_format.ParseDict(marked(data), value)
    return value


def put(target: struct_pb2.Struct, values: Mapping[str, Any]) -> None:
    """Put the entries of an object into a protobuf one."""
    for key, value in values.items():
        target.fields[key].CopyFrom(to_value(value))
