"""Events to bytes and back: JSON, checked in both directions.

What :func:`encode_event` returns has been decoded once and compared, so a reader gets exactly what
was said. :func:`decode_event` raises nothing but ``SchemaError``, whatever the bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from threadbus.schemas.bounds import TYPE_PATTERN, Positive, TimeNs
from threadbus.schemas.diagnosis import why_changed
from threadbus.schemas.envelope import Event, Origin
from threadbus.schemas.errors import (
    LimitExceededError,
    MalformedEventError,
    SchemaError,
    SubjectMismatchError,
    shorten,
)
from threadbus.schemas.events import DATA_TYPES, AnyData, EventClass, EventData, OpaqueData
from threadbus.schemas.ids import (
    AgentName,
    EventId,
    TaskId,
    ThreadId,
    is_id,
    known_agent_name,
    known_task_id,
    known_thread_id,
    parse_event_id,
)
from threadbus.schemas.jsontext import (
    check_json,
    encode_json,
    preview,
    why_malformed,
)
from threadbus.schemas.limits import MAX_INTEGER, MAX_TYPE_CHARS
from threadbus.schemas.refusal import why_refused
from threadbus.schemas.subjects import EventSubject, check_mentions, parse_event_subject
from threadbus.schemas.upcast import upcast


class _Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope as it is on the wire, the data not looked at yet."""

    v: Positive
    id: EventId
    type: str
    task: TaskId
    thread: ThreadId
    sender: AgentName
    at: TimeNs
    data: msgspec.Raw
    cause: EventId | None = None
    mentions: tuple[AgentName, ...] = ()
    origin: Origin | msgspec.UnsetType = msgspec.UNSET


_ENCODER: Final = msgspec.json.Encoder()
_WIRE: Final = msgspec.json.Decoder(_Wire)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_DECODERS: Final = {name: msgspec.json.Decoder(kind) for name, kind in DATA_TYPES.items()}
_TYPE_NAME: Final = re.compile(TYPE_PATTERN, re.ASCII)
_OPENING_BRACE: Final = b"{"


def encode_event(event: Event) -> bytes:
    """Encode *event* as one JSON object.

    Returns:
        UTF-8 bytes without a newline.

    Raises:
        InvalidTextError: a text holds NUL or a lone surrogate.
        LimitExceededError: too many mentions or parts, a text too long, JSON nested too deep.
        NotJsonError: a value that JSON cannot hold, or that a reader would get changed.
        InvalidIdError, InvalidNameError: an id or a name is outside its grammar.
        MalformedEventError: a field is outside what its type allows.
    """
    check_mentions(event.mentions)
    data = event.data
    if isinstance(data, OpaqueData):
        raw = cast("AnyData", msgspec.Raw(data.raw))
        body = _ENCODER.encode(msgspec.structs.replace(event, data=raw))
    else:
        _check_agrees(event, data)
        body = encode_json(event, event.type)
        if _is_sound(event, data, body):
            return body
    decoded = _decode(body, event.event_class)
    if decoded != event:
        _check_unchanged(event, decoded)
    return body


def _is_sound(event: Event, data: EventData, body: bytes) -> bool:
    """Whether a reader surely gets of *body* what *event* says, found without decoding all of it.

    Every event goes through here. Where it says no, the body is decoded and compared, which finds
    what is wrong and where, if anything is.
    """
    cause = event.cause
    try:
        check_json(body)
        known_task_id(event.task)
        known_thread_id(event.thread)
        known_agent_name(event.sender)
        for name in event.mentions:
            known_agent_name(name)
        return (
            type(event.v) is int
            and type(event.at) is int
            and 0 <= event.at <= MAX_INTEGER
            and is_id(event.id)
            and (cause is None or is_id(cause))
            and event.origin is msgspec.UNSET
            and type(event.mentions) is tuple
            and (len(event.mentions) < 2 or len(set(event.mentions)) == len(event.mentions))
            and bool(_DECODERS[event.type].decode(_ENCODER.encode(data)) == data)
        )
    except (SchemaError, TypeError, ValueError, msgspec.MsgspecError):
        return False


def _check_agrees(event: Event, data: EventData) -> None:
    """Check what the fields of an event say of one another; :func:`make_event` gets it right."""
    if event.type != data.TYPE:
        raise MalformedEventError(
            f"type '{shorten(event.type)}' does not go with the data, which is {data.TYPE!r}"
        )
    if event.v != data.VERSION:
        raise MalformedEventError(
            f"{event.type} is written in version {data.VERSION} and no other; make_event sets v"
        )


def _check_unchanged(event: Event, decoded: Event) -> None:
    """Check that what a reader gets of *event* differs in nothing but lists for tuples."""
    if len(set(event.mentions)) < len(event.mentions):
        twice = next(name for name in event.mentions if event.mentions.count(name) > 1)
        raise MalformedEventError(f"{event.type} mentions {twice!r} twice; once is enough")
    if isinstance(event.data, OpaqueData):
        raise MalformedEventError(
            f"'{shorten(event.type)}': opaque data must be one JSON object without space around "
            "it, of a type or a version that this code does not know"
        )
    problem = why_changed(event, decoded, event.type)
    if problem is not None:
        raise problem


