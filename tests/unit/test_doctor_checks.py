"""The verdicts of `bus doctor`: each bound from both sides, and a way out of everything wrong."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.schema_events import event
from threadbus.agents.cli.checking_agents import (
    check_agents,
    check_left,
    check_recent,
    check_waiting,
)
from threadbus.agents.cli.checking_server import (
    check_clock,
    check_expiries,
    check_room,
    check_safety,
    check_slow,
)
from threadbus.agents.cli.checking_streams import (
    check_consumers,
    check_copies,
    check_delivery,
    check_sizes,
    check_streams,
)
from threadbus.agents.cli.failures import AgentLivingError, MonitorError
from threadbus.agents.cli.findings import hidden
from threadbus.agents.cli.monitor import ConnectionRow, Monitor, ServerPage
from threadbus.agents.cli.results import Check, WaitingRow
from threadbus.agents.monitoring import WaitingFacts
from threadbus.bus import (
    AccountFacts,
    ConsumerFacts,
    Entry,
    Expiry,
    Health,
    LivingAgent,
    PermissionDeniedError,
    ReadTimeoutError,
    ReplicaFacts,
    SourceFacts,
    StorageFacts,
    StreamFacts,
    StreamHealth,
    Unseen,
)
from threadbus.schemas import (
    AgentCard,
    AgentName,
    AgentRecord,
    AnyData,
    ErrorInfo,
    MentionDeadLettered,
    MessagePosted,
    Presence,
    Recorded,
    Rejected,
    TextPart,
)

S = 1_000_000_000
DAY = 86_400 * S
HOUR = 3600 * S
NOW = 1_000 * DAY


def verdicts(checks: Iterable[Check]) -> list[str]:
    """Return the verdicts, and see that whatever is not well says what to do."""
    found = list(checks)
    for check in found:
        assert check.found
        assert (check.verdict == "ok") == (check.advice == ""), check
    return [check.verdict for check in found]


def only(checks: Iterable[Check], verdict: str) -> Check:
    """Return the one check, which must have that verdict."""
    found = list(checks)
    assert verdicts(found) == [verdict]
    return found[0]


def storage(*streams: StreamFacts) -> StorageFacts:
    """Make facts of streams."""
    return StorageFacts(streams=streams, server_time=NOW)


def stream(name: str = "MENTIONS-7", **more: object) -> StreamHealth:
    """Make the health of a stream that one server keeps."""
    values: dict[str, object] = {"created_at": 1, "leader": "a", "copies": 1, **more}
    return StreamHealth(name=name, **values)  # type: ignore[arg-type]  # pyright: ignore


def source(lag: int = 0, silent_s: int | None = 0, error: str = "") -> SourceFacts:
    """Make a source."""
    silent = None if silent_s is None else silent_s * S
    return SourceFacts(stream="BUS-3", lag=lag, silent_ns=silent, error=error)


def copied(*, lag: int = 0, current: bool = True, offline: bool = False) -> StreamHealth:
    """Make a stream on three servers, one of which may be unwell."""
    other = ReplicaFacts(server="b", current=True, offline=False, lag=0, silent_ns=0)
    this = ReplicaFacts(server="c", current=current, offline=offline, lag=lag, silent_ns=S)
    return stream(copies=3, replicas=(other, this))


def agent(name: str, *, living: bool = True) -> LivingAgent:
    """Make a registered agent."""
    beat = Presence(agent=name, instance="i", holder="h")
    record = AgentRecord(card=AgentCard(name=name), holder="h")
    return LivingAgent(record, (beat,) if living else ())


def consumer(name: str, *, held: int = 0, again: int = 0) -> ConsumerFacts:
    """Make an inbox."""
    return ConsumerFacts(
        stream="MENTIONS-7",
        name=f"agent-{name}",
        agent=name,
        created_at=1,
        pending=0,
        unacknowledged=held,
        max_unacknowledged=100,
        redelivered=again,
        listeners=0,
    )


def recorded(data: AnyData, sender: str = "web", *, ahead_s: int = 0, age_s: int = 0) -> Recorded:
    """Make an event that was stored *age_s* ago by a clock that is *ahead_s* ahead."""
    stored = NOW - age_s * S
    made = event(data, sender=AgentName(sender), at=stored + ahead_s * S)
    return Recorded(1, made, stored_at=stored)


MESSAGE = MessagePosted(parts=(TextPart("x"),))
DEAD = MentionDeadLettered(error=ErrorInfo("Boom", "y"))


def test_streams_that_are_missing_or_altered() -> None:
    """What is not there yet is a note; what was altered is wrong and says how."""
    missing = StreamFacts(name="BUS-0", exists=False)
    there = StreamFacts(name="BUS-1", exists=True)
    altered = StreamFacts(name="BUS-2", exists=True, differences=("storage is 'memory'",))

    assert verdicts(check_streams(storage(missing))) == ["note"]
    assert verdicts(check_streams(storage(missing, there, altered))) == ["note", "ok", "wrong"]
    assert "storage is 'memory'" in next(iter(check_streams(storage(altered)))).found


@pytest.mark.parametrize(
    ("health", "word"),
    [
        (copied(offline=True), "c is away"),
        (copied(lag=1_001), "1,001"),
        (copied(current=False), "behind"),
        (stream(copies=3, leader=""), "no server leads"),
        (stream(copies=3, replicas=()), "2 of 3"),
        (stream(leader=""), "no server leads"),
    ],
)
def test_a_copy_that_is_away_or_behind_is_wrong(health: StreamHealth, word: str) -> None:
    """The stream and the server are named."""
    check = next(iter(check_copies(Health(streams=(health,)))))

    assert check.verdict == "wrong"
    assert check.name == "copies of MENTIONS-7"
    assert word in check.found


def test_copies_that_are_current_are_well() -> None:
    """A little lag is none; what one server keeps has no copies to look at."""
    assert verdicts(check_copies(Health(streams=(copied(lag=1_000),)))) == ["ok"]
    assert verdicts(check_copies(Health(streams=(stream(),)))) == []


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (source(lag=1_000), "ok"),
        (source(lag=1_001), "wrong"),
        (source(silent_s=3_600), "ok"),
        (source(lag=1, silent_s=60), "ok"),
        (source(lag=1, silent_s=61), "wrong"),
        (source(lag=1, silent_s=None), "wrong"),
        (source(error="gone"), "wrong"),
    ],
)
def test_each_source_is_looked_at(one: SourceFacts, verdict: str) -> None:
    """One that is behind among many is found; one that has nothing to send may be silent."""
    health = Health(streams=(stream(sources=(source(), one, source())),))
    check = only(check_delivery(health), verdict)

    assert check.name == "delivery MENTIONS-7"
    assert verdict == "ok" or "BUS-3" in check.found


@pytest.mark.parametrize(
    ("count", "allowed", "verdict"),
    [(899, 0, "ok"), (900, 0, "note"), (8_999, 10_000, "ok"), (9_000, 10_000, "wrong")],
)
def test_room_for_inboxes(count: int, allowed: int, verdict: str) -> None:
    """What is only assumed of the server is a note."""
    facts = storage(StreamFacts(name="MENTIONS-7", exists=True, consumers=count))
    health = Health(streams=(stream(sources=(source(),)),))
    check = only(check_consumers(facts, health, allowed), verdict)

    assert f"{count:,}" in check.found
    assert verdict == "ok" or "default_max_consumers" in check.advice


@pytest.mark.parametrize(("used", "verdict"), [(79, "ok"), (80, "note"), (90, "wrong")])
def test_room_in_a_stream_and_in_the_account(used: int, verdict: str) -> None:
    """The same bounds for both; the limit is told."""
    facts = storage(StreamFacts(name="BUS-0", exists=True, bytes=used))
    bounded = Health(streams=(stream("BUS-0", max_bytes=100),))
    account = AccountFacts(
        file_bytes=used,
        max_file_bytes=100,
        memory_bytes=0,
        max_memory_bytes=None,
        streams=1,
        max_streams=None,
        consumers=1,
        max_consumers=None,
    )

    assert "100 B" in only(check_sizes(facts, bounded), verdict).found
    assert "100 B" in next(c for c in check_room(account, None, None) if c.name == "storage").found
    assert verdicts(check_room(account, None, None)) == [verdict, "note"]


def test_the_disk_is_looked_at_where_it_is(tmp_path: Path) -> None:
    """A folder that is not there is told, and no reason to fail."""
    here = list(check_room(None, None, tmp_path))[-1]
    gone = list(check_room(None, None, tmp_path / "gone"))[-1]

    assert "free of" in here.found
    assert gone.verdict == "note"


@pytest.mark.parametrize(("skew_s", "verdict"), [(0, "ok"), (5, "ok"), (-6, "wrong"), (6, "wrong")])
def test_the_clock_of_this_machine(skew_s: int, verdict: str) -> None:
    """Ahead or behind; the time that the answer took counts for neither."""
    check = check_clock(NOW - skew_s * S, NOW - S // 2 if skew_s < 0 else NOW, NOW)

    assert verdicts([check]) == [verdict]


@pytest.mark.parametrize(
    ("left", "verdict"), [(31, "ok"), (29, "note"), (6, "wrong"), (-1, "wrong")]
)
def test_what_expires(left: int, verdict: str) -> None:
    """It is told early enough to make a new one."""
    health = Health(expiries=(Expiry(what="the certificate", at=NOW + left * DAY),))

    assert "the certificate" in only(check_expiries(health, NOW), verdict).found


def test_durability_is_a_note_unless_nothing_is_lost() -> None:
    """One copy that is not forced to the disk may lose the last events in a power cut."""
    assert check_safety("always", 1, "x").verdict == "ok"
    assert check_safety("2m", 3, "x").verdict == "ok"
    assert check_safety("2m", 1, "x").verdict == "note"
    assert check_safety("unknown", 3, "x").verdict == "note"


def test_slow_inboxes_and_connections() -> None:
    """A full inbox is wrong, a redelivery a note; connections need the monitoring page."""
    page = ServerPage(max_pending=1_000)
    well = Monitor(page, (ConnectionRow(pending_bytes=200),), ())
    behind = Monitor(page, (ConnectionRow(name="threadbus:web\x1b", pending_bytes=201),), ())
    cut = Monitor(ServerPage(slow_consumers=2, max_pending=9), (), (ConnectionRow(name="x"),))

    assert verdicts(check_slow(well, (consumer("web", held=89),))) == ["ok", "ok"]
    assert verdicts(check_slow(well, (consumer("web", held=90),))) == ["ok", "wrong"]
    assert verdicts(check_slow(well, (consumer("web", again=1),))) == ["ok", "note"]
    assert verdicts(check_slow(behind, ())) == ["wrong"]
    assert "\x1b" not in next(iter(check_slow(behind, ()))).found
    assert verdicts(check_slow(cut, ())) == ["note"]
    assert verdicts(check_slow(None, ())) == ["note"]


def test_agents_and_heartbeats() -> None:
    """Who is gone is wrong, with the commands; who lives without a record is a note."""
    stray = Presence(agent="coder", instance="i", holder="another", host="h1")

    assert verdicts(check_agents([], [])) == ["note"]
    assert verdicts(check_agents([agent("web")], agent("web").instances)) == ["ok"]
    gone = list(check_agents([agent("web", living=False)], [stray]))
    assert verdicts(gone) == ["wrong", "note"]
    assert "bus forget web" in gone[0].advice
    assert "coder (h1)" in gone[1].found


def test_what_is_left_of_agents_comes_with_the_command() -> None:
    """An inbox without a record, and mentions of a name that has neither."""
    waiting = WaitingFacts((), {"old": 3, "user": 2}, ())
    left, unread = check_left([agent("web")], [consumer("old"), consumer("web")], waiting)

    assert verdicts([left, unread]) == ["note", "note"]
    assert "bus forget old" in left.advice
    assert "user (2)" in unread.found
    assert "old" not in unread.found
    assert verdicts(check_left([agent("web")], [consumer("web")], WaitingFacts((), {}, ()))) == []


@pytest.mark.parametrize(("age", "verdict"), [(599, "ok"), (601, "wrong"), (None, "note")])
def test_mentions_by_their_age(age: int | None, verdict: str) -> None:
    """Whether one may look at the age or not, the count is told."""
    row = WaitingRow(
        agent="web",
        count=7,
        oldest_age=None if age is None else age * S,
        oldest_task="t",
        oldest_sender="user",
    )
    check = check_waiting([row], [agent("web", living=False)], 10)

    assert verdicts([check]) == [verdict]
    assert "7" in check.found


def test_dead_letters_by_their_age() -> None:
    """One of the last hour is wrong and names the task; an older one is not."""
    young = next(iter(check_recent([recorded(DEAD, age_s=3_599)], NOW, 1)))
    old = next(iter(check_recent([recorded(DEAD, age_s=3_601)], NOW, 1)))

    assert (young.verdict, old.verdict) == ("wrong", "ok")
    assert "web (1)" in young.found
    assert "Boom" in young.found
    assert "busreplay" in young.advice


def test_bytes_that_are_no_events_are_a_note() -> None:
    """The last one is named by its sequence."""
    entries: list[Entry] = [recorded(MESSAGE), Rejected(7, "bus.x", "no event")]
    checks = list(check_recent(entries, NOW, 1))

    assert verdicts(checks) == ["ok", "note", "ok"]
    assert "sequence 7" in checks[1].found


def test_clocks_of_senders() -> None:
    """One event in time clears a sender; late ones are only late."""
    ahead = [recorded(MESSAGE, "a", ahead_s=6)]
    behind = [recorded(MESSAGE, "b", ahead_s=-6), recorded(MESSAGE, "b", ahead_s=-90)]
    late = [recorded(MESSAGE, "c", ahead_s=-90), recorded(MESSAGE, "c")]
    checks = list(check_recent([*ahead, *behind, *late], NOW, 1))

    assert verdicts(checks) == ["ok", "wrong"]
    assert "a 6.0 s ahead" in checks[1].found
    assert "b 6.0 s behind" in checks[1].found
    assert "c" not in checks[1].found.partition(":")[2].split()


def test_what_may_not_be_seen_is_told_from_what_does_not_answer() -> None:
    """The first is nobody's fault; the second is wrong."""
    denied = Unseen.because("x", PermissionDeniedError("publishing", "$JS.API.INFO"))
    silent = Unseen.because("x", ReadTimeoutError("x", "no answer in time"))

    assert hidden(denied).verdict == "unseen"
    assert hidden(silent).verdict == "wrong"
    assert "credentials" in hidden(denied).found


@pytest.mark.parametrize(
    "error", [AgentLivingError("web", 2), MonitorError("http://x", "refused")], ids=str
)
def test_errors_survive_pickling(error: Exception) -> None:
    """With their text."""
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes
