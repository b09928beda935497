"""The streams that threadbus needs, as data, and how a server is brought to them.

Each spec says what must hold. What exists is compared field by field: what may be changed in
place is updated, anything else is refused with what differs. Several processes may do this at
once: creating what another has just created is the same as finding it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from threadbus.bus._nats.api import ApiAnswer, api
from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import parse_time
from threadbus.bus._nats.layout import (
    INBOX_STREAM,
    INBOXES_KEY,
    PARTITIONS_KEY,
    Layout,
)
from threadbus.bus.errors import (
    JetStreamMissingError,
    NoServerError,
    ReadError,
    ServerTooOldError,
    StreamMismatchError,
)
from threadbus.bus.facts import StreamFacts, StreamKind
from threadbus.schemas import LOG_SUBJECTS, MAX_MENTIONS, STORED_PREFIX, partition_start

MINIMUM_VERSION: Final = (2, 12)
DEDUP_WINDOW_NS: Final = 120 * 1_000_000_000
AGENTS_BUCKET: Final = "AGENTS"
PRESENCE_BUCKET: Final = "PRESENCE"
ARTIFACTS_BUCKET: Final = "ARTIFACTS"
POSITIONS_BUCKET: Final = "POSITIONS"
_MARKER_TTL_NS: Final = 60 * 1_000_000_000
_IN_USE: Final = 10058
_PATIENCE_S: Final = 2.0
READY_S: Final = 15.0
"""Time that JetStream has to be ready once there is a connection."""
RETRY_S: Final = 0.2
_NOT_READY: Final = frozenset({10004, 10005, 10008, 10009})
NOT_FOUND: Final = 10059
_ONE: Final = Layout()
_CLAIM: Final = "bus.partitioned"
"""A subject of the first partition on which nothing is sent: the server refuses a second log, as
the one of a client that knows nothing of partitions, since its subjects would overlap."""
HUB_AGE_NS: Final = 24 * 3600 * 1_000_000_000
"""How long the hub keeps a mention for an inbox stream that takes nothing; the rest is its cost."""
_LONG_FORM: Final = re.compile(r"\{\{wildcard\((\d+)\)\}\}")


@dataclass(frozen=True)
class StreamSpec:
    """What one stream must be like."""

    name: str
    config: Mapping[str, Any]
    """As the JetStream API takes it; a field that is absent is left to the server."""
    fixed: frozenset[str] = field(default_factory=frozenset[str])
    """Fields that the server cannot, or must not, change afterwards."""
    kind: StreamKind = StreamKind.OTHER
    start: int = 0
    """The sequence behind which it begins."""


# Subjects could be changed. A stream with others is somebody else's, and to be left alone.
_FIXED: Final = frozenset({"subjects", "storage", "retention", "deny_delete", "deny_purge"})


def inbox_sources(layout: Layout = _ONE) -> list[dict[str, Any]]:
    """Return one source for each position among the mentions of an event, of each log stream.

    A source keeps the order of the log, several among one another do not: so all events that
    mention an agent at one position come through one source, however many they mention.

    Without ``opt_start_seq`` a source that starts late begins at "now" and loses what came before.
    """
    # Filled into several inboxes, the hub says first which one it is for.
    before = "mention." if layout.inboxes == 1 else f"hub.{{{{partition({layout.inboxes},%d)}}}}."
    return [
        {
            "name": log_stream,
            "opt_start_seq": 1,
            "subject_transforms": [
                {
                    "src": "bus.*.*.*.*" + ".*" * count,
                    # The short form of {{wildcard(n)}}: the server writes all of a source's
                    # transforms into a header of each message that comes through it.
                    "dest": before.replace("%d", str(4 + position))
                    + f"${4 + position}.$1.$2.$3.$4",
                }
                for count in range(position, MAX_MENTIONS + 1)
            ],
        }
        for log_stream in layout.log_streams
        for position in range(1, MAX_MENTIONS + 1)
    ]


def _log_specs(layout: Layout, replicas: int) -> Iterator[StreamSpec]:
    """Return the streams of the log: one, or one for each partition."""
    for partition, name in enumerate(layout.log_streams):
        config: dict[str, Any] = {
            "subjects": [LOG_SUBJECTS],
            "storage": "file",
            "retention": "limits",
            # Full means refused, not that the beginning of the log goes away.
            "discard": "new",
            "allow_direct": True,
            "deny_delete": True,
            "deny_purge": True,
            "duplicate_window": DEDUP_WINDOW_NS,
            "no_ack": False,
            "republish": {"src": LOG_SUBJECTS, "dest": STORED_PREFIX + LOG_SUBJECTS},
            "num_replicas": replicas,
        }
        if layout.partitions > 1:
            # What comes on part.<i>.<task>.… is stored as bus.<task>.…: a reader in any language
            # finds what it would find in one stream.
            sent = f"part.{partition}.>"
            config |= {
                "subjects": [sent, *([_CLAIM] if partition == 0 else [])],
                "subject_transform": {"src": sent, "dest": LOG_SUBJECTS},
                "metadata": {PARTITIONS_KEY: str(layout.partitions)},
            }
            if partition:
                config["first_seq"] = partition_start(partition) + 1
        yield StreamSpec(
            name,
            config,
            _FIXED | {"subject_transform", "metadata", "first_seq"},
            StreamKind.LOG,
            partition_start(partition),
        )


def _inbox_specs(layout: Layout, replicas: int) -> Iterator[StreamSpec]:
    """Return the stream of the inboxes, or the hub and those that are filled from it."""
    queue: dict[str, Any] = {
        # The copies of one event share their Nats-Msg-Id: all but one would be dropped.
        "duplicate_window": 0,
        "storage": "file",
        "retention": "workqueue",
        "num_replicas": replicas,
    }
    # Another set of sources would deliver everything since the beginning once more.
    fixed = _FIXED - {"deny_delete", "deny_purge"} | {"sources", "metadata"}
    if layout.inboxes == 1:
        config = queue | {"sources": inbox_sources(layout)}
        yield StreamSpec(INBOX_STREAM, config, fixed, StreamKind.INBOXES)
        return
    hub = {
        "retention": "limits",
        "max_age": HUB_AGE_NS,
        "allow_direct": True,
        "sources": inbox_sources(layout),
        "metadata": {INBOXES_KEY: str(layout.inboxes)},
    }
    yield StreamSpec(INBOX_STREAM, queue | hub, fixed, StreamKind.HUB)
    for number, name in enumerate(layout.inbox_streams):
        transform = {"src": f"hub.{number}.*.*.*.*.*", "dest": "mention.$1.$2.$3.$4.$5"}
        source = {"name": INBOX_STREAM, "opt_start_seq": 1, "subject_transforms": [transform]}
        yield StreamSpec(name, queue | {"sources": [source]}, fixed, StreamKind.INBOXES)


def _bucket(name: str, **extra: Any) -> StreamSpec:
    return StreamSpec(
        f"KV_{name}",
        {
            "subjects": [f"$KV.{name}.>"],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "storage": "file",
            "allow_direct": True,
            # Who may write one key could otherwise take all others away, by a header.
            "allow_rollup_hdrs": False,
            "deny_delete": True,
            **extra,
        },
        _FIXED - {"deny_purge"},
    )


def specs(layout: Layout, replicas: int) -> tuple[StreamSpec, ...]:
    """Return every stream, in the order in which they are made."""
    return (
        *_log_specs(layout, replicas),
        *_inbox_specs(layout, replicas),
        _bucket(AGENTS_BUCKET, num_replicas=replicas),
        _bucket(
            PRESENCE_BUCKET,
            # The server wants it for the markers. Heartbeats that are taken away come again.
            allow_rollup_hdrs=True,
            allow_msg_ttl=True,
            subject_delete_marker_ttl=_MARKER_TTL_NS,
            num_replicas=replicas,
        ),
        StreamSpec(
            f"OBJ_{ARTIFACTS_BUCKET}",
            {
                "subjects": [f"$O.{ARTIFACTS_BUCKET}.C.>", f"$O.{ARTIFACTS_BUCKET}.M.>"],
                "discard": "new",
                "storage": "file",
                "allow_direct": True,
                "allow_rollup_hdrs": False,
                "num_replicas": replicas,
            },
            _FIXED - {"deny_delete", "deny_purge"},
        ),
    )


def positions_spec(replicas: int) -> StreamSpec:
    """Return the bucket of the consumers of the whole log: made by the first of them."""
    return _bucket(POSITIONS_BUCKET, num_replicas=replicas)


async def check_server(client: DirectClient, url: str) -> None:
    """Check the server's version and that it has JetStream for this account.

    Raises:
        ServerTooOldError: it is before 2.12.
        JetStreamMissingError: JetStream is off.
        NoServerError: it does not answer.
    """
    version = client.server_version
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < MINIMUM_VERSION:
        raise ServerTooOldError(url, version, ".".join(map(str, MINIMUM_VERSION)))
    info = await _info(client, url)
    if info.error is not None:
        raise JetStreamMissingError(url, info.error.description)


async def _info(client: DirectClient, url: str) -> ApiAnswer:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            return await ready(client, "INFO")
        except NoRespondersError as error:
            raise JetStreamMissingError(url) from error
        except (NatsError, TimeoutError) as error:
            # A cluster that has no leader yet says nothing.
            if time.monotonic() >= deadline:
                raise NoServerError(url, str(error) or "JetStream does not answer") from error
        await asyncio.sleep(RETRY_S)


async def ready(
    client: DirectClient, subject: str, request: Mapping[str, Any] | None = None
) -> ApiAnswer:
    """Call the API; an answer that only says "not now" is an error to try again after.

    Raises:
        nats.errors.Error, TimeoutError: not now, or there was no answer.
    """
    answer = await api(client, subject, request, timeout_s=_PATIENCE_S)
    if answer.error is not None and answer.err_code in _NOT_READY:
        raise NatsError(answer.error.description)
    return answer


async def ensure_stream(client: DirectClient, spec: StreamSpec) -> str:
    """Create, check or update one stream. Idempotent; safe when several do it at once.

    Returns:
        ``created``, ``unchanged`` or ``updated``.

    Raises:
        StreamMismatchError: it exists and cannot be changed to what is needed.
    """
    found = await ready(client, f"STREAM.INFO.{spec.name}")
    if found.err_code == NOT_FOUND:
        wanted = {"name": spec.name, **spec.config}
        made = await ready(client, f"STREAM.CREATE.{spec.name}", wanted)
        if made.error is None:
            return "created"
        if made.err_code != _IN_USE:
            raise StreamMismatchError(spec.name, [made.error.description])
        found = await ready(client, f"STREAM.INFO.{spec.name}")
    if found.error is not None:
        raise StreamMismatchError(spec.name, [found.error.description])
    wrong = differences(spec, found.config)
    if not wrong:
        return "unchanged"
    unchangeable = [text for name, text in wrong.items() if name in spec.fixed]
    if unchangeable:
        raise StreamMismatchError(spec.name, unchangeable)
    wanted = {**found.config, **{name: spec.config[name] for name in wrong}}
    changed = await ready(client, f"STREAM.UPDATE.{spec.name}", wanted)
    if changed.error is not None:
        raise StreamMismatchError(spec.name, [*wrong.values(), changed.error.description])
    return "updated"


async def stream_facts(client: DirectClient, spec: StreamSpec) -> tuple[StreamFacts, int]:
    """Look at one stream without making or changing it.

    Returns:
        What is known of it, and the server's clock in nanoseconds (0 where it does not say).

    Raises:
        ReadError: the server refuses to tell.
    """
    found = await api(client, f"STREAM.INFO.{spec.name}")
    if found.err_code == NOT_FOUND:
        return StreamFacts(name=spec.name, exists=False, kind=spec.kind, start=spec.start), 0
    if found.error is not None:
        raise ReadError(f"stream {spec.name}", found.error.description)
    facts = StreamFacts(
        name=spec.name,
        exists=True,
        kind=spec.kind,
        start=spec.start,
        messages=found.state.messages,
        bytes=found.state.bytes,
        last_seq=found.state.last_seq,
        consumers=found.state.consumer_count,
        copies=int(found.config.get("num_replicas", 1)),
        lag=max((source.lag for source in found.sources), default=0),
        differences=tuple(differences(spec, found.config).values()),
    )
    return facts, parse_time(found.ts) if found.ts else 0


def differences(spec: StreamSpec, config: Mapping[str, Any]) -> dict[str, str]:
    """Return what differs between a spec and what the server has, by field."""
    wrong: dict[str, str] = {}
    for name, wanted in spec.config.items():
        if name == "num_replicas":
            # How many copies are kept is the operator's to change.
            continue
        has = config.get(name)
        if name == "metadata":
            # The server adds its own.
            has = {key: metadata_of(config).get(key) for key in wanted}
        if name == "sources":
            same = _source_keys(has) == _source_keys(wanted)
            shown = f"{name} are not the {len(wanted)} that fan mentions out"
        else:
            # The server leaves out what is empty.
            same = has == wanted or not (has or wanted)
            shown = f"{name} is {has!r} and must be {wanted!r}"
        if not same:
            wrong[name] = shown
    return wrong


def metadata_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what is kept beside the configuration of a stream."""
    return msgspec.convert(config.get("metadata") or {}, dict[str, str])


class _Transform(msgspec.Struct):
    src: str = ""
    dest: str = ""

    def __post_init__(self) -> None:
        # Both forms mean the same.
        self.dest = _LONG_FORM.sub(r"$\1", self.dest)


class _Source(msgspec.Struct):
    name: str = ""
    opt_start_seq: int = 0
    subject_transforms: tuple[_Transform, ...] = ()

    def __post_init__(self) -> None:
        # A restored inbox goes on where the backup was made; only to have none is wrong.
        self.opt_start_seq = min(self.opt_start_seq, 1)


def _source_keys(sources: object) -> list[_Source]:
    """Return what matters of each source; the server adds fields of its own."""
    return msgspec.convert(sources or [], list[_Source])
