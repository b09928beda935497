"""``bus status``: the server, what it keeps, who lives, and what nobody has answered yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.text import Text

from threadbus.agents.cli.app import command
from threadbus.agents.cli.results import Status, StreamRow, WaitingRow
from threadbus.agents.cli.shell import Shell, cell, table
from threadbus.agents.cli.text import duration, neutral, safe_url, size
from threadbus.bus import Bus, BusError, StorageFacts, server
from threadbus.schemas import SchemaError, parse_mention_subject

_MAX_ASKED: Final = 200
"""Agents whose oldest mention is looked at, one request each."""

UNKNOWN: Final = "unknown"


class _JetStreamPart(msgspec.Struct):
    sync_interval: str = ""
    limits: dict[str, int] = {}


class ServerConfig(msgspec.Struct):
    """What is read of the configuration of a server that `bus up` runs."""

    jetstream: _JetStreamPart = msgspec.field(default_factory=_JetStreamPart)


@command("status", panel="Look")
async def status(shell: Shell) -> None:
    """Show the server, its streams, the agents, and mentions that wait for an answer.

    Looks only: nothing is made or changed.
    """
    settings = shell.settings()
    async with shell.bus(ensure=False) as bus:
        facts = await bus.facts()
        storage = await bus.storage()
        there = {stream.name for stream in storage.streams if stream.exists}
        agents = await bus.registry.agents() if "KV_AGENTS" in there else ()
        names = [agent.name for agent in agents]
        waiting = await waiting_rows(bus, storage, names) if "MENTIONS" in there else []
    sync = sync_interval(settings.url)
    copies = next((stream.copies for stream in storage.streams if stream.name == "BUS"), 1)
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
        unanswered=waiting,
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


async def waiting_rows(bus: Bus, storage: StorageFacts, agents: Sequence[str]) -> list[WaitingRow]:
    """Return what waits for each agent, with the age of the oldest by the server's clock.

    What was said to a person is no question to an agent: only registered *agents* count.
    """
    counts = await bus.pending_mentions()
    pending = {agent: counts[agent] for agent in agents if agent in counts}
    now = storage.server_time or time.time_ns()
    rows: list[WaitingRow] = []
    for number, (agent, count) in enumerate(sorted(pending.items())):
        oldest = await bus.oldest_mention(agent) if number < _MAX_ASKED else None
        task = sender = None
        if oldest is not None:
            try:
                subject = parse_mention_subject(oldest.subject)
                task, sender = subject.task, subject.sender
            except SchemaError:
                task = None
        rows.append(
            WaitingRow(
                agent=agent,
                count=count,
                oldest_age=None if oldest is None else max(0, now - oldest.stored_at),
                oldest_task=task,
                oldest_sender=sender,
            )
        )
    return sorted(rows, key=lambda row: -(row.oldest_age or 0))


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
