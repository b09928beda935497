"""Every metric by name: one table, from which the endpoint, its page and its tests are made."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

OTHER: Final = "other"
"""The value of a label for whatever is beyond the bound of that label."""

PREFIX: Final = "threadbus_"


class Kind(StrEnum):
    """What a metric does over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """One metric."""

    name: str
    """Without the prefix, and without ``_total``."""
    kind: Kind
    labels: tuple[str, ...]
    about: str

    @property
    def full_name(self) -> str:
        """The name as Prometheus has it; of a histogram without ``_bucket``."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is Kind.COUNTER else ''}"


_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

FROM_LOG: Final = (
    Family("events", _C, ("class", "type"), "Events in the log"),
    Family("not_events", _C, (), "Messages in the log that are no events"),
    Family("mentions", _C, ("agent",), "Mentions of an agent"),
    Family("tasks_opened", _C, (), "Super-tasks that were opened"),
    Family("tasks_ended", _C, ("outcome",), "Super-tasks that ended, by how"),
    Family("turns", _C, ("agent", "outcome"), "Attempts of an agent at a mention: ended, failed"),
    Family("dead_letters", _C, ("agent",), "Mentions that an agent gave up"),
    Family("model_calls", _C, ("agent", "model", "outcome"), "Calls of a model: ok, failed"),
    Family("tokens", _C, ("agent", "model", "kind"), "Tokens: input, cached (of input), output"),
    Family("tool_calls", _C, ("agent", "tool", "outcome"), "Calls of a tool: ok, failed"),
    Family("turn_seconds", _H, ("agent",), "From the start of a turn to its end"),
    Family("turn_wait_seconds", _H, ("agent",), "From the arrival of a mention to its turn"),
    Family("model_call_seconds", _H, ("model",), "Duration of a call of a model"),
    Family("tool_call_seconds", _H, ("tool",), "Duration of a call of a tool"),
    Family("task_seconds", _H, ("outcome",), "From the opening of a super-task to its end"),
    Family("tasks_open", _G, (), "Super-tasks that have not ended"),
    Family("counted_sequence", _G, (), "The place in the log up to which it was counted"),
    Family("counting_since_timestamp_seconds", _G, (), "Where in time the counters began at 0"),
)
"""Counted from the log: shown once it was read to its end."""

SAMPLED: Final = (
    Family("up", _G, (), "Whether the last look at the server succeeded"),
    Family("catching_up", _G, (), "Whether the log is still read; its counters are hidden then"),
    Family("sample_timestamp_seconds", _G, (), "When the server was last looked at"),
    Family("unseen", _G, ("what",), "What these credentials may not see, or was not answered"),
    Family("server_info", _G, ("server", "version"), "The server"),
    Family("clock_skew_seconds", _G, (), "The clock of this machine less that of the server"),
    Family("log_sequence", _G, (), "The last place in the log"),
    Family("stream_messages", _G, ("stream",), "Messages in a stream"),
    Family("stream_bytes", _G, ("stream",), "Bytes of a stream on one server"),
    Family("stream_limit_bytes", _G, ("stream",), "Bytes that a stream may have, where bounded"),
    Family("stream_differences", _G, ("stream",), "Settings that are not as they must be"),
    Family("stream_leader", _G, ("stream",), "Whether a server leads the stream"),
    Family("stream_copies", _G, ("stream",), "Servers that should keep the stream"),
    Family("stream_copies_current", _G, ("stream",), "Servers that have all of it"),
    Family("source_lag", _G, ("stream", "source"), "Messages of a source that have not arrived"),
    Family("consumers", _G, ("stream",), "Consumers of a stream"),
    Family("storage_bytes", _G, (), "Bytes on disk of all streams of this account"),
    Family("storage_limit_bytes", _G, (), "Bytes that the account may have, where bounded"),
    Family("mentions_waiting", _G, ("agent",), "Mentions that are not settled"),
    Family("mention_oldest_seconds", _G, ("agent",), "Age of the oldest of those"),
    Family("mentions_unregistered", _G, (), "Mentions that wait for names nobody registered"),
    Family("inboxes_left", _G, (), "Inboxes of agents that are not registered"),
    Family("agents", _G, ("state",), "Registered agents: living, gone"),
    Family("agent_instances", _G, ("agent", "state"), "Living instances of an agent, by state"),
    Family("agent_living", _G, ("agent",), "Whether a registered agent has a heartbeat"),
    Family("heartbeats_unregistered", _G, (), "Heartbeats that belong to no record"),
    Family("expiry_timestamp_seconds", _G, ("what",), "When a certificate or a token ends"),
)
"""Looked up at the server now and then; a scrape gets what was last seen."""

FAMILIES: Final = {family.name: family for family in (*FROM_LOG, *SAMPLED)}
"""Every metric by its name without the prefix."""
