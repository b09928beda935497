"""JSON Schemas (draft 2020-12) of everything on the wire, generated from the structs."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, Optional, TypeAlias, cast

import msgspec
import msgspec.inspect as mi

from threadbus.schemas.bounds import HexId, Mentioned, Name, Positive, TimeNs, TypeName
from threadbus.schemas.cards import AgentRecord, Presence
from threadbus.schemas.envelope import Event, Origin
from threadbus.schemas.events import DATA_TYPES, EventData
from threadbus.schemas.limit_records import LimitRecord

Json: TypeAlias = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ENVELOPE: Final = "Envelope"

# An envelope's ids and names are plain strings to msgspec; the codec checks them.
_ENVELOPE_TYPES: Final[dict[str, object]] = {
    "v": Positive,
    "id": HexId,
    "type": TypeName,
    "task": HexId,
    "thread": Name,
    "sender": Name,
    "at": TimeNs,
    "cause": Optional[HexId],  # noqa: UP045 - pyright has no ``|`` for what is Annotated
    "mentions": Mentioned,
    "data": dict,
    "origin": Origin,
}
_OPTIONAL: Final = frozenset({"cause", "mentions", "origin"})


def definitions(ref_prefix: str) -> Json:
    """Return the schema of the envelope, of every type's data and of all that they use.

    Args:
        ref_prefix: what a reference puts before a name, ``#/$defs/`` for instance.
    """
    structs: list[type[msgspec.Struct]] = [
        *DATA_TYPES.values(),
        AgentRecord,
        Presence,
        LimitRecord,
        Origin,
    ]
    _, components = msgspec.json.schema_components(structs, ref_template=ref_prefix + "{name}")
    for struct in _all_structs(structs):
        _describe_fields(components[struct.__name__], struct)
    for name, kind in DATA_TYPES.items():
        about = {"x-type": name, "x-version": kind.VERSION, "x-class": kind.CLASS.value}
        components[kind.__name__].update(about)
    everything: Json = {ENVELOPE: _envelope(ref_prefix), **dict(sorted(components.items()))}
    return {name: _tidy(schema) for name, schema in everything.items()}


def _envelope(ref_prefix: str) -> Json:
    properties: Json = {
        name: msgspec.json.schema(_ENVELOPE_TYPES[name]) for name in Event.__struct_fields__
    }
    properties["origin"] = {"$ref": f"{ref_prefix}Origin"}
    cast("Json", properties["mentions"])["uniqueItems"] = True
    required = [name for name in Event.__struct_fields__ if name not in _OPTIONAL]
    schema: Json = {
        "title": ENVELOPE,
        "description": "What every event has, whatever its type. Fields that are not known are "
        "passed over; a type or a version that is not known is kept as it came.",
        "type": "object",
        "properties": properties,
        "required": required,
    }
    _describe_fields(schema, Event)
    return schema


def branch(name: str, kind: type[EventData], ref_prefix: str) -> Json:
    """Return what an event of one type says beyond the envelope."""
    return {
        "title": name,
        "properties": {
            "v": {"const": kind.VERSION},
            "type": {"const": name},
            "data": {"$ref": ref_prefix + kind.__name__},
        },
    }


def event_schema() -> Json:
    """Return the schema of a whole event, one branch for each type."""
    return {
        "$schema": DIALECT,
        "$id": "urn:threadbus:event",
        "title": "Event",
        "description": "One fact in the log of a super-task.",
        "allOf": [{"$ref": f"#/$defs/{ENVELOPE}"}],
        "oneOf": [branch(name, kind, "#/$defs/") for name, kind in DATA_TYPES.items()],
        "$defs": _reachable([ENVELOPE, *(kind.__name__ for kind in DATA_TYPES.values())]),
    }


def struct_schema(struct: type[msgspec.Struct], urn: str) -> Json:
    """Return the schema of one struct, with all that it uses."""
    parts = _reachable([struct.__name__])
    own = cast("Json", parts.pop(struct.__name__))
    schema: Json = {"$schema": DIALECT, "$id": f"urn:threadbus:{urn}", **own}
    return {**schema, "$defs": parts} if parts else schema


def _reachable(names: Sequence[str]) -> Json:
    """Return the definitions with these *names* and all that they refer to, sorted."""
    everything = _definitions()
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_references(everything[name]))
    return {name: everything[name] for name in sorted(found)}


@cache
def _definitions() -> Json:
    return definitions("#/$defs/")


def _references(node: object) -> list[str]:
    if isinstance(node, list):
        return [name for item in cast("list[object]", node) for name in _references(item)]
    if not isinstance(node, dict):
        return []
    members = cast("Json", node)
    inner = [name for item in members.values() for name in _references(item)]
    target = members.get("$ref")
    return [*inner, target.rpartition("/")[2]] if isinstance(target, str) else inner


def _tidy(node: object) -> object:
    """Turn what msgspec generates into what every validator reads alike."""
    if isinstance(node, list):
        return [_tidy(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    # ``discriminator`` is OpenAPI's; the tag has a constant in each alternative anyway.
    members = {
        key: _tidy(item) for key, item in cast("Json", node).items() if key != "discriminator"
    }
    pattern, words = members.get("pattern"), members.get("description")
    if isinstance(pattern, str):
        members["pattern"] = pattern.removesuffix(r"\Z") + "$"
    if isinstance(words, str):
        members["description"] = words.replace("``", "`")
    if "$ref" in members and len(members) > 1:
        # Before draft 2019-09 what stands beside a reference is passed over.
        members = {"allOf": [{"$ref": members.pop("$ref")}], **members}
    return members


def _all_structs(roots: Sequence[type[msgspec.Struct]]) -> set[type[msgspec.Struct]]:
    """Return *roots* and every struct that their fields hold."""
    found: set[type[msgspec.Struct]] = set()
    waiting: list[object] = [*mi.multi_type_info(roots)]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, mi.StructType):
            if kind.cls in found:
                continue
            found.add(kind.cls)
            waiting.extend(field.type for field in kind.fields)
        elif isinstance(kind, mi.Metadata):
            waiting.append(kind.type)
        elif isinstance(kind, mi.UnionType):
            waiting.extend(kind.types)
        elif isinstance(kind, mi.VarTupleType):
            waiting.append(kind.item_type)
    return found


def _describe_fields(schema: Json, struct: type[msgspec.Struct]) -> None:
    """Add the text that stands under a field in the source as its description."""
    properties = cast("dict[str, Json]", schema["properties"])
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    body = cast("ast.ClassDef", tree).body
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as words)),
            ):
                properties[name]["description"] = " ".join(words.split())
            case _:
                pass
