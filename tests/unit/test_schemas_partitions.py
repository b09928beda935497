"""Where a token is when one stream is not enough."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from threadbus.bus import BusSettings, InvalidSettingError
from threadbus.bus._nats.layout import Layout
from threadbus.schemas import (
    MAX_PARTITIONS,
    PARTITION_SPAN,
    LogPlaces,
    new_task_id,
    partition_of,
    partition_of_seq,
    partition_start,
)

_WIRE = Path(__file__).parents[2] / "docs" / "wire.md"


def test_the_hash_has_the_vectors_that_are_written_down() -> None:
    """Other languages are told the same numbers that this one computes."""
    text = _WIRE.read_text(encoding="utf-8")
    header = re.search(r"^\| token \|(.*)\|$", text, re.MULTILINE)
    assert header is not None
    counts = [int(count) for count in re.findall(r"of (\d+)", header[1])]
    rows = re.findall(r"^\| `([0-9a-z]+)` \|((?: \d+ \|)+)$", text, re.MULTILINE)

    assert len(rows) == 4
    for token, numbers in rows:
        found = [int(number) for number in re.findall(r"\d+", numbers)]
        assert found == [partition_of(token, count) for count in counts]


def test_the_hash_is_fnv_1a() -> None:
    """The published values of the function, before the remainder is taken."""
    whole = 1 << 32
    assert partition_of("", whole) == 0x811C9DC5
    assert partition_of("a", whole) == 0xE40C292C
    assert partition_of("foobar", whole) == 0xBF9CF968


def test_tasks_are_spread_evenly() -> None:
    """No partition has twice what another has, of tasks that were made one after another."""
    found = [0] * 8
    for _ in range(4000):
        found[partition_of(new_task_id(), 8)] += 1

    assert max(found) < 2 * min(found)


def test_a_sequence_says_its_partition() -> None:
    """The first and the last of a partition are its own, and all fit what JSON can carry."""
    for partition in (0, 1, MAX_PARTITIONS - 1):
        start = partition_start(partition)
        assert partition_of_seq(start + 1) == partition
        assert partition_of_seq(start + PARTITION_SPAN) == partition
    assert partition_of_seq(0) == 0
    assert partition_start(MAX_PARTITIONS) < 2**53


def test_places_are_kept_for_each_partition() -> None:
    """An earlier sequence changes nothing, and what was not read begins at its start."""
    places = LogPlaces()
    for seq in (7, 3, partition_start(2) + 5):
        places.take(seq)

    assert [places.after(number) for number in range(3)] == [
        7,
        partition_start(1),
        partition_start(2) + 5,
    ]


def test_one_stream_has_the_names_it_always_had() -> None:
    """Nothing is sent or looked for elsewhere."""
    layout = Layout()

    assert layout.log_streams == ("BUS",)
    assert layout.inbox_streams == ("MENTIONS",)
    assert layout.entry_of("bus.t.main.msg.web") == "bus.t.main.msg.web"
    assert not layout.is_misplaced(partition_start(1) + 1, "bus.t.main.msg.web")


def test_only_events_are_sent_to_a_partition() -> None:
    """The registry and the other buckets are where they always are."""
    layout = Layout(3, 2)

    assert layout.entry_of("bus.main.x.msg.web") == "part.0.main.x.msg.web"
    assert layout.entry_of("$KV.AGENTS.web") == "$KV.AGENTS.web"
    assert layout.partition_of_filter("bus.*.main.ctl.>") is None
    assert layout.partition_of_filter("bus.>") is None


@pytest.mark.parametrize("flag", ["BUS_PARTITIONS", "BUS_INBOXES"])
@pytest.mark.parametrize("value", ["-1", str(MAX_PARTITIONS + 1), "many"])
def test_a_number_of_streams_is_bounded(flag: str, value: str) -> None:
    """A wrong number is refused with the variable and the bound."""
    with pytest.raises(InvalidSettingError, match=f"{flag}.*{MAX_PARTITIONS}"):
        BusSettings.from_env({flag: value})
