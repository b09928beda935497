"""Translation between A2A and the bus: pure functions, held to golden files."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format

from tests.support.golden import assert_golden
from threadbus.gateways.a2a.exact import mark, mark_numbers, unmark_numbers
from threadbus.gateways.a2a.ids import CONTEXT, MESSAGE, event_of, task_of
from threadbus.gateways.a2a.parts import LINK, to_a2a, to_bus
from threadbus.gateways.a2a.view import TaskView, parse_position
from threadbus.gateways.errors import ForeignPartError
from threadbus.schemas import (
    MAIN_THREAD,
    METADATA_TYPE,
    AgentName,
    AnswerSubmitted,
    AnyData,
    ArtifactAdded,
    DataPart,
    EventId,
    FilePart,
    HandlingStarted,
    InputGiven,
    InputRequested,
    MessagePosted,
    Part,
    Recorded,
    ReferencePart,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    make_event,
)

TASK = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
CLIENT, AGENT = AgentName("client"), AgentName("web")


def link(part: ReferencePart) -> str:
    """Return an address for content."""
    return f"https://gateway.example/{part.sha256[:8]}"


class Story:
    """Events of one task, each folded in, and the updates that came of them."""

    def __init__(self) -> None:
        self.view = TaskView(TASK, link)
        self.updates: list[dict[str, Any]] = []
        self._seq = 0

    def tell(self, sender: AgentName, data: AnyData, **more: Any) -> EventId:
        """Fold one event in; return its id."""
        self._seq += 1
        event = make_event(
            data,
            task=TASK,
            thread=more.pop("thread", MAIN_THREAD),
            sender=sender,
            event_id=EventId(f"0199b2f04c107a31b2c3d4e5f60{self._seq:05x}"),
            at=1_759_640_000_123_456_789 + self._seq * 1_000_000_000,
            **more,
        )
        for _, update in self.view.apply(Recorded(self._seq, event)):
            self.updates.append(json_format.MessageToDict(update))
        return event.id

    def open(self) -> EventId:
        """Open the task."""
        labels = {MESSAGE: "m-1", CONTEXT: "ctx"}
        data = TaskOpened(title="Q", parts=(TextPart("Which one?"),), labels=labels)
        return self.tell(CLIENT, data, mentions=(AGENT,))

    @property
    def states(self) -> list[str]:
        """The states that the updates went through."""
        found = [update["status"]["state"] for update in self.updates if "status" in update]
        return [state.removeprefix("TASK_STATE_") for state in found]


def test_a_whole_conversation() -> None:
    """Every kind of event, as a client gets it: updates, and the task at the end."""
    story = Story()
    story.open()
    story.tell(AGENT, HandlingStarted())
    story.tell(AGENT, MessagePosted(parts=(TextPart("On it."),)))
    first = story.tell(AGENT, ArtifactAdded(name="log", part=TextPart("one "), more=True))
    story.tell(AGENT, ArtifactAdded(name="log", part=TextPart("two"), chunk_of=first))
    story.tell(AGENT, ArtifactAdded(name="big", part=ReferencePart("a" * 64, 2**21, "b.bin")))
    asked = story.tell(AGENT, InputRequested(parts=(TextPart("Gross or net?"),)))
    story.tell(AGENT, MessagePosted(parts=(TextPart("No hurry."),)))
    given = InputGiven(request=asked, parts=(TextPart("Net."),), labels={MESSAGE: "m-2"})
    story.tell(CLIENT, given)
    story.tell(AGENT, TaskStatusChanged(status=TaskStatus.PAUSED, note="lunch"))
    answer = story.tell(AGENT, AnswerSubmitted(parts=(TextPart("42"), DataPart({"n": 2**60}))))
    closed = TaskClosed(outcome=TaskStatus.COMPLETED, answer=answer, summary="Done.")
    story.tell(AGENT, closed)
    told = {"updates": story.updates, "task": json_format.MessageToDict(story.view.task())}

    text = unmark_numbers(json.dumps(told, indent=1, ensure_ascii=False).encode()).decode()
    assert_golden("a2a/conversation.json", f"{text}\n")


@pytest.mark.parametrize(
    ("closed", "state", "said"),
    [
        (TaskClosed(outcome=TaskStatus.CANCELLED), "CANCELED", None),
        (TaskClosed(outcome=TaskStatus.FAILED, rejected=True, summary="no"), "REJECTED", "no"),
        (TaskClosed(outcome=TaskStatus.FAILED, summary="out of paper"), "FAILED", "out of paper"),
        (
            TaskClosed(outcome=TaskStatus.FAILED, summary="web gave up: KeyError: secret"),
            "FAILED",
            "The agent could not do it.",
        ),
        (
            TaskClosed(outcome=TaskStatus.FAILED, summary="web gave up: GiveUpError: too old"),
            "FAILED",
            "too old",
        ),
    ],
)
def test_ends(closed: TaskClosed, state: str, said: str | None) -> None:
    """Each end has its state; an exception's words stay inside, an agent's own are told."""
    story = Story()
    story.open()
    story.tell(AGENT, closed)
    message = story.updates[-1]["status"].get("message")

    assert story.states[-1] == state
    assert (message and message["parts"][0]["text"]) == said
    assert story.view.is_terminal


def test_questions_and_sign_ins() -> None:
    """A request for input and one to sign in are two states; a second open question stays."""
    story = Story()
    story.open()
    one = story.tell(AGENT, InputRequested(parts=(TextPart("a?"),)))
    two = story.tell(AGENT, InputRequested(parts=(TextPart("b?"),), auth=True))
    story.tell(CLIENT, InputGiven(request=one, parts=(TextPart("a"),)))
    story.tell(CLIENT, InputGiven(request=two, parts=(TextPart("b"),)))

    expected = ["INPUT_REQUIRED", "AUTH_REQUIRED", "AUTH_REQUIRED", "WORKING"]
    assert story.states == expected


def test_strangers_and_repetitions_say_nothing() -> None:
    """What the bus does not count is no update: outsiders, and what comes after the end."""
    story = Story()
    story.open()
    story.tell(AgentName("stranger"), MessagePosted(parts=(TextPart("psst"),)))
    story.tell(AgentName("stranger"), ArtifactAdded(name="virus", part=TextPart("x")))
    story.tell(AGENT, TaskClosed(outcome=TaskStatus.COMPLETED))
    story.tell(AGENT, ArtifactAdded(name="late", part=TextPart("x")))

    assert story.states == ["COMPLETED"]
    assert not any("artifact" in update for update in story.updates)


@pytest.mark.parametrize(
    "part",
    [
        TextPart("text", "text/markdown"),
        DataPart({"a": [1, 2.5, None, True, "x", 2**64, -(2**80)]}, "n", "application/json"),
        DataPart(1e300),
        DataPart("threadbus-exact-0000000000000000:5"),
        FilePart(b"\x00\xff", "f.bin", "application/x-thing"),
        DataPart({"url": "https://x.example", "mediaType": "text/csv"}, "n", LINK),
    ],
)
def test_parts_there_and_back(part: Part) -> None:
    """A part of the bus is the same after it went out as JSON and came in again."""
    (sent,) = to_a2a((part,), link)
    wire = unmark_numbers(json_format.MessageToJson(sent).encode())
    received = json_format.Parse(mark_numbers(wire), pb.Part())

    assert to_bus([received]) == (part,)


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("levels", [1, 27, 30, 41, 44, 63])
def test_data_that_is_nested_deeply(kind: str, levels: int) -> None:
    """Data of every depth that the bus has leaves its task readable, over each binding."""
    data: Any = 1
    for _ in range(levels):
        data = [data] if kind == "arrays" else {"a": data}
    parts = to_a2a([DataPart(data), DataPart({"message": {"x": data}}, "", METADATA_TYPE)], str)
    task = pb.Task(
        history=[pb.Message(parts=parts)], artifacts=[pb.Artifact(parts=parts, name="x")]
    )
    response = pb.ListTasksResponse(tasks=[task])
    text = unmark_numbers(json_format.MessageToJson(response, indent=None).encode())
    again = pb.ListTasksResponse.FromString(response.SerializeToString())
    sent = json.loads(text)["tasks"][0]["history"][0]["parts"][0]

    assert again == response
    assert json_format.Parse(text, pb.ListTasksResponse())
    assert (json.loads(b64decode(sent["raw"])) if "raw" in sent else sent["data"]) == data
    if levels < 28:
        assert "data" in sent


def test_content_that_was_not_loaded_is_an_address() -> None:
    """A reference to large content goes out as a url of the gateway."""
    (sent,) = to_a2a((ReferencePart("b" * 64, 2**30, "f", "text/csv"),), link)

    assert (sent.url, sent.filename, sent.media_type) == (
        "https://gateway.example/bbbbbbbb",
        "f",
        "text/csv",
    )


@pytest.mark.parametrize("body", [b"", b"{" + b"1" * 20, b'{"a": 1}', b"[" * 100_000 + b"1" * 20])
def test_bodies_that_stay_as_they_are(body: bytes) -> None:
    """What has no large integer, or is no JSON, is not touched."""
    assert mark_numbers(body) == body


def test_only_values_hold_marks() -> None:
    """A large integer where a text or an id belongs stays one, so that no text shows the mark."""
    digits = "1" + "0" * 19
    data = f'{{"text": [{digits}]}}'
    body = (
        f'{{"id": {digits}, "params": {{"text": {digits}, "messageId": {digits}, '
        f'"data": {data}, "metadata": {{"id": {digits}}}}}}}'
    )
    marked = mark_numbers(body.encode())
    found = json.loads(marked)

    assert found["id"] == found["params"]["text"] == found["params"]["messageId"] == int(digits)
    assert found["params"]["data"]["text"] == [mark(int(digits))]
    assert found["params"]["metadata"]["id"] == mark(int(digits))
    assert json.loads(unmark_numbers(marked)) == json.loads(body)


@pytest.mark.parametrize("parts", [[], [pb.Part()], [pb.Part(text="x")] * 65])
def test_no_parts(parts: list[pb.Part]) -> None:
    """A message without content, or with too much of it, is refused with a reason."""
    with pytest.raises(ForeignPartError, match="cannot be taken"):
        to_bus(parts)


def test_ids_are_derived() -> None:
    """The same principal and message give the same ids for ever; any other gives others."""
    ids = {
        task_of(AgentName("ab"), "c"),
        task_of(AgentName("a"), "bc"),
        event_of(AgentName("ab"), "c", "open"),
        event_of(AgentName("ab"), "c", "say"),
    }

    assert len(ids) == 4
    assert task_of(AgentName("ada"), "m-1") == "63b716891c947bd291e22e8f960a83f6"


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "a.b", "1.1.1", "-1.0", "²2.0", "9" * 50])
def test_positions_that_are_none(text: str) -> None:
    """What is no position is passed over."""
    assert parse_position(text) is None
