"""Events to bytes and back: JSON, checked in both directions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import msgspec

from threadbus.schemas.envelope import SCHEMA_VERSION, Event
from threadbus.schemas.errors import (
    InvalidTextError,
    LimitExceededError,
    MalformedEventError,
    SubjectMismatchError,
    shorten,
)
from threadbus.schemas.events import DATA_TYPES, AnyData, EventClass, OpaqueData
from threadbus.schemas.events.base import TimeNs
from threadbus.schemas.ids import (
    AgentName,
    EventId,
    TaskId,
    ThreadId,
    parse_agent_name,
    parse_event_id,
    parse_task_id,
    parse_thread_id,
)
from threadbus.schemas.limits import MAX_JSON_DEPTH
from threadbus.schemas.subjects import EventSubject, check_mentions, parse_event_subject
from threadbus.schemas.upcast import UPCASTERS, upcast


class _Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope as it is on the wire, the data not looked at yet."""

    v: int
    id: EventId
    type: str
    task: TaskId
    thread: ThreadId
    sender: AgentName
    at: TimeNs
    data: msgspec.Raw
    cause: EventId | None = None
    mentions: tuple[AgentName, ...] = ()


_Decoder: TypeAlias = "msgspec.json.Decoder[Any]"

_ENCODER: Final = msgspec.json.Encoder()
_WIRE: Final = msgspec.json.Decoder(_Wire)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_DATA: Final[dict[str, _Decoder]] = {
    name: msgspec.json.Decoder(kind) for name, kind in DATA_TYPES.items()
}
_UPCAST_TYPES: Final = frozenset(name for name, _ in UPCASTERS)
# A backslash that is itself escaped does not start an escape.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def encode_event(event: Event) -> bytes:
    """Encode *event* as one JSON object.

    Returns:
        UTF-8 bytes without a newline.

    Raises:
        InvalidTextError: a text holds NUL or a lone surrogate.
        LimitExceededError: too many mentions or parts, or JSON nested too deep.
        MalformedEventError: a field is outside what its type allows.
    """
    check_mentions(event.mentions)
    try:
        if isinstance(event.data, OpaqueData):
            raw = cast("AnyData", msgspec.Raw(event.data.raw))
            body = _ENCODER.encode(msgspec.structs.replace(event, data=raw))
        else:
            body = _ENCODER.encode(event)
    except UnicodeEncodeError as error:
        position = error.start
        raise InvalidTextError(event.type, ord(error.object[position]), position) from error
    except RecursionError as error:
        raise _too_deep(MAX_JSON_DEPTH + 1) from error
    except TypeError as error:
        raise MalformedEventError(f"{event.type}: {error}") from error
    decode_event(body)
    return body


def decode_event(body: bytes) -> Event:
    """Decode one event.

    A type or a version that is not known becomes :class:`OpaqueData`, never an error.

    Raises:
        MalformedEventError: it is not JSON, or a field is missing or of the wrong type.
        InvalidTextError: a text holds NUL.
        InvalidIdError, InvalidNameError: an id or a name is outside its grammar.
        LimitExceededError: JSON nested too deep, or more than 16 mentions.
    """
    wire = _decode_wire(body)
    parse_task_id(wire.task)
    parse_thread_id(wire.thread)
    parse_agent_name(wire.sender)
    check_mentions(wire.mentions)
    for name in wire.mentions:
        parse_agent_name(name)
    return _event(wire, _decode_data(wire, body, EventClass.OBS))


def decode_recorded_event(subject: str, body: bytes) -> Event:
    """Decode an event and hold it against the subject that it was stored on.

    Raises:
        InvalidSubjectError: the subject is not one of ours.
        SubjectMismatchError: the body says another task, thread, class, sender or mentions.
        SchemaError: as :func:`decode_event`.
    """
    # Subjects repeat, so their names are checked once each and the body is only compared.
    where = _parse_subject(subject)
    wire = _decode_wire(body)
    data = _decode_data(wire, body, where.event_class)
    if (
        wire.task != where.task
        or wire.thread != where.thread
        or wire.sender != where.sender
        or wire.mentions != where.mentions
    ):
        raise _mismatch(wire, where)
    if not isinstance(data, OpaqueData) and data.CLASS is not where.event_class:
        raise SubjectMismatchError("class", where.event_class.value, data.CLASS.value)
    return _event(wire, data)


_parse_subject: Final = lru_cache(maxsize=8192)(parse_event_subject)


def _decode_wire(body: bytes) -> _Wire:
    _check_text(body)
    try:
        wire = _WIRE.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEventError(str(error), _preview(body)) from error
    except RecursionError as error:
        raise _too_deep(MAX_JSON_DEPTH + 1) from error
    parse_event_id(wire.id)
    if wire.cause is not None:
        parse_event_id(wire.cause)
    return wire


def _event(wire: _Wire, data: AnyData) -> Event:
    return Event(
        v=wire.v,
        id=wire.id,
        type=wire.type,
        task=wire.task,
        thread=wire.thread,
        sender=wire.sender,
        at=wire.at,
        cause=wire.cause,
        mentions=wire.mentions,
        data=data,
    )


def _mismatch(wire: _Wire, where: EventSubject) -> SubjectMismatchError:
    for field, in_subject, in_body in (
        ("task", where.task, wire.task),
        ("thread", where.thread, wire.thread),
        ("sender", where.sender, wire.sender),
    ):
        if in_subject != in_body:
            return SubjectMismatchError(field, in_subject, in_body)
    return SubjectMismatchError("mentions", ".".join(where.mentions), ".".join(wire.mentions))


def _decode_data(wire: _Wire, body: bytes, event_class: EventClass) -> AnyData:
    decoder = _DATA.get(wire.type)
    if decoder is None or wire.v > SCHEMA_VERSION or wire.v < 1:
        return OpaqueData(raw=bytes(wire.data), event_class=event_class)
    try:
        if wire.v < SCHEMA_VERSION and wire.type in _UPCAST_TYPES:
            old = _OBJECT.decode(wire.data)
            new = upcast(wire.type, wire.v, old, target=SCHEMA_VERSION)
            return cast("AnyData", msgspec.convert(new, DATA_TYPES[wire.type]))
        return decoder.decode(wire.data)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEventError(f"{wire.type}: {error}", _preview(body)) from error
    except RecursionError as error:
        raise _too_deep(MAX_JSON_DEPTH + 1) from error


def _check_text(body: bytes) -> None:
    if b"\\u0000" in body and _NUL.search(body):
        raise InvalidTextError("an event's text", 0, -1)
    if body.count(b"[") + body.count(b"{") > MAX_JSON_DEPTH:
        depth = deepest = 0
        for match in _BRACKET.finditer(body):
            token = match.group()
            if token in b"[{":
                depth += 1
                deepest = max(deepest, depth)
            elif token in b"]}":
                depth -= 1
        if deepest > MAX_JSON_DEPTH:
            raise _too_deep(deepest)


def _too_deep(depth: int) -> LimitExceededError:
    return LimitExceededError(
        "levels of JSON in one event", depth, MAX_JSON_DEPTH, "flatten it or attach it as a file"
    )


def _preview(body: bytes) -> str:
    return shorten(body[:60].decode("utf-8", "backslashreplace"), 60)
