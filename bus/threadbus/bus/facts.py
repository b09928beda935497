"""What can be known of a server and of what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class StreamKind(StrEnum):
    """What a stream is for."""

    LOG = "log"
    """Events; one stream, or one for each partition."""
    HUB = "hub"
    """Mentions on their way to several streams of inboxes."""
    INBOXES = "inboxes"
    """Mentions that wait for agents."""
    OTHER = "other"
    """Registry, presence, artifacts."""


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """What is known of the server."""

    version: str
    url: str
    max_payload: int
    name: str


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """What is known of one of the streams that threadbus needs."""

    name: str
    exists: bool
    kind: StreamKind = StreamKind.OTHER
    """What it is for."""
    messages: int = 0
    bytes: int = 0
    last_seq: int = 0
    start: int = 0
    """The sequence behind which it begins: 0, but for the later partitions of the log."""
    consumers: int = 0
    copies: int = 1
    """Servers that keep a copy."""
    lag: int = 0
    """Messages of the log that have not arrived here yet, for a stream that is filled from it."""
    differences: tuple[str, ...] = ()
    """What is not as threadbus needs it, in words; empty where all is well."""


@dataclass(frozen=True, kw_only=True)
class StorageFacts:
    """What is known of everything that the server keeps, at one moment."""

    streams: tuple[StreamFacts, ...]
    server_time: int
    """Nanoseconds since the epoch by the server's clock; 0 where it does not say."""


class WaitingMention(NamedTuple):
    """A mention that has not been settled yet."""

    agent: str
    subject: str
    """The subject in the inbox: who is mentioned, in which task and thread, and by whom."""
    stored_at: int
    """Nanoseconds since the epoch when it was put into the inbox."""
