"""What `bus doctor` finds about agents: living, left, behind, and what they gave up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from threadbus.agents.cli.findings import MAX_SKEW_NS, S, named, note, ok, wrong
from threadbus.agents.cli.results import Check, WaitingRow
from threadbus.agents.cli.text import duration, plural
from threadbus.agents.monitoring import WaitingFacts
from threadbus.bus import ConsumerFacts, Entry, LivingAgent
from threadbus.schemas import MentionDeadLettered, Presence, Recorded, Rejected

_MINUTE = 60 * S
_HOUR = 3600 * S


def check_agents(agents: Sequence[LivingAgent], beats: Sequence[Presence]) -> Iterator[Check]:
    """Check that who is registered lives, and that who lives is registered."""
    gone = [agent.name for agent in agents if not agent.is_living]
    if not agents:
        yield note("agents", "nobody is registered", "`bus init` makes an agent, `bus run` runs it")
    elif not gone:
        yield ok("agents", f"{plural(len(agents), 'agent')}, all living")
    else:
        yield wrong(
            "agents",
            f"registered and without a heartbeat: {named(sorted(gone))}",
            "start them with `bus run`: what is asked of them waits. "
            f"`bus forget {min(gone)}` takes one out for good",
        )
    holders = {(agent.name, agent.record.holder) for agent in agents}
    strays = sorted(
        {
            f"{beat.agent} ({beat.host})"
            for beat in beats
            if (beat.agent, beat.holder) not in holders
        }
    )
    if strays:
        yield note(
            "heartbeats",
            f"of instances that do not hold their name: {named(strays)}",
            "stop them: somebody else has taken the name over, or took it out of the registry",
        )


def check_left(
    agents: Sequence[LivingAgent], consumers: Sequence[ConsumerFacts], waiting: WaitingFacts
) -> Iterator[Check]:
    """Check that nothing is left of agents that are no longer registered."""
    known = {agent.name for agent in agents}
    left = sorted({one.agent for one in consumers if one.agent and one.agent not in known})
    if left:
        yield note(
            "left inboxes",
            f"of agents that are not registered: {named(left)}",
            f"`bus forget {' '.join(left[:3])}` takes them away; what waits in them is kept",
        )
    others = {name: count for name, count in waiting.unregistered.items() if name not in left}
    if others:
        most = Counter(others).most_common(5)
        shown = ", ".join(f"{name} ({count:,})" for name, count in most)
        yield note(
            "unread mentions",
            f"{sum(others.values()):,} wait for names that have no inbox, people among them: "
            f"{shown}",
            f"they cost room only; `bus forget {most[0][0]} --drop-mentions` drops them",
        )


def check_waiting(
    rows: Sequence[WaitingRow], agents: Sequence[LivingAgent], minutes: float
) -> Check:
    """Check that no mention waits for too long."""
    old = [row for row in rows if (row.oldest_age or 0) > minutes * _MINUTE]
    if not old:
        count = sum(row.count for row in rows)
        if any(row.oldest_age is None for row in rows):
            return note(
                "mentions",
                f"{count:,} waiting; for how long is not to be seen",
                "look again with an operator's credentials, or with `--can waiting`",
                f"{minutes:g} min",
            )
        return ok("mentions", f"{count:,} waiting, none for longer than {minutes:g} min")
    living = {agent.name for agent in agents if agent.is_living}
    worst = "; ".join(
        f"{row.agent} ({'busy' if row.agent in living else 'not living'}): {row.count:,}, "
        f"the oldest for {duration(row.oldest_age or 0)}, in {row.oldest_task}"
        for row in old[:5]
    )
    return wrong(
        "mentions",
        f"unanswered for longer than {minutes:g} min: {worst}",
        "start the agent, give it replicas (`bus run --replicas`), or `bus cancel` the task",
        f"{minutes:g} min",
    )


def check_recent(entries: Sequence[Entry], now: int, hours: float) -> Iterator[Check]:
    """Check the end of the log: what was given up, what is no event, whose clock is off."""
    looked = f"among the last {len(entries):,} events"
    yield _dead_letters(entries, now, hours, looked)
    rejected = [entry for entry in entries if isinstance(entry, Rejected)]
    if rejected:
        yield note(
            "not events",
            f"{len(rejected):,} messages {looked} are no events, the last at sequence "
            f"{rejected[-1].seq:,}: {rejected[-1].reason}",
            "readers pass over them; `busreplay verify` of the super-task tells whose they are",
        )
    yield from _skews(entries, looked)


def _dead_letters(entries: Sequence[Entry], now: int, hours: float, looked: str) -> Check:
    dead = [
        entry
        for entry in entries
        if isinstance(entry, Recorded)
        and isinstance(entry.event.data, MentionDeadLettered)
        and entry.event.copy_of is None
    ]
    young = [entry for entry in dead if now - entry.stored_at <= hours * _HOUR]
    if not dead:
        return ok("dead letters", f"none {looked}")
    if not young:
        return ok("dead letters", f"none in the last {hours:g} h, {len(dead):,} {looked}")
    last = young[-1].event
    reason = last.data.error.kind if isinstance(last.data, MentionDeadLettered) else ""
    by = ", ".join(
        f"{name} ({count:,})"
        for name, count in Counter(entry.event.sender for entry in young).most_common(5)
    )
    return wrong(
        "dead letters",
        f"{plural(len(young), 'mention')} given up in the last {hours:g} h by {by}; the last in "
        f"{last.task} ({reason})",
        f"`busreplay {last.task}` shows why; once that is mended, ask again",
        f"none in {hours:g} h",
    )


def _skews(entries: Sequence[Entry], looked: str) -> Iterator[Check]:
    """Compare the clock of each sender with that of the server.

    An event may be late for many reasons, but none is stored before it was made: of the events of
    one sender, that which took the least is the nearest to the truth.
    """
    nearest: dict[str, int] = {}
    for entry in entries:
        if isinstance(entry, Recorded) and entry.event.copy_of is None and entry.stored_at:
            ahead = entry.event.at - entry.stored_at
            sender = entry.event.sender
            nearest[sender] = max(nearest.get(sender, ahead), ahead)
    off = {name: ahead for name, ahead in nearest.items() if abs(ahead) > MAX_SKEW_NS}
    if not off:
        if nearest:
            yield ok("clocks of senders", f"{plural(len(nearest), 'sender')} {looked}, all right")
        return
    worst = sorted(off.items(), key=lambda item: -abs(item[1]))
    shown = named(
        [f"{name} {duration(abs(a))} {'ahead' if a > 0 else 'behind'}" for name, a in worst]
    )
    yield wrong(
        "clocks of senders",
        f"off that of the server {looked}: {shown}",
        "set the clock of the machine where that agent runs, with NTP for instance",
        duration(MAX_SKEW_NS),
    )
