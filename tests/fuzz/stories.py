"""Targets that go further than one reader: a whole run shown in each form, and as an A2A task."""

from __future__ import annotations

import asyncio
import io
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
from google.protobuf import json_format

from threadbus.bus._nats.direct import stored_message
from threadbus.bus._nats.frames import FrameParser, description, header, status
from threadbus.bus._nats.places import source_of
from threadbus.gateways.a2a.view import TaskView
from threadbus.replay import FileSource, Format, ReplayError, parse_line, show
from threadbus.replay.findings.watch import FindingOptions
from threadbus.replay.show import Request
from threadbus.schemas import (
    AgentRecord,
    LimitRecord,
    Presence,
    Recorded,
    SchemaError,
    decode_entry,
    encode_entry,
)

_WIDTH: Final = 80
_FORMS: Final = tuple(Format)
_NAMES: Final = (b"Nats-Sequence", b"Nats-Time-Stamp", b"Nats-Subject", b"Nats-Num-Pending")


def stories(data: bytes) -> None:
    """A file of a run is shown in any form and analysed, or a ReplayError."""
    recorded = [item for item in map(parse_line, data.splitlines()) if isinstance(item, Recorded)]
    if not recorded:
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        # In one form each: in all of them the fuzzer would be ten times as slow.
        request = Request(
            task=recorded[0].event.task,
            format=_FORMS[crc32(data) % len(_FORMS)],
            findings=FindingOptions(),
            width=_WIDTH,
            has_color=False,
        )
        with suppress(ReplayError):
            asyncio.run(_shown(Path(file.name), request))


async def _shown(path: Path, request: Request) -> None:
    raw = io.BytesIO()
    await show(FileSource(path), request, io.StringIO(), raw, lambda _: None)
    if request.format in {Format.JSON, Format.CHROME_TRACE, Format.OTLP_JSON}:
        msgspec.json.decode(raw.getvalue())


def tasks(data: bytes) -> None:
    """What an A2A client is told of any log can be sent to it."""
    views: dict[str, TaskView] = {}
    for line in data.splitlines():
        item = parse_line(line)
        if not isinstance(item, Recorded):
            continue
        task = item.event.task
        view = views.setdefault(
            task, TaskView(task, lambda part: f"https://example.com/{part.sha256}")
        )
        for _, update in view.apply(item):
            json_format.MessageToJson(update)
            update.SerializeToString()
    for view in views.values():
        json_format.MessageToJson(view.task())


def frames(data: bytes) -> None:
    """What is stored beside a message is taken or passed over; pieces make the same messages."""
    status(data)
    description(data)
    source_of(data)
    stored_message(b"", data)
    for name in _NAMES:
        header(data, name)
    whole, pieces = _Taken(), _Taken()
    whole.feed([data])
    half = len(data) // 2
    pieces.feed([data[:half], data[half : half + 1], data[half + 1 :]])
    if whole.taken != pieces.taken:
        raise AssertionError(f"{pieces.taken!r} instead of {whole.taken!r}")


class _Taken:
    """Takes every message of a connection, up to what is left to nats-py."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, ...]] = []
        self._parser = FrameParser(self)
        self._is_over = False

    def feed(self, pieces: list[bytes]) -> None:
        """Hand over bytes as they arrive."""
        for piece in pieces:
            if not self._is_over:
                self._parser.feed(piece, self._end)

    def _end(self, _rest: bytes) -> None:
        self._is_over = True

    def take_frame(self, sid: bytes, subject: bytes, reply: bytes, body: bytes, raw: bytes) -> bool:
        """Take a message."""
        self.taken.append((sid, subject, reply, body, raw))
        return True

    async def pass_on(
        self, sid: int, subject: bytes, reply: bytes, body: bytes, raw: bytes
    ) -> None:
        """Is not called: nothing is parsed by nats-py."""
        raise AssertionError(sid, subject, reply, body, raw)


def entries(data: bytes) -> None:
    """A record, a heartbeat, limits, or a SchemaError; what was taken in reads the same again."""
    for kind in (AgentRecord, Presence, LimitRecord):
        try:
            entry = decode_entry(data, kind)
        except SchemaError as error:
            if not 0 < len(str(error)) < 5000:
                raise AssertionError(f"a refusal of {len(str(error))} characters") from error
            continue
        again = decode_entry(encode_entry(entry), kind)
        if again != entry:
            raise AssertionError(f"{again!r} instead of {entry!r}")