def decode_event(body: bytes) -> Event:
    """Decode one event.

    A type or a version that is not known becomes :class:`OpaqueData`, never an error; as the body
    does not say what class an unknown type is of, it counts as ``obs``. A mention that is repeated
    is said once.

    Raises:
        MalformedEventError: it is not JSON, or a field is missing or of the wrong type.
        InvalidTextError: a text holds NUL or a lone surrogate.
        InvalidIdError, InvalidNameError: an id or a name is outside its grammar.
        LimitExceededError: JSON nested too deep, more than 16 mentions, a text or list too long.
    """
    return _decode(body, EventClass.OBS)


def _decode(body: bytes, assumed: EventClass) -> Event:
    wire = _decode_wire(body)
    known_task_id(wire.task)
    known_thread_id(wire.thread)
    known_agent_name(wire.sender)
    if wire.mentions:
        check_mentions(wire.mentions)
        for name in wire.mentions:
            known_agent_name(name)
    kind = DATA_TYPES.get(wire.type)
    return _event(wire, body, kind, assumed if kind is None else kind.CLASS)


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
    if (
        wire.task != where.task
        or wire.thread != where.thread
        or wire.sender != where.sender
        or (wire.mentions != where.mentions and not _is_same(wire.mentions, where.mentions))
    ):
        raise _mismatch(wire, where)
    kind = DATA_TYPES.get(wire.type)
    if kind is not None and kind.CLASS is not where.event_class:
        raise SubjectMismatchError("class", where.event_class.value, kind.CLASS.value)
    return _event(wire, body, kind, where.event_class)


def _is_same(mentions: tuple[AgentName, ...], others: tuple[AgentName, ...]) -> bool:
    """Whether they name the same but for repetitions: a foreign event may have some.

    An export writes the subject that the event has without them.
    """
    return tuple(dict.fromkeys(mentions)) == tuple(dict.fromkeys(others))


_parse_subject: Final = lru_cache(maxsize=8192)(parse_event_subject)


def _decode_wire(body: bytes) -> _Wire:
    check_json(body)
    try:
        wire = _WIRE.decode(body)
    except msgspec.ValidationError as error:
        raise why_refused(_Wire, body, "event") or why_malformed(body, error) from error
    except msgspec.DecodeError as error:
        raise why_malformed(body, error) from error
    parse_event_id(wire.id)
    if wire.cause is not None:
        parse_event_id(wire.cause)
    return wire


def _event(
    wire: _Wire, body: bytes, kind: type[EventData] | None, event_class: EventClass
) -> Event:
    version = wire.v
    mentions = wire.mentions
    data: AnyData
    if kind is None or version > kind.VERSION:
        data = _opaque(wire, event_class)
    elif version == kind.VERSION:
        data = _decode_data(wire.type, kind, wire.data, body)
    else:
        data = _decode_data(wire.type, kind, _upcast(wire, kind), body)
        version = kind.VERSION
    return Event(
        v=version,
        id=wire.id,
        type=wire.type,
        task=wire.task,
        thread=wire.thread,
        sender=wire.sender,
        at=wire.at,
        cause=wire.cause,
        mentions=tuple(dict.fromkeys(mentions)) if len(mentions) > 1 else mentions,
        data=data,
        origin=wire.origin,
    )


def _decode_data(
    name: str, kind: type[EventData], raw: msgspec.Raw | bytes, body: bytes
) -> AnyData:
    try:
        return cast("AnyData", _DECODERS[name].decode(raw))
    except msgspec.ValidationError as error:
        found = why_refused(kind, raw, f"{name}.data")
        if found is not None:
            raise found from error
        reason = str(error).replace("`$", "`$.data", 1)
        raise why_malformed(body, error, f"{name}: {reason}") from error
    except msgspec.DecodeError as error:
        raise why_malformed(body, error) from error


def _opaque(wire: _Wire, event_class: EventClass) -> OpaqueData:
    if len(wire.type) > MAX_TYPE_CHARS:
        raise LimitExceededError(
            "characters of an event's type", len(wire.type), MAX_TYPE_CHARS, "shorten it"
        )
    if not _TYPE_NAME.match(wire.type):
        raise MalformedEventError(
            f"type '{shorten(wire.type)}' is not valid: letters, digits, '.', '_' and '-', "
            "starting with a letter or digit"
        )
    raw = bytes(wire.data)
    if not raw.startswith(_OPENING_BRACE):
        raise MalformedEventError(f"{wire.type}: data must be an object, it is {preview(raw)}")
    return OpaqueData(raw=raw, event_class=event_class)


def _upcast(wire: _Wire, kind: type[EventData]) -> bytes:
    """Return the data in today's form, encoded: one decoder then checks old and new alike."""
    try:
        old = _OBJECT.decode(wire.data)
        return _ENCODER.encode(upcast(wire.type, wire.v, old, target=kind.VERSION))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Foreign bytes may claim an old version without having its form.
        raise MalformedEventError(
            f"{wire.type}: its data is not of version {wire.v} ({type(error).__name__}: {error})",
            preview(bytes(wire.data)),
        ) from error


def _mismatch(wire: _Wire, where: EventSubject) -> SubjectMismatchError:
    for field, in_subject, in_body in (
        ("task", where.task, wire.task),
        ("thread", where.thread, wire.thread),
        ("sender", where.sender, wire.sender),
    ):
        if in_subject != in_body:
            return SubjectMismatchError(field, in_subject, in_body)
    return SubjectMismatchError("mentions", ".".join(where.mentions), ".".join(wire.mentions))
