"""A run without what was said in it: texts, and on wish names, become stable placeholders.

    ``[redacted 812 chars 3f2a9c01]``

The same text becomes the same placeholder all over one super-task, so repetitions can still be
seen. Who has a guess at a short text can check it against the hash, unless a key is given that they
do not have. Secrets that have a known shape (keys, tokens, passwords in URLs) go at every level.
Ids, times, counts, types, verdicts and the names of models and tools stay: the run can be loaded,
shown and analysed as before.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

import msgspec

from threadbus.replay.source import LogItem
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Recorded,
    Rejected,
    SchemaError,
    TaskId,
    ThreadId,
    decode_recorded_event,
    encode_event,
    event_subject,
)

MAX_KEY_BYTES: Final = 64
"""Bytes of a key that are used."""

_Json: TypeAlias = dict[str, Any]

# Bounded repetitions only: what agents wrote must not be able to slow this down.
_SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}-----)?"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,250}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,250}|\bgithub_pat_[A-Za-z0-9_]{20,250}"
    r"|\bglpat-[A-Za-z0-9_-]{16,100}|\bxox[abeprs]-[A-Za-z0-9-]{10,250}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
    r"|\beyJ[A-Za-z0-9_-]{8,600}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}"
    r"|\bS[AUOCNX][A-Z2-7]{56}\b"
    r"|(?i:\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{12,4000}"
    r"|(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}(?=@)"
    r"|(?i:\b(?:[a-z0-9]{1,20}[_-])?(?:password|passwd|secret|api[_-]?key|access[_-]?key|token))"
    r"[\"']?\s{0,4}[=:]\s{0,4}[^\s,;]{4,500}"
)
_SECRET_KEY: Final = re.compile(
    r".{0,40}(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization)"
    r"|(?:.{0,40}[_-])?token",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"\[(?:redacted [0-9,]{1,20} (?:chars|bytes)|secret) [0-9a-f]{8}\]", re.ASCII
)
_NO_HASH: Final = "0" * 32
_HIDDEN_NAME: Final = re.compile(r"(?:agent|thread|replica)-[0-9a-f]{8}", re.ASCII)
_QUOTED: Final = re.compile(r"'(?:\\.|[^'\\]){0,10000}'|\"(?:\\.|[^\"\\]){0,10000}\"")

# What the log is made of, and what an analysis of it needs.
_LABELS: Final = frozenset(
    {
        *("kind", "media_type", "of", "state", "status", "outcome", "mode", "lane", "verdict"),
        *("tool", "call_id", "model", "system", "finish_reason", "request", "answer"),
        *("replaces", "assignment", "proposal", "sources", "chunk_of", "task", "event"),
        *("triggers", "action", "limit"),
    }
)
_AGENTS: Final = frozenset(
    {
        *("agent", "agents", "participants", "participant", "assignee", "voters"),
        *("approvals", "rejections", "next_speakers", "set_by"),
    }
)
_ENVELOPE: Final = (
    *("v", "id", "type", "task", "thread", "sender", "at", "cause", "mentions", "origin"),
)


class Redaction(StrEnum):
    """How much is replaced; each level includes the one before."""

    SECRETS = "secrets"
    """What has the shape of a key, a token or a password."""
    TEXTS = "texts"
    """All that was said: messages, titles, plans, reasons, arguments, results, files."""
    NAMES = "names"
    """The names of agents, replicas and threads, too."""


class Redactor:
    """Replaces what a level says in the entries of a log.

    Args:
        level: how much.
        key: makes the hashes unlike those of anybody who does not have it.
    """

    def __init__(self, level: Redaction, key: bytes = b"") -> None:
        self.level = level
        self._key = key[:MAX_KEY_BYTES]
        self._task = b""

    def redact(self, item: LogItem) -> LogItem:
        """Return *item* with what must not be seen replaced."""
        if isinstance(item, Rejected):
            return self._rejected(item)
        event = item.event
        self._task = event.task.encode()
        body = item.body or encode_event(event)
        try:
            wire: _Json = msgspec.json.decode(body)
            wire = self._event(wire)
            thread, sender = ThreadId(wire["thread"]), AgentName(wire["sender"])
            mentions = tuple([AgentName(name) for name in wire.get("mentions") or ()])
            subject = event_subject(event.task, thread, event.event_class, sender, mentions)
            body = msgspec.json.encode(wire)
            changed = decode_recorded_event(subject, body)
        except (msgspec.MsgspecError, SchemaError, RecursionError):
            reason = "an event that could not be redacted, and was left out for that"
            return Rejected(item.seq, self._subject(event.task), reason, item.stored_at)
        return Recorded(item.seq, changed, item.stored_at, body)

    def _event(self, wire: _Json) -> _Json:
        if self.level is Redaction.SECRETS:
            return {**wire, "data": self._each(wire.get("data"), self._scrub)}
        kept: _Json = {name: wire[name] for name in _ENVELOPE if name in wire}
        data = wire.get("data")
        kept["data"] = self._data(cast("_Json", data)) if isinstance(data, dict) else {}
        if self.level is Redaction.NAMES:
            kept["sender"] = self._name("agent", str(kept["sender"]))
            kept["thread"] = self._thread(str(kept["thread"]))
            if kept.get("mentions"):
                kept["mentions"] = self._names(kept["mentions"])
            origin = cast("_Json", kept.get("origin") or {})
            if origin.get("mentions"):
                kept["origin"] = {**origin, "mentions": self._names(origin["mentions"])}
        return kept

    def _data(self, data: _Json) -> _Json:
        return {key: self._field(key, value) for key, value in data.items()}

    def _field(self, key: str, value: Any) -> Any:
        if key in {"arguments", "labels"} and isinstance(value, dict):
            named = cast("_Json", value)
            return {name: self._whole(one) for name, one in named.items()}
        if key in {"arguments", "data"}:
            return self._whole(value)
        if key in _LABELS or (key == "wakes" and isinstance(value, str)):
            return self._each(value, self._scrub)
        if key in _AGENTS:
            return self._each(value, lambda name: self._hidden("agent", name))
        if key == "replica":
            return self._hidden("replica", value) if isinstance(value, str) else value
        if key == "parent":
            is_hidden = self.level is Redaction.NAMES and isinstance(value, str)
            return self._thread(value) if is_hidden else value
        if key == "sha256":
            return self._hash(str(value))
        if key == "content" and isinstance(value, str):
            return base64.b64encode(self._text(value, "bytes").encode()).decode()
        if isinstance(value, dict):
            return self._data(cast("_Json", value))
        if isinstance(value, list):
            return [self._field("", one) for one in cast("Sequence[Any]", value)]
        return self._text(value) if isinstance(value, str) else value

    def _whole(self, value: Any) -> Any:
        if value is None:
            return None
        return self._text(value if isinstance(value, str) else msgspec.json.encode(value).decode())

    def _each(self, value: Any, change: Callable[[str], str]) -> Any:
        """Change every string in *value*; what stands under a telling key goes as a whole."""
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [self._each(one, change) for one in cast("Sequence[Any]", value)]
        if isinstance(value, dict):
            return {
                key: self._secret(one)
                if isinstance(one, str) and one and _SECRET_KEY.fullmatch(key)
                else self._each(one, change)
                for key, one in cast("_Json", value).items()
            }
        return value

    def _scrub(self, text: str) -> str:
        return _SECRETS.sub(lambda found: self._secret(found[0]), text)

    def _secret(self, text: str) -> str:
        return text if _PLACEHOLDER.fullmatch(text) else f"[secret {self._digest(text)}]"

    def _text(self, text: str, unit: str = "chars") -> str:
        if not text or _PLACEHOLDER.fullmatch(text):
            return text
        return f"[redacted {len(text):,} {unit} {self._digest(text)}]"

    def _hidden(self, kind: str, name: str) -> str:
        return self._name(kind, name) if self.level is Redaction.NAMES else name

    def _names(self, names: Sequence[str]) -> list[str]:
        return [self._name("agent", name) for name in names]

    def _name(self, kind: str, name: str) -> str:
        if not name or _HIDDEN_NAME.fullmatch(name):
            return name
        return f"{kind}-{self._digest(name)}"

    def _thread(self, thread: str) -> str:
        return thread if thread == MAIN_THREAD else self._name("thread", thread)

    def _digest(self, text: str, size: int = 4) -> str:
        salt = hashlib.blake2s(self._task, digest_size=16).digest()
        whole = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(whole, digest_size=size, key=self._key, salt=salt).hexdigest()

    def _hash(self, value: str) -> str:
        """Return a hash in place of one, which would tell who has the file that it is of."""
        return value if value.startswith(_NO_HASH) else _NO_HASH + self._digest(value, 16)

    def _rejected(self, item: Rejected) -> Rejected:
        reason = _QUOTED.sub(lambda found: self._text(found[0]), self._scrub(item.reason))
        body = self._text(item.body.decode("latin-1"), "bytes").encode()
        task = TaskId(item.subject.split(".")[1]) if item.subject.startswith("bus.") else ""
        return Rejected(item.seq, self._subject(task), reason, item.stored_at, body)

    def _subject(self, task: str) -> str:
        return f"bus.{task}.redacted" if task else "redacted"
