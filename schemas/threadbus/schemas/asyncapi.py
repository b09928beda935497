"""The AsyncAPI 3.0 document: which subject carries which event, and who sends or receives it."""

from __future__ import annotations

from typing import Final

from threadbus.schemas.events import DATA_TYPES, EventClass, EventData
from threadbus.schemas.json_schemas import ENVELOPE, Json, branch, definitions
from threadbus.schemas.limits import MAX_MENTIONS
from threadbus.schemas.subjects import STORED_PREFIX

_SCHEMAS: Final = "#/components/schemas/"
_MESSAGES: Final = "#/components/messages/"
_PLACE: Final = "{task}.{thread}.{class}.{sender}"
_EVENTS: Final = tuple(DATA_TYPES)
_LIVE: Final = "live.delta"

_PARAMETERS: Final[Json] = {
    "task": {"description": "The super-task: 32 lower-case hex digits."},
    "thread": {"description": "The thread; main is the root thread of each super-task."},
    "class": {
        "description": "What kind of event follows.",
        "enum": [event_class.value for event_class in EventClass],
    },
    "sender": {"description": "The canonical name of the agent that sends."},
    "agent": {"description": "The canonical name of the agent that is mentioned."},
    "mentions": {
        "description": f"The canonical names of 1 to {MAX_MENTIONS} mentioned agents, each a token "
        "of its own, in the order of the event's mentions."
    },
}

_CHANNELS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "log": (
        f"bus.{_PLACE}",
        "The log: an event that mentions nobody. Append only; what is here is the truth.",
        _EVENTS,
    ),
    "logMentioning": (
        f"bus.{_PLACE}.{{mentions}}",
        "The log: an event that mentions agents. The server puts a copy into each one's inbox.",
        _EVENTS,
    ),
    "inbox": (
        f"mention.{{agent}}.{_PLACE}",
        "An agent's inbox: what mentions it, kept until it is acknowledged. Made by the server.",
        _EVENTS,
    ),
    "stored": (
        f"{STORED_PREFIX}bus.{_PLACE}",
        "What the log has just stored, repeated by the server: an event that mentions nobody.",
        _EVENTS,
    ),
    "storedMentioning": (
        f"{STORED_PREFIX}bus.{_PLACE}.{{mentions}}",
        "What the log has just stored, repeated by the server: an event that mentions agents.",
        _EVENTS,
    ),
    "live": (
        "live.{task}.{thread}.{sender}",
        "Deltas for watchers: never stored, lost where nobody listens.",
        (_LIVE,),
    ),
}

_OPERATIONS: Final[dict[str, tuple[str, str, str]]] = {
    "append": ("send", "log", "Append an event that mentions nobody."),
    "appendMentioning": ("send", "logMentioning", "Append an event and wake those it mentions."),
    "handleMention": ("receive", "inbox", "Take what mentions this agent; acknowledge it last."),
    "follow": ("receive", "stored", "Follow what is stored."),
    "followMentioning": ("receive", "storedMentioning", "Follow what is stored with mentions."),
    "publishLive": ("send", "live", "Show watchers what is being written."),
    "watchLive": ("receive", "live", "Watch what is being written."),
}

_HEADERS: Final[Json] = {
    "type": "object",
    "description": "NATS headers of an event.",
    "properties": {
        "Nats-Msg-Id": {
            "type": "string",
            "description": "The event's id: the server stores it once in its dedup window.",
        },
        "traceparent": {
            "type": "string",
            "description": "W3C trace context; the trace id is the super-task's id.",
        },
        "Nats-Expected-Last-Subject-Sequence": {
            "type": "string",
            "description": "The guard: the last control event of the thread that the sender saw.",
        },
        "Nats-Expected-Last-Subject-Sequence-Subject": {
            "type": "string",
            "description": "What the guard counts: bus.<task>.<thread>.ctl.>",
        },
    },
    "required": ["Nats-Msg-Id"],
}


def asyncapi_document() -> Json:
    """Return the whole document, self-contained."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "threadbus",
            "version": "1.0.0",
            "description": "Events between LLM agents on NATS JetStream, seen from an agent.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"local": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": {name: _channel(*about) for name, about in _CHANNELS.items()},
        "operations": {name: _operation(*about) for name, about in _OPERATIONS.items()},
        "components": {
            "messages": {name: _message(name, kind) for name, kind in DATA_TYPES.items()}
            | {_LIVE: _live_message()},
            "schemas": {**definitions(_SCHEMAS), "Headers": _HEADERS},
        },
    }


def _channel(address: str, description: str, messages: tuple[str, ...]) -> Json:
    named = {name: about for name, about in _PARAMETERS.items() if f"{{{name}}}" in address}
    return {
        "address": address,
        "description": description,
        "messages": {name: {"$ref": _MESSAGES + name} for name in messages},
        "parameters": named,
    }


def _operation(action: str, channel: str, summary: str) -> Json:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _message(name: str, kind: type[EventData]) -> Json:
    return {
        "name": name,
        "title": kind.__name__,
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "tags": [{"name": kind.CLASS.value}],
        "headers": {"$ref": f"{_SCHEMAS}Headers"},
        "payload": {
            "allOf": [{"$ref": _SCHEMAS + ENVELOPE}, branch(name, kind, _SCHEMAS)],
        },
    }


def _live_message() -> Json:
    return {
        "name": _LIVE,
        "title": "Live delta",
        "summary": "A piece of what is being written, a token or a progress tick.",
        "payload": {"type": "object"},
    }
