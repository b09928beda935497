"""``bus status``: the server, what it keeps, who lives, and what nobody has answered yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results import Status, StreamRow, WaitingRow
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import duration, neutral, safe_url, size
from threadbus.agents.monitoring import WaitingFacts, inbox_streams, look_at_waiting
from threadbus.bus import BusError, LivingAgent, StorageFacts, server
from threadbus.schemas import SchemaError, parse_mention_subject

UNKNOWN: Final = "unknown"


class _JetStreamPart(msgspec.Struct):
    sync_interval: str = ""
    limits: dict[str, int] = {}


class ServerConfig(msgspec.Struct):
    """What is read of the configuration of a server that `bus up` runs."""

    jetstream: _JetStreamPart = msgspec.field(default_factory=_JetStreamPart)


@command("status", panel="Look", log_level="error")
async def status(shell: Shell) -> None:
    """Show the server, its streams, the agents, and mentions that wait for an answer.

    Looks only: nothing is made or changed. What these credentials may not see is said.
    """
    settings = shell.settings()
    async with shell.bus(ensure=False) as bus:
        facts = await bus.facts()
        storage = await bus.storage()
        health = await bus.operations.health()
        agents: Sequence[LivingAgent] = ()
        waiting = WaitingFacts((), {}, ())
        if any(stream.exists for stream in storage.streams):
            agents = await bus.registry.agents()
            waiting = await look_at_waiting(bus, inbox_streams(health, agents), agents)
    sync = sync_interval(settings.url)
    copies = min((stream.copies for stream in storage.streams if stream.exists), default=1)
    account = health.account
    result = Status(
        url=safe_url(facts.url),
        url_source=shell.source_of("url"),
        server=facts.name,
        version=facts.version,
        max_payload=facts.max_payload,
        sync=sync,
        durability=explain(sync, copies),
        streams=stream_rows(storage),
        living=[agent.name for agent in agents if agent.is_living],
        gone=[agent.name for agent in agents if not agent.is_living],
        unanswered=waiting_rows(waiting, storage.server_time or time.time_ns()),
        storage_bytes=None if account is None else account.file_bytes,
        storage_limit=None if account is None else account.max_file_bytes,
        unseen=[f"{one.what}: {one.reason}" for one in (*health.unseen, *waiting.unseen)],
    )
    if shell.json:
        shell.result(result)
    else:
        _print(shell, result)


def stream_rows(storage: StorageFacts) -> list[StreamRow]:
    """Return the streams as rows."""
    return [
        StreamRow(
            name=stream.name,
            exists=stream.exists,
            messages=stream.messages,
            bytes=stream.bytes,
            consumers=stream.consumers,
            copies=stream.copies,
            lag=stream.lag,
            differences=list(stream.differences),
        )
        for stream in storage.streams
    ]


def waiting_rows(facts: WaitingFacts, now: int) -> list[WaitingRow]:
    """Return what waits for each agent, the oldest first.

    Args:
        facts: what waits.
        now: the server's clock, in nanoseconds since the epoch.
    """
    rows: list[WaitingRow] = []
    for one in facts.agents:
        task = sender = None
        if one.subject:
            with suppress(SchemaError):
                subject = parse_mention_subject(one.subject)
                task, sender = subject.task, subject.sender
        rows.append(
            WaitingRow(
                agent=one.agent,
                count=one.count,
                oldest_age=None if one.oldest_at is None else max(0, now - one.oldest_at),
                oldest_task=task,
                oldest_sender=sender,
            )
        )
    return sorted(rows, key=lambda row: -(row.oldest_age or 0))


def own_data(url: str) -> Path | None:
    """Return the data folder of the server at *url*, where this user's `bus up` runs it."""
    try:
        state = server.read_state()
    except BusError:
        return None
    return Path(state.data) if state is not None and state.url == url else None


def server_config(url: str) -> ServerConfig | None:
    """Return the configuration of the server at *url*, where this user's `bus up` runs it."""
    try:
        state = server.read_state()
        if state is None or state.url != url:
            return None
        content = (Path(state.data) / "server.conf").read_bytes()
        return msgspec.json.decode(content, type=ServerConfig)
    except (BusError, OSError, msgspec.DecodeError):
        return None


def sync_interval(url: str) -> str:
    """Return how often data is forced to the disk; ``unknown`` where it cannot be seen."""
    config = server_config(url)
    return UNKNOWN if config is None else config.jetstream.sync_interval or "2m"


def explain(sync: str, copies: int) -> str:
    """Say what survives what."""
    kept = "" if copies <= 1 else f" {copies} servers keep a copy, so one may be lost."
    if sync == "always":
        return f"Each event is on the disk before it is acknowledged.{kept}"
    if sync == UNKNOWN:
        return (
            "A killed server loses nothing. What a power cut may lose is set on the server "
            f"(sync_interval; two minutes unless set).{kept}"
        )
    return (
        f"A killed server loses nothing; a machine that loses power may lose the last {sync} "
        f"(`bus up --sync-always` forces each event to the disk).{kept}"
    )


def _print(shell: Shell, result: Status) -> None:
    shell.say(
        Text.assemble(
            ("server   ", "bold"),
            neutral(f"{result.url}  nats-server {result.version}  {result.server}"),
            (f"  (from {result.url_source})", "dim"),
        )
    )
    shell.paragraph(Text("safety   ", "bold"), result.durability)
    if result.storage_bytes is not None:
        limit = "open" if result.storage_limit is None else size(result.storage_limit)
        stored = f"{size(result.storage_bytes)} on disk, the limit of the account is {limit}"
        shell.paragraph(Text("storage  ", "bold"), stored)
    for text in result.unseen:
        shell.paragraph(Text("not seen ", "bold yellow"), text)
    shell.say()
    shown = table("stream", "messages", "size", "consumers", "state", right=("messages", "size"))
    for stream in result.streams:
        state = "ok" if stream.exists else "not made yet"
        if stream.differences:
            state = "; ".join(stream.differences)
        elif stream.lag:
            state = f"{stream.lag:,} behind the log"
        style = "yellow" if state != "ok" else "green"
        shown.add_row(
            cell(stream.name),
            f"{stream.messages:,}",
            size(stream.bytes),
            f"{stream.consumers:,}",
            cell(state, style),
        )
    shell.table(shown)
    shell.say()
    living = ", ".join(result.living) or "none"
    shell.say(Text.assemble(("living   ", "bold"), (neutral(living), "green")))
    if result.gone:
        shell.say(Text.assemble(("gone     ", "bold"), (neutral(", ".join(result.gone)), "red")))
    if not result.unanswered:
        shell.say(Text.assemble(("waiting  ", "bold"), "no mention waits"))
        return
    shell.say()
    waiting = table(
        "waits for", "mentions", "oldest", "asked by", "super-task", right=("mentions",)
    )
    for row in result.unanswered[:20]:
        waiting.add_row(
            cell(row.agent, "" if row.agent in result.living else "red"),
            f"{row.count:,}",
            "-" if row.oldest_age is None else duration(row.oldest_age),
            cell(row.oldest_sender or "-"),
            cell(row.oldest_task or "-"),
        )
    shell.table(waiting)
