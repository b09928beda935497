"""What `bus doctor` finds about streams: there, as needed, filled, copied, within bounds."""

from __future__ import annotations

from collections.abc import Iterator

from threadbus.agents.cli.findings import (
    MAX_LAG,
    MAX_SILENT_NS,
    SERVER_CONSUMERS,
    TOO_MUCH,
    named,
    note,
    ok,
    share,
    wrong,
)
from threadbus.agents.cli.results import Check
from threadbus.agents.cli.text import duration, size
from threadbus.bus import Health, SourceFacts, StorageFacts, StreamFacts, StreamHealth

_CREATES = "nothing to do: the first `bus run` or `bus ask` makes {}"


def check_streams(storage: StorageFacts) -> Iterator[Check]:
    """Check that each stream is there and as threadbus needs it."""
    if not any(stream.exists for stream in storage.streams):
        yield note("streams", "not there yet", _CREATES.format("them"))
        return
    for stream in storage.streams:
        yield _stream(stream)


def _stream(stream: StreamFacts) -> Check:
    name = f"stream {stream.name}"
    if not stream.exists:
        return note(name, "not there yet", _CREATES.format("it"))
    if stream.differences:
        return wrong(
            name,
            "; ".join(stream.differences),
            "any command that writes puts it right where it can; "
            "`bus tasks` says what cannot be changed",
        )
    copies = "" if stream.copies <= 1 else f", {stream.copies} copies"
    return ok(name, f"as needed, {stream.messages:,} messages, {size(stream.bytes)}{copies}")


def check_copies(health: Health) -> Iterator[Check]:
    """Check that each stream is led, and that its copies are there and not behind."""
    behind = 0
    copied = [stream for stream in health.streams if stream.copies > 1]
    for stream in health.streams:
        for found, advice in _copies(stream):
            behind += 1
            yield wrong(f"copies of {stream.name}", found, advice, f"{MAX_LAG:,} behind")
    if copied and not behind:
        leaders = named(sorted({stream.leader for stream in copied}))
        yield ok(
            "copies",
            f"{len(copied)} streams on {max(s.copies for s in copied)} servers each, all current; "
            f"led by {leaders}",
        )


def _copies(stream: StreamHealth) -> Iterator[tuple[str, str]]:
    if not stream.leader:
        yield (
            "no server leads it: nothing can be written or read",
            "start the servers that are away: more than half of its copies must be there",
        )
    for copy in stream.replicas:
        if copy.offline:
            yield (
                f"{copy.server} is away, for {duration(copy.silent_ns)}",
                f"start {copy.server}; until then one server less may be lost",
            )
        elif copy.lag > MAX_LAG or not copy.current:
            yield (
                f"{copy.server} is {copy.lag:,} operations behind",
                f"look at the load and the disk of {copy.server}; it catches up by itself",
            )
    missing = stream.copies - 1 - len(stream.replicas)
    if stream.leader and stream.copies > 1 and missing > 0:
        yield (
            f"{missing} of {stream.copies} copies are on no server",
            f"start more servers, or `nats stream edit {stream.name} --replicas`",
        )


def check_delivery(health: Health) -> Iterator[Check]:
    """Check that what is filled from the log is not behind it."""
    for stream in health.streams:
        if not stream.sources:
            continue
        name = "delivery" if stream.name == "MENTIONS" else f"delivery {stream.name}"
        bad = [text for source in stream.sources if (text := _source(source))]
        lag = max(source.lag for source in stream.sources)
        if bad:
            yield wrong(
                name,
                f"{stream.name} is behind: {named(bad)}: agents are woken late",
                "look at the load and the disk of the server; it catches up by itself when it is "
                "idle, and reads again what it missed when it is restarted",
                f"{MAX_LAG:,} messages, or silent for {duration(MAX_SILENT_NS)}",
            )
        else:
            yield ok(
                name,
                f"{stream.name} is {lag:,} behind the log, over {len(stream.sources)} sources",
            )


def _source(source: SourceFacts) -> str:
    if source.error:
        return f"from {source.stream}: {source.error}"
    if source.lag > MAX_LAG:
        return f"{source.lag:,} of {source.stream} have not arrived"
    if source.lag and source.silent_ns is None:
        return f"nothing was ever heard of {source.stream}, {source.lag:,} are missing"
    if source.lag and (source.silent_ns or 0) > MAX_SILENT_NS:
        return (
            f"nothing was heard of {source.stream} for {duration(source.silent_ns or 0)}, "
            f"{source.lag:,} are missing"
        )
    return ""


def check_consumers(storage: StorageFacts, health: Health, allowed: int) -> Iterator[Check]:
    """Check that there is room for more inboxes.

    Args:
        storage: how many there are.
        health: which streams have any.
        allowed: what the server allows on a stream; 0 where that cannot be seen.
    """
    filled = {stream.name: stream for stream in health.streams if stream.sources}
    for facts in storage.streams:
        if facts.name not in filled:
            continue
        bound = filled[facts.name].max_consumers or allowed
        limit = bound or SERVER_CONSUMERS
        found = f"{facts.consumers:,} on {facts.name} of {limit:,} that " + (
            "are allowed" if bound else "nats-server allows unless default_max_consumers is set"
        )
        name = "inboxes" if facts.name == "MENTIONS" else f"inboxes {facts.name}"
        advice = "raise jetstream { limits { default_max_consumers: … } } on the server"
        if facts.consumers < limit * TOO_MUCH:
            yield ok(name, found)
        elif bound:
            yield wrong(name, found, advice, f"{TOO_MUCH:.0%}")
        else:
            yield note(name, found, advice, f"{TOO_MUCH:.0%}")
    account = health.account
    if account is not None and account.max_consumers is not None:
        yield share(
            "consumers",
            account.consumers,
            account.max_consumers,
            (f"{account.consumers:,}", f"{account.max_consumers:,} that the account may have"),
            "raise the account's limit of consumers, or `bus forget` agents that are gone",
        )


def check_sizes(storage: StorageFacts, health: Health) -> Iterator[Check]:
    """Check that streams with a bound have room, and tell how much of all is in artifacts."""
    sizes = {facts.name: facts for facts in storage.streams if facts.exists}
    for stream in health.streams:
        facts = sizes.get(stream.name)
        if facts is None:
            continue
        for used, limit, shown in (
            (facts.bytes, stream.max_bytes, size),
            (facts.messages, stream.max_messages, "{:,} messages".format),
        ):
            if limit is not None:
                yield share(
                    f"room in {stream.name}",
                    used,
                    limit,
                    (shown(used), shown(limit)),
                    "raise the stream's limit, or archive old tasks; a full log refuses events",
                )
    objects = [facts for name, facts in sizes.items() if name.startswith("OBJ_")]
    everything = sum(facts.bytes for facts in sizes.values())
    for facts in objects:
        part = facts.bytes / everything if everything else 0
        yield ok("artifacts", f"{size(facts.bytes)} in {facts.name}, {part:.0%} of what is stored")
