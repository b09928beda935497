"""What is counted from a log: the same numbers for the same log, within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.schema_events import event
from threadbus.agents.monitoring import (
    FAMILIES,
    OTHER,
    Counts,
    CountsFileError,
    LogCounter,
    Sample,
    Shown,
    read_counts,
    render,
    write_counts,
)
from threadbus.schemas import (
    AgentName,
    AnyData,
    ErrorInfo,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    MessagePosted,
    ModelCalled,
    OpaqueData,
    Origin,
    Recorded,
    Rejected,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TextPart,
    ToolReturned,
)
from threadbus.schemas import EventClass as Class

S = 1_000_000_000
ERROR = ErrorInfo("x", "y")


class Log:
    """Gives entries, one behind the other."""

    def __init__(self) -> None:
        self.entries: list[Recorded | Rejected] = []

    def add(self, data: AnyData, sender: str = "web", at: int = 0, **changes: Any) -> None:
        """Add an event, stored *at* so many seconds."""
        made = event(data, sender=AgentName(sender), type=type_of(data), **changes)
        self.entries.append(Recorded(len(self.entries) + 1, made, stored_at=at * S))

    def garbage(self) -> None:
        """Add bytes that are no event."""
        self.entries.append(Rejected(len(self.entries) + 1, "bus.x", "no event"))


def type_of(data: AnyData) -> str:
    """Return the type of an event with such data."""
    return "x.y" if isinstance(data, OpaqueData) else data.TYPE


def counted(log: Log, *, max_agents: int = 9) -> LogCounter:
    """Count a log."""
    counter = LogCounter(Counts(), max_agents=max_agents)
    for entry in log.entries:
        counter.take(entry)
    return counter


def shown(counter: LogCounter) -> dict[str, float]:
    """Return each sample of a scrape by name and labels, as the parser of the client reads it."""
    now = Shown(counter.counts, counter.tasks_open, Sample(), 1.0, is_up=True)
    text = render(now)[0].decode()
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def work() -> Log:
    """A log with some of everything."""
    log = Log()
    log.add(TaskOpened(title="x"), "user", at=100)
    log.add(HandlingFailed(error=ERROR))
    log.add(HandlingEnded(received_at=S, started_at=3 * S, ended_at=10 * S))
    log.add(MentionDeadLettered(error=ERROR), "coder")
    log.add(
        ModelCalled(
            model="m",
            started_at=1,
            duration_ns=2 * S,
            input_tokens=7,
            cached_tokens=3,
            output_tokens=5,
        )
    )
    log.add(ModelCalled(model="m", started_at=1, duration_ns=S, input_tokens=1, error=ERROR))
    log.add(ToolReturned(call_id="1", tool="fetch", duration_ns=S // 2))
    log.garbage()
    log.add(OpaqueData(raw=b"{}", event_class=Class.OBS))
    log.add(TaskClosed(outcome=TaskStatus.COMPLETED), "user", at=130)
    return log


def test_each_kind_of_event_is_counted() -> None:
    """Counts, sums and buckets are those of the log."""
    values = shown(counted(work()))

    assert values["threadbus_events_total ctl task.opened"] == 1
    assert values["threadbus_events_total obs other"] == 1
    assert values["threadbus_not_events_total"] == 1
    assert values["threadbus_tasks_opened_total"] == 1
    assert values["threadbus_tasks_ended_total completed"] == 1
    assert values["threadbus_tasks_open"] == 0
    assert values["threadbus_turns_total web ended"] == 1
    assert values["threadbus_turns_total web failed"] == 1
    assert values["threadbus_turn_seconds_sum web"] == 7
    assert values["threadbus_turn_seconds_bucket web 5.0"] == 0
    assert values["threadbus_turn_seconds_bucket web 10.0"] == 1
    assert values["threadbus_turn_seconds_bucket web +Inf"] == 1
    assert values["threadbus_turn_wait_seconds_sum web"] == 2
    assert values["threadbus_dead_letters_total coder"] == 1
    assert values["threadbus_tokens_total web input m"] == 8
    assert values["threadbus_tokens_total web cached m"] == 3
    assert values["threadbus_tokens_total web output m"] == 5
    assert values["threadbus_model_calls_total web m failed"] == 1
    assert values["threadbus_tool_calls_total web ok fetch"] == 1
    assert values["threadbus_task_seconds_sum completed"] == 30
    assert values["threadbus_counted_sequence"] == 10
    assert values["threadbus_counting_since_timestamp_seconds"] == 100


def test_every_name_of_a_scrape_is_in_the_table() -> None:
    """Nothing is shown that is not documented."""
    names = {family.full_name for family in FAMILIES.values()}
    suffixes = ("_bucket", "_count", "_sum", "_created")
    for key in shown(counted(work())):
        name = key.split(" ")[0]
        stripped = next((name.removesuffix(s) for s in suffixes if name.endswith(s)), name)
        assert {name, stripped, f"{stripped}_total"} & names, name


def test_what_was_counted_before_is_passed_over() -> None:
    """The same entries a second time change nothing; counters kept halfway end at the same."""
    log = work()
    whole = counted(log)
    before = msgspec.json.encode(whole.counts)
    for entry in log.entries:
        whole.take(entry)
    first = counted(log)
    half = LogCounter(Counts(), max_agents=9)
    for entry in log.entries[:5]:
        half.take(entry)
    kept = msgspec.json.decode(msgspec.json.encode(half.counts), type=Counts)
    again = LogCounter(kept, max_agents=9)
    for entry in log.entries[3:]:
        again.take(entry)

    assert msgspec.json.encode(whole.counts) == before
    assert again.counts == first.counts


def test_names_beyond_the_bound_are_counted_together() -> None:
    """Nothing is lost, and there are never more series than the bound and one."""
    log = Log()
    for number in range(500):
        call = ModelCalled(model=f"m{number}", started_at=1, duration_ns=1, output_tokens=2)
        log.add(call, f"a{number}", mentions=(AgentName(f"b{number}"),))
    counter = counted(log, max_agents=3)
    tokens = counter.counts.numbers["tokens"]
    mentions = counter.counts.numbers["mentions"]

    assert sum(tokens.values()) == 1000
    assert len(mentions) <= 4
    assert mentions[OTHER] == 498
    assert len(counter.counts.durations["model_call_seconds"]) == 51


def test_series_beyond_the_bound_are_counted_together() -> None:
    """Bounds of two labels multiply: there is one for a whole metric as well."""
    log = Log()
    for number in range(4000):
        call = ModelCalled(model=f"m{number % 50}", started_at=1, duration_ns=1, output_tokens=1)
        log.add(call, f"a{number // 50}")
    counter = counted(log, max_agents=1000)
    tokens = counter.counts.numbers["tokens"]

    assert len(tokens) <= 2003
    assert sum(tokens.values()) == 4000


def test_copies_of_a_fork_are_not_counted_as_work() -> None:
    """They are events, and open a super-task, but nothing of it happened twice."""
    log = Log()
    task = TaskId("0199b2f04c007a31b2c3d4e5f6071830")
    origin = Origin(task="0199b2f04c007a31b2c3d4e5f6071829", id="0" * 32, seq=1, at=1)
    call = ModelCalled(model="m", started_at=1, duration_ns=1, output_tokens=2)
    log.add(TaskOpened(title="x"), task=task, origin=origin)
    log.add(call, task=task, origin=origin)
    values = shown(counted(log))

    assert values["threadbus_events_total obs model.called"] == 1
    assert values["threadbus_tasks_open"] == 1
    assert "threadbus_tokens_total web output m" not in values


def test_a_task_ends_once() -> None:
    """A second end, or one of a task that was never opened, is an event and nothing else."""
    log = Log()
    log.add(TaskOpened(title="x"))
    for _ in range(3):
        log.add(TaskClosed(outcome=TaskStatus.FAILED))
    values = shown(counted(log))

    assert values["threadbus_tasks_ended_total failed"] == 1
    assert values["threadbus_tasks_open"] == 0


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    """It is counted as nothing, in the first bucket."""
    log = Log()
    log.add(HandlingEnded(received_at=9 * S, started_at=5 * S, ended_at=S))
    values = shown(counted(log))

    assert values["threadbus_turn_seconds_sum web"] == 0
    assert values["threadbus_turn_seconds_bucket web 0.1"] == 1


def test_a_name_of_a_model_cannot_break_out_of_its_label() -> None:
    """Quotes, line ends and our own separator come out as they went in, or as a blank."""
    log = Log()
    log.add(ModelCalled(model='a"} 1\nb\x1fc\\', started_at=1, duration_ns=1, output_tokens=4))
    values = shown(counted(log))

    assert values['threadbus_tokens_total web output a"} 1\nb c\\'] == 4


def test_counters_are_hidden_until_they_are_known() -> None:
    """A scrape before the end of the log has none: they would seem to have been reset."""
    text = render(Shown(None, 0, None, 0.0, is_up=False))[0].decode()

    assert "threadbus_events_total" not in text
    assert "threadbus_catching_up 1.0" in text
    assert "threadbus_up 0.0" in text


def test_open_metrics_is_given_to_whoever_takes_it() -> None:
    """It says when the counters began."""
    counter = counted(work())
    now = Shown(counter.counts, 0, Sample(), 1.0, is_up=True)
    text, media_type = render(now, "application/openmetrics-text; version=1.0.0")

    assert media_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
    assert b"threadbus_tasks_opened_created 100.0" in text


def test_counters_come_back_from_their_file(tmp_path: Path) -> None:
    """The file is whole at any time, and its owner's alone."""
    path = tmp_path / "counts.json"
    counts = counted(work()).counts
    write_counts(path, Counts())
    write_counts(path, counts)

    assert read_counts(path) == counts
    assert read_counts(tmp_path / "nothing") is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"form": 2}', b'{"seq": "x"}', b'{"durations":{"a":{"":{"counts":[1]}}}}'],
)
def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names it and says what to do; it is not written over."""
    path = tmp_path / "counts.json"
    path.write_bytes(content)
    with pytest.raises(CountsFileError, match="--state") as raised:
        read_counts(path)

    assert str(path) in str(raised.value)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The folder is named by the path."""
    with pytest.raises(CountsFileError, match="nowhere"):
        write_counts(tmp_path / "nowhere" / "counts.json", Counts())


def test_a_message_is_only_an_event() -> None:
    """It is counted under its class and type, and for whom it mentions."""
    log = Log()
    log.add(MessagePosted(parts=(TextPart("hi"),)))
    values = shown(counted(log))

    assert values["threadbus_events_total msg message.posted"] == 1
    assert values["threadbus_mentions_total planner"] == 1
