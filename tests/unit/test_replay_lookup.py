"""What a person types becomes the id of one task, or an error that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.story import TASK, Story
from threadbus.replay import (
    AmbiguousTaskError,
    FileSource,
    UnknownTaskError,
    export_line,
    find_task,
)
from threadbus.schemas import TaskId, TaskOpened

OTHER = TaskId(TASK[:-1] + "2")


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    """A file with two tasks whose ids differ in the last digit."""
    path = tmp_path / "runs.jsonl"
    with path.open("wb") as file:
        for task, title in ((TASK, "The first"), (OTHER, "The second \x1b[2J")):
            story = Story(task=task)
            story.add("user", TaskOpened(title=title), mentions=("web",))
            file.writelines(export_line(item) for item in story.log)
    return FileSource(path)


async def test_a_full_id_needs_no_search(source: FileSource) -> None:
    """It is taken as it is; dashes and capitals do not matter."""
    dashed = f" {TASK[:8]}-{TASK[8:12]}-{TASK[12:16]}-{TASK[16:20]}-{TASK[20:]} ".upper()

    assert await find_task(source, TASK) == TASK
    assert await find_task(source, dashed) == TASK
    assert await find_task(source, "f" * 32) == "f" * 32


async def test_the_only_task_needs_no_id(tmp_path: Path) -> None:
    """A prefix, even an empty one, is enough where it is unique."""
    story = Story()
    story.say("web", "hello")
    path = tmp_path / "run.jsonl"
    path.write_bytes(export_line(story.log[0]))

    assert await find_task(FileSource(path), "") == TASK
    assert await find_task(FileSource(path), TASK[:3]) == TASK


async def test_several_tasks_are_listed(source: FileSource) -> None:
    """An ambiguous prefix is answered with the tasks that it fits, harmless and with titles."""
    for wanted in ("", TASK[:10]):
        with pytest.raises(AmbiguousTaskError, match="more than one super-task") as caught:
            await find_task(source, wanted)

        message = str(caught.value)
        assert TASK in message
        assert "The second \\x1b[2J" in message


@pytest.mark.parametrize("wanted", ["f" * 8, TASK[:16] + "0" * 8, "hello", "0x12", TASK + "0"])
async def test_an_unknown_id_is_answered_with_others(source: FileSource, wanted: str) -> None:
    """Nothing fits, so the nearest and the newest are named."""
    with pytest.raises(UnknownTaskError, match="no super-task") as caught:
        await find_task(source, wanted)

    assert caught.value.wanted == wanted
    assert [line[:32] for line in caught.value.near[:2]] in ([OTHER, TASK], [TASK, OTHER])


async def test_the_most_alike_comes_first(source: FileSource) -> None:
    """An id with one wrong digit leads to the right one."""
    wrong = TASK[:20] + ("0" if TASK[20] != "0" else "1") + TASK[21:31]
    with pytest.raises(UnknownTaskError) as caught:
        await find_task(source, wrong + "z")

    assert caught.value.near[0].startswith(TASK[:31])


async def test_an_empty_source_says_so(tmp_path: Path) -> None:
    """Nothing is near where there is nothing."""
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    with pytest.raises(UnknownTaskError, match="holds no super-task that can be read"):
        await find_task(FileSource(path), "")
