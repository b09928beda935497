"""Entries of the registry and of presence to bytes and back, with the checks that events get."""

from __future__ import annotations

from typing import Final, TypeVar, cast

import msgspec

from threadbus.schemas.cards import AgentRecord, Presence
from threadbus.schemas.diagnosis import why_changed
from threadbus.schemas.jsontext import check_json, encode_json, why_malformed
from threadbus.schemas.limit_records import LimitRecord
from threadbus.schemas.limits import MAX_CARD_BYTES
from threadbus.schemas.refusal import why_refused

EntryT = TypeVar("EntryT", bound=AgentRecord | Presence | LimitRecord)

_DECODERS: Final[dict[type, msgspec.json.Decoder[msgspec.Struct]]] = {
    kind: msgspec.json.Decoder(kind) for kind in (AgentRecord, Presence, LimitRecord)
}
_NAMES: Final[dict[type, str]] = {
    AgentRecord: "registry entry",
    Presence: "presence entry",
    LimitRecord: "record of limits",
}


def encode_entry(entry: AgentRecord | Presence | LimitRecord) -> bytes:
    """Encode what the registry or the presence bucket keeps.

    Returns:
        UTF-8 bytes of one JSON object.

    Raises:
        SchemaError: as :func:`~threadbus.schemas.encode_event`.
    """
    name = _NAMES[type(entry)]
    body = encode_json(entry, name, name)
    problem = why_changed(entry, decode_entry(body, type(entry)), name)
    if problem is not None:
        raise problem
    return body


def decode_entry(body: bytes, kind: type[EntryT]) -> EntryT:
    """Decode what the registry or the presence bucket keeps.

    Args:
        body: what was stored.
        kind: ``AgentRecord``, ``Presence`` or ``LimitRecord``.

    Raises:
        SchemaError: it is not such an entry; says what is wrong.
    """
    name = _NAMES[kind]
    check_json(body, MAX_CARD_BYTES, name)
    try:
        return cast("EntryT", _DECODERS[kind].decode(body))
    except msgspec.ValidationError as error:
        found = why_refused(kind, body, name, name)
        raise found or why_malformed(body, error, what=name) from error
    except msgspec.DecodeError as error:
        raise why_malformed(body, error, what=name) from error
