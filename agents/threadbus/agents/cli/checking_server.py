"""What `bus doctor` finds about the server: durability, room, clock, slow readers, expiry."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from threadbus.agents.cli.findings import (
    MAX_SKEW_NS,
    SOON_NS,
    TOO_MUCH,
    TOO_SOON_NS,
    S,
    note,
    ok,
    share,
    wrong,
)
from threadbus.agents.cli.monitor import ConnectionRow, Monitor
from threadbus.agents.cli.results import Check
from threadbus.agents.cli.text import duration, neutral, size
from threadbus.bus import AccountFacts, ConsumerFacts, Health

UNKNOWN = "unknown"
_LEAST_FREE_BYTES = 1_000_000_000
_LEAST_FREE = 0.05
_LITTLE_FREE = 0.1
_PENDING = 0.2
"""The part of max_pending that may wait for one connection."""


def monitored_sync(monitor: Monitor) -> str:
    """Return how often the server forces data to the disk, by its monitoring page."""
    config = monitor.server.jetstream.config
    return "always" if config.sync_always else f"{config.sync_interval / S:g}s"


def check_safety(sync: str, copies: int, explained: str) -> Check:
    """Tell what a power cut may lose."""
    if sync == UNKNOWN:
        return note(
            "safety",
            explained,
            "give --monitor to see it; `bus up --sync-always`, or sync_interval: always",
        )
    if sync != "always" and copies <= 1:
        return note(
            "safety", explained, "`bus up --sync-always`, or copies on three servers (--copies 3)"
        )
    return ok("safety", explained)


def check_clock(now: int, before: int, after: int) -> Check:
    """Compare the server's clock with ours before and after it was asked."""
    skew = max(before - now, now - after, 0)
    found = f"{duration(skew)} off that of the server"
    if skew <= MAX_SKEW_NS:
        return ok("clock", found)
    return wrong(
        "clock",
        f"{found}: ages and durations mislead",
        "set the clock of this machine or of the server, with NTP for instance",
        duration(MAX_SKEW_NS),
    )


def check_room(
    account: AccountFacts | None, monitor: Monitor | None, data: Path | None
) -> Iterator[Check]:
    """Check the room for streams: of the account, of the server, and on its disk."""
    advice = "raise the limit, or archive old tasks; a full server refuses events"
    if account is not None and account.max_file_bytes is not None:
        used, limit = account.file_bytes, account.max_file_bytes
        yield share("storage", used, limit, (size(used), f"{size(limit)} of the account"), advice)
    elif account is not None:
        yield ok("storage", f"{size(account.file_bytes)}; the account is not bounded")
    if monitor is not None and monitor.server.jetstream.config.max_storage:
        used = monitor.server.jetstream.stats.storage
        limit = monitor.server.jetstream.config.max_storage
        yield share(
            "server storage", used, limit, (size(used), f"{size(limit)} (max_file_store)"), advice
        )
    if data is None:
        yield note(
            "disk",
            "where the server keeps its data is not to be seen from here",
            "run `bus doctor` where the server is, or watch that machine's disk",
        )
        return
    try:
        disk = shutil.disk_usage(data)
    except OSError as error:
        yield note("disk", f"{data}: {error.strerror or error}", "look at the folder")
        return
    free = f"{size(disk.free)} free of {size(disk.total)} at {data}"
    advice = "free space: a full disk stops the server from taking events"
    if disk.free < disk.total * _LEAST_FREE or disk.free < _LEAST_FREE_BYTES:
        limit_text = f"{_LEAST_FREE:.0%} or {size(_LEAST_FREE_BYTES)} free"
        yield wrong("disk", free, advice, limit_text)
    elif disk.free < disk.total * _LITTLE_FREE:
        yield note("disk", free, advice, f"{_LITTLE_FREE:.0%} free")
    else:
        yield ok("disk", free)


def data_folder(own: Path | None, monitor: Monitor | None) -> Path | None:
    """Return the folder of the server's data, where it is on this machine."""
    if own is not None:
        return own
    if monitor is None or not monitor.server.host.startswith(("127.", "localhost", "::1")):
        return None
    folder = Path(monitor.server.jetstream.config.store_dir)
    return folder if folder.is_absolute() and folder.is_dir() else None


def check_slow(monitor: Monitor | None, consumers: tuple[ConsumerFacts, ...]) -> Iterator[Check]:
    """Check that whoever is sent something takes it in time."""
    if monitor is not None:
        yield _slow_connections(monitor)
    full = [one for one in consumers if 0 < one.max_unacknowledged <= one.unacknowledged / TOO_MUCH]
    again = sum(one.redelivered for one in consumers)
    if full:
        shown = ", ".join(
            f"{one.agent or one.name} ({one.unacknowledged:,} of {one.max_unacknowledged:,})"
            for one in full[:5]
        )
        yield wrong(
            "slow inboxes",
            f"as many mentions are held unsettled as may be: {shown}",
            "give the agent replicas (`bus run --replicas`), or stop what mentions it",
            f"{TOO_MUCH:.0%}",
        )
    elif again:
        yield note(
            "slow inboxes",
            f"{again:,} unsettled mentions were delivered more than once",
            "an agent died over them, or takes longer than --ack-wait without a sign of life",
        )
    elif consumers:
        yield ok("slow inboxes", "none")
    if monitor is None:
        yield note(
            "slow connections",
            "not to be seen without the monitoring page",
            "give --monitor http://HOST:8222 (BUS_MONITOR), of a server with an http port",
        )


def _slow_connections(monitor: Monitor) -> Check:
    limit = monitor.server.max_pending
    waiting = [one for one in monitor.open if limit and one.pending_bytes > limit * _PENDING]
    if waiting:
        shown = "; ".join(f"{size(one.pending_bytes)} for {_who(one)}" for one in waiting[:5])
        return wrong(
            "slow connections",
            f"{shown} wait to be read",
            "look at that process: it is cut off at max_pending",
            f"{_PENDING:.0%} of {size(limit)}",
        )
    if monitor.cut or monitor.server.slow_consumers:
        shown = ", ".join(_who(one) for one in monitor.cut[:5]) or "not remembered which"
        return note(
            "slow connections",
            f"{monitor.server.slow_consumers:,} were cut off since the server started: {shown}",
            "they have connected again; if it goes on, look at those processes",
            "0",
        )
    return ok("slow connections", "none was cut off, nothing waits to be read")


def _who(one: ConnectionRow) -> str:
    return neutral(one.name or f"{one.ip} (connection {one.cid})")


def check_expiries(health: Health, now: int) -> Iterator[Check]:
    """Check that certificates and tokens do not end soon."""
    for expiry in health.expiries:
        left = expiry.at - now
        name = "expiry"
        found = f"{expiry.what} ends in {duration(left)}"
        advice = "make a new one and give it to whoever uses it"
        if left <= 0:
            yield wrong(
                name, f"{expiry.what} ended {duration(-left)} ago", advice, duration(TOO_SOON_NS)
            )
        elif left < TOO_SOON_NS:
            yield wrong(name, found, advice, duration(TOO_SOON_NS))
        elif left < SOON_NS:
            yield note(name, found, advice, duration(SOON_NS))
        else:
            yield ok(name, found)
