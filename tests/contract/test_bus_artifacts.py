"""Artifacts: large parts outside the event, once per content, checked when they are read."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from tests.support.bus_env import BusEnv, events_of, opened, soon, text, types_of
from threadbus.bus import (
    ArtifactCorruptError,
    ArtifactNotFoundError,
    ArtifactTooLargeError,
    BusSettings,
)
from threadbus.schemas import (
    MAIN_THREAD,
    ArtifactAdded,
    DataPart,
    FilePart,
    InvalidTextError,
    MessagePosted,
    Part,
    ReferencePart,
    SchemaError,
    TextPart,
)

SMALL = BusSettings(part_max_bytes=100, artifact_max_bytes=10_000)


def sha256(content: bytes) -> str:
    """Return the name of a content."""
    return hashlib.sha256(content).hexdigest()


async def test_bytes_come_back_as_they_were_put(env: BusEnv) -> None:
    """Content of any size is read back by its reference, from any process."""
    async with env.buses("user", "web") as (user, web):
        for content in (b"", b"\0", bytes(range(256)) * 2000):
            reference = await user.artifacts.put(content, name="a b.csv", media_type="text/csv")

            assert reference == ReferencePart(
                sha256(content), len(content), "a b.csv", "text/csv", "file"
            )
            assert await web.artifacts.get(reference) == content


async def test_one_content_is_one_object(env: BusEnv) -> None:
    """The same bytes under two names, put at once by two processes, are one content."""
    content = b"x" * 300_000
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        first, second = await soon(
            asyncio.gather(
                user.artifacts.put(content, name="one"), web.artifacts.put(content, name="two")
            )
        )
        exists = await backend.objects.exists(sha256(content))

        assert first.sha256 == second.sha256
        assert (first.name, second.name) == ("one", "two")
        assert await user.artifacts.get(second) == content
        assert exists


@pytest.mark.parametrize(
    ("fits", "too_large"),
    [
        (TextPart("x" * 100), TextPart("x" * 101)),
        (TextPart("é" * 50), TextPart("é" * 50 + "x")),
        (DataPart(["x" * 96]), DataPart(["x" * 97])),
        (FilePart(b"x" * 100, "a.bin"), FilePart(b"x" * 101, "a.bin", "application/x-a")),
    ],
    ids=["ascii", "two-bytes", "data", "file"],
)
async def test_a_part_above_the_limit_is_kept_outside(
    env: BusEnv, fits: Part, too_large: Part
) -> None:
    """A part of exactly the limit stays in the event, one byte more becomes a reference."""
    async with env.connect("user", SMALL) as user:
        task = await opened(user)
        await user.send(task, MAIN_THREAD, [fits, too_large])
        *_, event = await events_of(user, task)
        assert isinstance(event.data, MessagePosted)
        kept, reference = event.data.parts
        assert isinstance(reference, ReferencePart)
        loaded = await user.artifacts.load(reference)

        assert kept == fits
        assert reference.size > 100
        assert loaded == too_large
        assert await user.artifacts.load(fits) == fits


async def test_every_event_that_carries_parts_keeps_them_outside(env: BusEnv) -> None:
    """Questions, answers, requests for input and artifacts are treated as messages are."""
    large = TextPart("x" * 101)
    async with env.buses("web"), env.connect("user", SMALL) as user:
        appended = await user.tasks.open(large, to=["web"], title="Large")
        task = appended.event.task
        await user.tasks.request_input(task, large)
        await user.tasks.give_input(task, large)
        await user.tasks.add_artifact(task, "report", large, description="all of it")
        await user.tasks.submit_answer(task, large)
        state = await user.tasks.state(task)
        answer = await soon(user.waits.for_answer(task))
        added = state.artifacts[0].data

    reference = ReferencePart(sha256(b"x" * 101), 101, "", "text/plain", "text")
    assert state.question == (reference,)
    assert isinstance(added, ArtifactAdded)
    assert added == ArtifactAdded(name="report", part=reference, description="all of it")
    assert answer.parts == (reference,)


async def test_changed_bytes_are_not_used(env: BusEnv) -> None:
    """Content other than its hash says: changed, cut, lengthened or empty, is refused."""
    right = b"the right bytes" * 1000
    async with env.connect("user") as user, env.backend() as backend:
        for wrong in (b"X" + right[1:], right[:-1], right + b"!", b""):
            content = right + b"of" + wrong[:1] + bytes([len(wrong) % 251])
            reference = ReferencePart(sha256(content), len(content))
            await backend.objects.put(reference.sha256, wrong)
            with pytest.raises(ArtifactCorruptError) as refusal:
                await user.artifacts.get(reference)

            assert refusal.value.sha256 == reference.sha256
            assert refusal.value.found == sha256(wrong)


async def test_missing_content_is_an_error(env: BusEnv) -> None:
    """A reference to what is not in the store is an error that names it."""
    missing = ReferencePart(sha256(b"never put"), 9)
    async with env.connect("user") as user:
        for read in (user.artifacts.get, user.artifacts.load):
            with pytest.raises(ArtifactNotFoundError) as refusal:
                await read(missing)

            assert refusal.value.sha256 == missing.sha256


async def test_content_above_the_limit_is_refused(env: BusEnv) -> None:
    """Too much content is neither stored nor read; the error names size and limit."""
    async with env.connect("user", SMALL) as user, env.connect("web") as web:
        task = await opened(user)
        with pytest.raises(ArtifactTooLargeError) as at_put:
            await user.artifacts.put(b"x" * 10_001)
        with pytest.raises(ArtifactTooLargeError):
            await user.send(task, MAIN_THREAD, FilePart(b"x" * 10_001))
        reference = await web.artifacts.put(b"x" * 10_001)
        with pytest.raises(ArtifactTooLargeError) as at_get:
            await user.artifacts.get(reference)
        lying = ReferencePart(reference.sha256, 5)
        with pytest.raises(ArtifactTooLargeError) as at_lie:
            await user.artifacts.get(lying)

        for error in (at_put.value, at_get.value, at_lie.value):
            assert (error.size, error.limit) == (10_001, 10_000)
        assert await types_of(user, task) == ["task.opened"]
        assert await user.artifacts.put(b"x" * 10_000)


async def test_a_part_of_a_hundred_megabytes_is_refused_or_kept(env: BusEnv) -> None:
    """A part of 100 MB needs an object store that may take it; the log is not touched by it."""
    settings = BusSettings(artifact_max_bytes=64 * 1024 * 1024)
    content = bytes(100_000_000)
    async with env.connect("user", settings) as user:
        task = await opened(user)
        for part in (FilePart(content), TextPart("x" * len(content))):
            with pytest.raises(ArtifactTooLargeError) as refusal:
                await user.send(task, MAIN_THREAD, part)

            assert refusal.value.size == 100_000_000
        await user.send(task, MAIN_THREAD, FilePart(content[:10_000_000], "ten.bin"))
        *_, event = await events_of(user, task)

    assert text(event) == "[file ten.bin, application/octet-stream, 10000000 bytes]"


@pytest.mark.parametrize("size", [10, 200])
@pytest.mark.parametrize("bad", ["\0", "\ud800"], ids=["nul", "surrogate"])
async def test_text_that_cannot_travel_is_refused_at_any_size(
    env: BusEnv, bad: str, size: int
) -> None:
    """NUL and lone surrogates are refused inside an event and in content kept outside it."""
    wrong = "x" * size + bad
    async with env.connect("user", SMALL) as user:
        task = await opened(user)
        for part in (TextPart(wrong), DataPart({"key": [wrong]}), DataPart({wrong: 1})):
            with pytest.raises(InvalidTextError):
                await user.send(task, MAIN_THREAD, part)
        with pytest.raises(InvalidTextError):
            await user.tasks.add_artifact(task, "a", TextPart(wrong))

        assert await types_of(user, task) == ["task.opened"]


@pytest.mark.parametrize("size", [10, 200])
async def test_data_that_is_no_json_is_refused_at_any_size(env: BusEnv, size: int) -> None:
    """A value that JSON has no word for is refused inside an event and outside it."""
    async with env.connect("user", SMALL) as user:
        task = await opened(user)
        for value in (object(), float, {(1, 2): 3}):
            with pytest.raises(SchemaError):
                await user.send(task, MAIN_THREAD, DataPart(["x" * size, value]))

        assert await types_of(user, task) == ["task.opened"]


async def test_a_reference_that_says_another_kind_is_refused(env: BusEnv) -> None:
    """Bytes that are not what a reference calls them are an error, not a part."""
    async with env.connect("user") as user:
        reference = await user.artifacts.put(b"\xff\xfe not UTF-8")
        for kind in ("text", "data"):
            with pytest.raises(SchemaError):
                await user.artifacts.load(ReferencePart(reference.sha256, reference.size, of=kind))

        loaded = await user.artifacts.load(reference)
        assert loaded == FilePart(b"\xff\xfe not UTF-8")


async def test_references_are_passed_on_as_they_are(env: BusEnv) -> None:
    """A reference in a message stays one, also when what it names is not there."""
    missing = ReferencePart("a" * 64, 5, name="gone.txt")
    async with env.connect("user", replace(SMALL, part_max_bytes=1)) as user:
        task = await opened(user)
        await user.send(task, MAIN_THREAD, missing)
        *_, event = await events_of(user, task)

    assert event.data == MessagePosted(parts=(missing,))
