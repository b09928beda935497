"""An exported file gives back what was written to it, and stands whatever has happened to it."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from tests.support.runs import revenue_run
from tests.support.story import TASK, Story
from threadbus.replay import ExportFileError, FileSource, LogItem, export_line, parse_line
from threadbus.replay.export import MAX_LINE_BYTES
from threadbus.schemas import (
    EventClass,
    MessagePosted,
    OpaqueData,
    Recorded,
    Rejected,
    TaskId,
    TaskOpened,
    TextPart,
    encode_event,
)

OTHER = TaskId("019ca9a1c5887b1e8f3a5c0d2e4b6a72")


def write_run(path: Path, items: list[LogItem]) -> Path:
    """Write an exported file."""
    path.write_bytes(b"".join(export_line(item) for item in items))
    return path


async def read(path: Path, task: TaskId = TASK, after: int = 0) -> list[LogItem]:
    """Read all of a task from a file."""
    return [item async for item in FileSource(path).read(task, after)]


async def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    """Sequence, time of storage, event and bytes are those of the log."""
    log = revenue_run().log

    assert await read(write_run(tmp_path / "run.jsonl", [*log])) == log


async def test_reading_and_writing_gives_the_same_bytes(tmp_path: Path) -> None:
    """An exported file, read and exported again, is the same file."""
    strange = b'{ "v":1, "id":"%s", "data":{"parts":[{"kind":"text","text":"\\u00e9"}],"new":1.50},'
    body = strange % (b"0190" * 7 + b"0001") + (
        b'"type":"message.posted","task":"%s","thread":"main","sender":"web","at":7}'
        % TASK.encode()
    )
    item = parse_line(b'{"seq":7,"stored_at":8,"event":%s}' % body)
    assert isinstance(item, Recorded)
    rejected = Rejected(9, f"bus.{TASK}.odd", 'not "JSON"\n', 5, b"\xff\x00")
    path = write_run(tmp_path / "run.jsonl", [item, rejected, *revenue_run().log])

    again = b"".join([export_line(found) for found in await read(path)])

    assert again == path.read_bytes()
    assert body in again


def test_an_event_that_was_stored_over_several_lines_takes_one() -> None:
    """Line ends between the tokens of JSON become spaces; in strings there are none."""
    event = revenue_run().log[0].event
    spread = msgspec.json.format(encode_event(event), indent=2)
    line = export_line(Recorded(3, event, 4, spread))

    assert line.count(b"\n") == 1
    found = parse_line(line)
    assert isinstance(found, Recorded)
    assert found.event == event


def test_an_event_without_its_bytes_is_encoded() -> None:
    """What was not read from a log can be exported, too."""
    event = revenue_run().log[0].event
    found = parse_line(export_line(Recorded(3, event, 4)))

    assert found == Recorded(3, event, 4, encode_event(event))


def test_the_class_of_an_unknown_type_comes_back() -> None:
    """Only the subject has it, which is why the line has the subject."""
    story = Story()
    data = OpaqueData(raw=b'{"a":1}', event_class=EventClass.WORK)
    story.add("web", data, type_name="plan.dreamed")
    found = parse_line(export_line(story.log[0]))

    assert isinstance(found, Recorded)
    assert found.event.event_class is EventClass.WORK


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"not JSON", "not a line of an exported file"),
        (b'{"seq":"x"}', "not a line of an exported file"),
        (b'"text"', "not a line of an exported file"),
        (b"\xff\xfe\x00", "not a line of an exported file"),
        (b"[" * 100_000, "not a line of an exported file"),
        (b'{"seq":4}', "neither an event nor a reason"),
        (b'{"seq":4,"event":{"v":1}}', "not a valid event"),
        (b'{"seq":4,"event":null}', "not a valid event"),
        (b'{"seq":4,"subject":"bus.x","event":{"v":1}}', "subject"),
        (b"x" * (MAX_LINE_BYTES + 1), "over the limit of 16,777,216 bytes"),
    ],
)
def test_a_line_that_is_none_is_reported(line: bytes, says: str) -> None:
    """It becomes a report with its number in the file, never an error."""
    found = parse_line(line, 17)

    assert isinstance(found, Rejected)
    assert says in found.reason
    assert found.reason.startswith("line 17: ")


def test_a_body_that_disagrees_with_its_subject_is_reported() -> None:
    """A line that was edited by hand is held to the same rules as a message on the server."""
    line = export_line(revenue_run().log[0]).replace(b".ctl.user", b".ctl.mallory", 1)
    found = parse_line(line, 3)

    assert isinstance(found, Rejected)
    assert "disagree" in found.reason


async def test_broken_lines_do_not_hide_the_others(tmp_path: Path) -> None:
    """Around what cannot be read, everything else is."""
    log = revenue_run().log
    lines = [export_line(item) for item in log]
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + lines[0] + b"\r\n\n  \nbroken\n" + b"".join(lines[1:])[:-2])
    found = await read(path)

    assert [item for item in found if isinstance(item, Recorded)] == log[:-1]
    reasons = [item.reason for item in found if isinstance(item, Rejected)]
    assert [reason.split(":")[0] for reason in reasons] == ["line 5", "line 45"]


async def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """An overlong line is passed over in pieces, and what follows it is read."""
    log = revenue_run().log
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * (3 * MAX_LINE_BYTES) + b"\n" + export_line(log[0]))
    rejected, recorded = await read(path)

    assert isinstance(rejected, Rejected)
    assert "over the limit" in rejected.reason
    assert recorded == log[0]


async def test_a_compressed_file_is_read_as_it_is(tmp_path: Path) -> None:
    """Gzip is known by its first bytes, not by the name."""
    log = revenue_run().log
    path = tmp_path / "run.jsonl"
    path.write_bytes(gzip.compress(b"".join(export_line(item) for item in log)))

    assert await read(path) == log


async def test_a_compressed_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    """The break is reported after what came before it."""
    story = Story()
    for number in range(5_000):
        story.say("web", f"message {number} {number * 7919 % 10_007:x}")
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(export_line(item) for item in story.log))[:-20_000])
    found = await read(path)

    assert isinstance(found[0], Recorded)
    assert isinstance(found[-1], Rejected)
    assert "the file breaks off after line" in found[-1].reason
    assert [item for item in found if isinstance(item, Recorded)] == story.log[: len(found) - 1]


async def test_a_short_compressed_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    """What was unpacked before the break is not thrown away with it."""
    log = revenue_run().log
    path = tmp_path / "run.jsonl.gz"
    packed = gzip.compress(b"".join(export_line(item) for item in log))
    path.write_bytes(packed[: len(packed) * 3 // 4])
    found = await read(path)

    assert 5 < len(found) < len(log)
    assert found[:-1] == log[: len(found) - 1]


async def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    """Its path and the reason are in the message, and how to make such a file."""
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(ExportFileError, match="busreplay export TASK") as caught:
            await read(path)
        assert caught.value.path == str(path)


async def test_one_task_is_read_from_a_file_of_several(tmp_path: Path) -> None:
    """Each task has its own events; what cannot be read counts where its subject says."""
    one, two = revenue_run(), Story(task=OTHER)
    two.say("web", "hello")
    lost = Rejected(500, f"bus.{OTHER}.main.msg.web", "no reason")
    nowhere = Rejected(501, "", "no reason")
    path = write_run(tmp_path / "run.jsonl", [*one.log, *two.log, lost, nowhere])

    assert await read(path) == [*one.log, nowhere]
    assert await read(path, OTHER) == [*two.log, lost, nowhere]


async def test_reading_goes_on_after_a_sequence(tmp_path: Path) -> None:
    """Only what is later is read, and following a file is reading it."""
    log = revenue_run().log
    path = write_run(tmp_path / "run.jsonl", [*log])

    assert await read(path, after=log[4].seq) == log[5:]
    assert [item async for item in FileSource(path).follow(TASK, log[4].seq)] == log[5:]


async def test_tasks_are_found_by_the_start_of_their_id(tmp_path: Path) -> None:
    """In the order of the file, the newest last, with their titles."""
    one, two = Story(), Story(task=OTHER)
    one.add("user", TaskOpened(title="First"), mentions=("web",))
    two.add("web", MessagePosted(parts=(TextPart("hello"),)))
    path = write_run(tmp_path / "run.jsonl", [*one.log, *two.log, Rejected(1, "", "odd")])
    source = FileSource(path)

    assert await source.find(TASK[:31]) == [TASK, OTHER]
    assert await source.find(TASK) == [TASK]
    assert await source.find("ff") == []
    newest = await source.newest(5)
    assert [(line.task, line.title) for line in newest] == [(OTHER, ""), (TASK, "First")]
    assert await source.newest(1) == newest[:1]
