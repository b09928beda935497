"""Hypothesis strategies for events, derived from the structs: a new type is covered at once."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec
import msgspec.inspect as mi
from hypothesis import strategies as st

from threadbus.schemas import (
    DATA_TYPES,
    AgentName,
    AnyData,
    Event,
    EventData,
    EventId,
    SchemaError,
    TaskId,
    ThreadId,
    make_event,
)

_HEX = "0123456789abcdef"

ids = st.text(_HEX, min_size=31, max_size=31).map(lambda digits: digits + "1")
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,62}", fullmatch=True)
times = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner | texts, max_size=4) | texts
    ),
    max_leaves=12,
)


def events() -> st.SearchStrategy[Event]:
    """Any event of any type that may be sent."""
    return st.sampled_from(sorted(DATA_TYPES)).flatmap(event_of)


@cache
def event_of(type_name: str) -> st.SearchStrategy[Event]:
    """Any event of one type that may be sent."""
    return st.builds(
        make_event,
        data_of(DATA_TYPES[type_name]),
        task=ids.map(TaskId),
        thread=names.map(ThreadId),
        sender=names.map(AgentName),
        cause=st.none() | ids.map(EventId),
        mentions=st.lists(names.map(AgentName), max_size=16).map(tuple),
        event_id=ids.map(EventId),
        at=times,
    )


def data_of(kind: type[EventData]) -> st.SearchStrategy[AnyData]:
    """Any data of one type that may be sent."""
    return cast("st.SearchStrategy[AnyData]", value_of(mi.type_info(kind)))


def value_of(kind: mi.Type) -> st.SearchStrategy[Any]:
    """Any value that a field of type *kind* may have."""
    match kind:
        case mi.Metadata():
            return value_of(kind.type)
        case mi.StructType():
            return _struct_of(kind)
        case mi.UnionType():
            return st.one_of([value_of(option) for option in kind.types])
        case mi.VarTupleType():
            least, most = kind.min_length or 0, min(kind.max_length or 3, 3)
            items = st.lists(value_of(kind.item_type), min_size=least, max_size=most)
            return items.map(tuple)
        case mi.DictType():
            return st.dictionaries(value_of(kind.key_type), value_of(kind.value_type), max_size=3)
        case mi.StrType():
            return texts if kind.pattern is None else st.from_regex(kind.pattern, fullmatch=True)
        case mi.IntType():
            return st.integers(cast("int", kind.ge), cast("int", kind.le))
        case mi.FloatType():
            return st.floats(0, 1)
        case mi.BoolType():
            return st.booleans()
        case mi.BytesType():
            return st.binary(max_size=30)
        case mi.EnumType():
            return st.sampled_from(list(kind.cls))
        case mi.NoneType():
            return st.none()
        case mi.AnyType():
            return json_values
        case _:
            raise NotImplementedError(kind)


def _struct_of(kind: mi.StructType) -> st.SearchStrategy[msgspec.Struct]:
    fields = {field.name: value_of(field.type) for field in kind.fields}
    required = {name: fields[name] for name in _required(kind)}
    optional = {name: fields[name] for name in fields if name not in required}

    def build(values: dict[str, Any]) -> msgspec.Struct | None:
        try:
            return kind.cls(**values)
        except SchemaError:  # a struct may refuse what its fields allow one by one
            return None

    made = st.fixed_dictionaries(required, optional=optional).map(build)
    return cast("st.SearchStrategy[msgspec.Struct]", made.filter(lambda made: made is not None))


def _required(kind: mi.StructType) -> list[str]:
    return [field.name for field in kind.fields if field.required]
