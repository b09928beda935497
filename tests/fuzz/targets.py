"""What is fuzzed: each takes bytes of any kind, and may only refuse them in the way it promises.

A target raises where a promise is broken: any other error than the promised one, or a value that
does not survive the way there and back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from tests.fuzz import stories
from threadbus.gateways.a2a import parts as a2a_parts
from threadbus.gateways.errors import GatewayError
from threadbus.gateways.mcp import arguments as mcp_arguments
from threadbus.gateways.mcp.references import parse_thread, parse_uri, read_cursor, trace_of
from threadbus.gateways.mcp.translate import is_shown, message_of, says
from threadbus.replay import TimelineFold, parse_line
from threadbus.replay.errors import ImportFileError
from threadbus.replay.importing.reading import import_file
from threadbus.replay.verifying import Verifier
from threadbus.schemas import (
    AgentCard,
    AgentName,
    AgentRecord,
    Presence,
    Recorded,
    SchemaError,
    TaskOpened,
    decode_event,
    decode_recorded_event,
    encode_entry,
    encode_event,
    export_line,
    parse_event_subject,
)

Target = Callable[[bytes], None]

GOLDEN: Final = Path(__file__).parent.parent / "golden"
CASES: Final = GOLDEN / "fuzz"
"""Further files to begin with, and those that once broke something; a folder for each target."""

_EVENTS: Final = 5
"""So many fit into what the fuzzer makes at most."""

_READER: Final = AgentName("web")


def codec(data: bytes) -> None:
    """An event or a SchemaError; what was taken in can be sent on and reads the same."""
    try:
        event = decode_event(data)
    except SchemaError as error:
        _says(error)
        return
    again = encode_event(event)
    _same(decode_event(again), event)
    _same(decode_recorded_event(event.subject, again), event)


def subjects(data: bytes) -> None:
    """A subject or a SchemaError."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = parse_event_subject(text)
    except SchemaError as error:
        _says(error)
        return
    words = (found.task, found.thread, found.event_class.value, found.sender, *found.mentions)
    _same(".".join(("bus", *words)), text)


def a2a(data: bytes) -> None:
    """Parts of the bus, or a refusal; what was taken in can be given out again."""
    message = pb.Message()
    try:
        if data[:1] == b"{":
            json_format.Parse(data, message, max_recursion_depth=50)
        else:
            message.ParseFromString(data)
    except (json_format.Error, DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        # The SDK refuses these before any of ours sees them.
        return
    try:
        parts = a2a_parts.to_bus(message.parts, message.metadata)
    except (GatewayError, SchemaError) as error:
        _says(error)
        return
    a2a_parts.to_a2a(parts, lambda reference: f"https://example.com/{reference.sha256}")


def mcp(data: bytes) -> None:
    """Arguments of tools, references and cursors: taken, or refused by a promised error."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_thread, parse_uri):
        try:
            parse(text)
        except (GatewayError, SchemaError) as error:
            _says(error)
    try:
        read_cursor(_READER, text)
    except (GatewayError, SchemaError) as error:
        _says(error)
    trace_of(text)
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        given = msgspec.json.decode(data)
        for kind in _ARGUMENTS:
            with suppress(msgspec.ValidationError):
                msgspec.convert(given, kind, strict=True)
    with suppress(SchemaError):
        event = decode_event(data)
        message_of(event, _READER)
        is_shown(event)
        says(event)


def lines(data: bytes) -> None:
    """A line of an export is an entry or a report of one; both can be folded and checked."""
    fold, verifier = TimelineFold(), Verifier()
    for number, line in enumerate(data.splitlines(), 1):
        item = parse_line(line, number)
        fold.apply(item)
        verifier.take(item)
        if isinstance(item, Recorded):
            _same(parse_line(export_line(item), number), item)
    verifier.finish()


def imports(data: bytes) -> None:
    """A file of another system is runs, or an ImportFileError."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        try:
            for run in import_file(Path(file.name)):
                for entry in run.entries:
                    encode_event(entry.event)
        except ImportFileError as error:
            _says(error)


_ARGUMENTS: Final[tuple[Any, ...]] = tuple(
    kind
    for kind in vars(mcp_arguments).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
)

TARGETS: Final[dict[str, Target]] = {
    "codec": codec,
    "subjects": subjects,
    "a2a": a2a,
    "mcp": mcp,
    "lines": lines,
    "imports": imports,
    "stories": stories.stories,
    "tasks": stories.tasks,
    "frames": stories.frames,
    "entries": stories.entries,
}


def seeds(name: str) -> Iterator[bytes]:
    """Return what a target begins with: golden files, and what once broke it."""
    events = sorted((GOLDEN / "events").glob("*/*.json"))
    match name:
        case "subjects":
            for path in events:
                yield decode_event(path.read_bytes()).subject.encode()
        case "a2a":
            yield pb.Message(parts=[pb.Part(text="hi"), pb.Part(raw=b"\0")]).SerializeToString()
        case "lines":
            for number, path in enumerate(events, 1):
                event = decode_event(path.read_bytes())
                yield export_line(Recorded(number, event, 0, path.read_bytes()))
        case "stories" | "tasks":
            yield from _runs()
        case "imports" | "frames":
            pass
        case "entries":
            card = AgentCard(name="web")
            record = AgentRecord(card=card, holder="i1", host="h", pid=1, registered_at=1)
            yield encode_entry(record)
            yield encode_entry(Presence(agent="web", instance="i1", holder="i1"))
        case _:
            for path in events:
                yield path.read_bytes()
    for path in sorted((CASES / name).glob("*")):
        yield path.read_bytes()


def _runs() -> Iterator[bytes]:
    """Return short runs as an export has them: the opening, and some other events."""
    bodies = [path.read_bytes() for path in sorted((GOLDEN / "events").glob("*/*.json"))]
    parsed = [(decode_event(body), body) for body in bodies]
    opening = next(one for one in parsed if isinstance(one[0].data, TaskOpened))
    others = [one for one in parsed if one[0].task == opening[0].task and one is not opening]
    for start in range(0, len(others), _EVENTS):
        some = (opening, *others[start : start + _EVENTS])
        yield b"\n".join(
            export_line(Recorded(number, event, number * 1_000_000, body))
            for number, (event, body) in enumerate(some, 1)
        )


def _says(error: Exception) -> None:
    if not 0 < len(str(error)) < 5000:
        raise AssertionError(f"a refusal of {len(str(error))} characters")


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")
