"""Say which bound of a type a value breaks, and by how much; runs only once msgspec refused it.

msgspec says "Expected `array` of length <= 64". Here the value is walked along with its type, so
that the error can name the path, the size, the limit and the way out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias, cast

import msgspec
import msgspec.inspect as mi

from threadbus.schemas.bounds import ID_PATTERN, NAME_OR_NONE_PATTERN, NAME_PATTERN, WAY_OUT
from threadbus.schemas.diagnosis import member_path
from threadbus.schemas.errors import (
    InvalidIdError,
    InvalidNameError,
    LimitExceededError,
    MalformedEventError,
    SchemaError,
    shorten,
)
from threadbus.schemas.ids import canonical_agent_name

_Sized: TypeAlias = mi.StrType | mi.VarTupleType | mi.DictType
_Number: TypeAlias = mi.IntType | mi.FloatType
_Problem: TypeAlias = SchemaError | str

_ANY: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder()
_SMALLER: Final = "make it smaller"


def why_refused(
    kind: type, body: bytes | msgspec.Raw, where: str, what: str = "event"
) -> SchemaError | None:
    """Find the first bound of *kind* that *body* breaks.

    Args:
        kind: the struct that it was decoded as.
        body: JSON.
        where: the path of it.
        what: what it is part of.

    Returns:
        The error that names the bound, or nothing when it is not a bound that is broken.
    """
    try:
        value = _ANY.decode(body)
    except msgspec.DecodeError:
        return None
    found = _refused(_type_info(kind), value, where, _SMALLER)
    return MalformedEventError(found, what=what) if isinstance(found, str) else found


@lru_cache(maxsize=256)
def _type_info(kind: type) -> mi.Type:
    return mi.type_info(kind)


def _refused(kind: mi.Type, value: object, where: str, way_out: str) -> _Problem | None:
    if isinstance(kind, mi.Metadata):
        # msgspec types ``extra`` as a bare dict.
        extra = cast("dict[str, str]", kind.extra or {})  # pyright: ignore[reportUnknownMemberType]
        return _refused(kind.type, value, where, extra.get(WAY_OUT, way_out))
    own = _own_bound(kind, value, where, way_out)
    if own is not None:
        return own
    for inner, item, path in _inner(kind, value, where):
        found = _refused(inner, item, path, _SMALLER)
        if found is not None:
            return found
    return None


def _own_bound(kind: mi.Type, value: object, where: str, way_out: str) -> _Problem | None:
    match kind, value:
        case mi.StrType(), str():
            over = _over_length(kind, len(value), f"characters of {where}", way_out)
            return over or _bad_name(kind.pattern, value, where)
        case ((mi.VarTupleType() | mi.DictType()), (list() | dict())):
            count = len(cast("list[object]", value))
            return _over_length(kind, count, f"entries of {where}", way_out)
        case ((mi.IntType() | mi.FloatType()), (int() | float())):
            return _out_of_range(kind, value, where, way_out)
        case _:
            return None


def _over_length(kind: _Sized, length: int, what: str, way_out: str) -> SchemaError | None:
    if kind.max_length is not None and length > kind.max_length:
        return LimitExceededError(what, length, kind.max_length, way_out)
    return None


def _out_of_range(kind: _Number, value: float, where: str, way_out: str) -> _Problem | None:
    shown = f"{where} is {shorten(str(value))}"
    if kind.ge is not None and value < kind.ge:
        return f"{shown}; it must be at least {kind.ge:g}"
    if kind.le is None or value <= kind.le:
        return None
    if isinstance(value, int) and isinstance(kind.le, int):
        return LimitExceededError(where, value, kind.le, way_out)
    return f"{shown}; it must be at most {kind.le:g}"


def _bad_name(pattern: str | None, value: str, where: str) -> SchemaError | None:
    if pattern is None or re.search(pattern, value):
        return None
    if pattern == ID_PATTERN:
        return InvalidIdError(where, value)
    if pattern in {NAME_PATTERN, NAME_OR_NONE_PATTERN}:
        return InvalidNameError(where, value, canonical_agent_name(value))
    return None


def _inner(kind: mi.Type, value: object, where: str) -> Iterator[tuple[mi.Type, object, str]]:
    """Yield what a value is made of, each with its type and path."""
    match kind, value:
        case mi.UnionType(), _:
            yield from ((option, value, where) for option in _options(kind, value))
        case mi.VarTupleType(), list():
            for index, item in enumerate(cast("list[object]", value)):
                yield kind.item_type, item, f"{where}[{index}]"
        case mi.DictType(), dict():
            for key, item in cast("dict[str, object]", value).items():
                yield kind.key_type, key, f"a key of {where}"
                yield kind.value_type, item, member_path(where, key)
        case mi.StructType(), dict():
            members = cast("dict[str, object]", value)
            for field in kind.fields:
                if field.encode_name in members:
                    name = field.encode_name
                    yield field.type, members[name], f"{where}.{name}"
        case _:
            pass


def _options(kind: mi.UnionType, value: object) -> Iterator[mi.Type]:
    """Yield the members of a union that *value* can be, by its tag where there are tags."""
    tags = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    for option in kind.types:
        tag_field = option.tag_field if isinstance(option, mi.StructType) else None
        if tag_field is None or tags.get(tag_field) == cast("mi.StructType", option).tag:
            yield option
