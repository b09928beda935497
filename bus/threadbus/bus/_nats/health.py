"""Looks at a server for its operator: one request a stream, and none that changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus._nats.direct import parse_time
from threadbus.bus._nats.expiry import expiries
from threadbus.bus.errors import BusError, PermissionDeniedError, ReadError, ReadTimeoutError
from threadbus.bus.health import (
    AccountFacts,
    ConsumerFacts,
    Health,
    ReplicaFacts,
    SourceFacts,
    StreamHealth,
    Unseen,
)
from threadbus.bus.settings import BusSettings
from threadbus.schemas import AgentName, inbox_filter

_TIMEOUT_S: Final = 10.0
_INBOX: Final = "agent-"
_MAX_CONSUMERS: Final = 100_000
"""Consumers of one stream that are looked at."""


class _Error(msgspec.Struct):
    description: str = ""


class _Config(msgspec.Struct):
    num_replicas: int = 1
    max_bytes: int = -1
    max_msgs: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    deliver_subject: str = ""
    sources: tuple[Any, ...] = ()


class _Peer(msgspec.Struct):
    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0


class _Cluster(msgspec.Struct):
    leader: str = ""
    replicas: tuple[_Peer, ...] = ()


class _Source(msgspec.Struct):
    name: str = ""
    lag: int = 0
    active: int = -1
    error: _Error | None = None


class _Stream(msgspec.Struct):
    error: _Error | None = None
    created: str = ""
    config: _Config = msgspec.field(default_factory=_Config)
    cluster: _Cluster | None = None
    sources: tuple[_Source, ...] = ()


class _Consumer(msgspec.Struct):
    name: str = ""
    created: str = ""
    config: _Config = msgspec.field(default_factory=_Config)
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    push_bound: bool = False


class _Consumers(msgspec.Struct):
    error: _Error | None = None
    total: int = 0
    consumers: tuple[_Consumer, ...] | None = ()


class _Limits(msgspec.Struct):
    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1


class _Account(msgspec.Struct):
    error: _Error | None = None
    memory: int = 0
    storage: int = 0
    streams: int = 0
    consumers: int = 0
    limits: _Limits = msgspec.field(default_factory=_Limits)


class _Purged(msgspec.Struct):
    error: _Error | None = None
    purged: int = 0


_AnswerT = TypeVar("_AnswerT", _Stream, _Consumers, _Account, _Purged)


async def look_at_health(
    client: DirectClient, settings: BusSettings, streams: Sequence[str]
) -> Health:
    """Look at everything that these credentials may see."""
    healths: list[StreamHealth] = []
    consumers: list[ConsumerFacts] = []
    hidden: list[Unseen] = []
    account = None
    for name in streams:
        try:
            found = await _call(client, f"STREAM.INFO.{name}", _Stream)
            healths.append(_stream(name, found))
            # Only what is filled from another stream has inboxes.
            if found.config.sources:
                consumers += await _consumers(client, name)
        except BusError as error:
            what = f"the inboxes on {name}" if len(healths) and healths[-1].name == name else name
            hidden.append(Unseen.because(what, error))
    try:
        account = _account(await _call(client, "INFO", _Account))
    except BusError as error:
        hidden.append(Unseen.because("the account", error))
    return Health(
        streams=tuple(healths),
        consumers=tuple(consumers),
        account=account,
        expiries=tuple(expiries(client, settings)),
        unseen=tuple(hidden),
    )


async def drop_mentions(client: DirectClient, agent: str, stream: str) -> int:
    """Take what waits for *agent* out of its inbox; return how many."""
    what = f"the inbox of {agent}"
    request = msgspec.json.encode({"filter": inbox_filter(AgentName(agent))})
    return (await _call(client, f"STREAM.PURGE.{stream}", _Purged, request, what)).purged


async def _call(
    client: DirectClient, subject: str, kind: type[_AnswerT], body: bytes = b"", what: str = ""
) -> _AnswerT:
    what = what or subject
    try:
        reply = await client.ask(f"$JS.API.{subject}", body, timeout_s=_TIMEOUT_S)
        answer = msgspec.json.decode(reply.body, type=kind)
    except PermissionDeniedError:
        raise
    except (NatsError, TimeoutError) as error:
        raise ReadTimeoutError(what, str(error) or "no answer in time") from error
    except msgspec.DecodeError as error:
        raise ReadError(what, f"an answer that is none: {error}") from error
    if answer.error is not None:
        raise ReadError(what, answer.error.description)
    return answer


def _stream(name: str, found: _Stream) -> StreamHealth:
    cluster = found.cluster or _Cluster()
    return StreamHealth(
        name=name,
        created_at=parse_time(found.created) if found.created else 0,
        leader=cluster.leader,
        copies=found.config.num_replicas,
        replicas=tuple(
            ReplicaFacts(
                server=peer.name,
                current=peer.current,
                offline=peer.offline,
                lag=peer.lag,
                silent_ns=peer.active,
            )
            for peer in cluster.replicas
        ),
        sources=tuple(
            SourceFacts(
                stream=source.name,
                lag=source.lag,
                silent_ns=None if source.active < 0 else source.active,
                error="" if source.error is None else source.error.description,
            )
            for source in found.sources
        ),
        max_bytes=_bound(found.config.max_bytes),
        max_messages=_bound(found.config.max_msgs),
        max_consumers=_bound(found.config.max_consumers),
    )


async def _consumers(client: DirectClient, stream: str) -> list[ConsumerFacts]:
    found: list[ConsumerFacts] = []
    while True:
        request = msgspec.json.encode({"offset": len(found)})
        answer = await _call(client, f"CONSUMER.LIST.{stream}", _Consumers, request)
        page = answer.consumers or ()
        found += [_consumer(stream, one) for one in page]
        if not page or len(found) >= min(answer.total, _MAX_CONSUMERS):
            return found


def _consumer(stream: str, found: _Consumer) -> ConsumerFacts:
    pushed = bool(found.config.deliver_subject)
    return ConsumerFacts(
        stream=stream,
        name=found.name,
        agent=found.name.removeprefix(_INBOX) if found.name.startswith(_INBOX) else "",
        created_at=parse_time(found.created) if found.created else 0,
        pending=found.num_pending,
        unacknowledged=found.num_ack_pending,
        max_unacknowledged=found.config.max_ack_pending,
        redelivered=found.num_redelivered,
        listeners=int(found.push_bound) if pushed else found.num_waiting,
    )


def _account(found: _Account) -> AccountFacts:
    return AccountFacts(
        file_bytes=found.storage,
        max_file_bytes=_bound(found.limits.max_storage),
        memory_bytes=found.memory,
        max_memory_bytes=_bound(found.limits.max_memory),
        streams=found.streams,
        max_streams=_bound(found.limits.max_streams),
        consumers=found.consumers,
        max_consumers=_bound(found.limits.max_consumers),
    )


def _bound(limit: int) -> int | None:
    return limit if limit > 0 else None
