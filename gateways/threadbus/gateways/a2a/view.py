"""One super-task as an A2A task: a pure fold over the log.

Nothing of the bus's rules is here: which events count, who takes part and whether the task is open
is said by :class:`threadbus.bus.TaskState`. This says what each counted event is for an A2A client:
an update of the status, a piece of an artifact, a line of the history, or nothing.

The same log gives the same updates in every process, each at a position of its own, so that a
client that lost its stream can go on where it was, anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from a2a.types import a2a_pb2 as pb
from google.protobuf import timestamp_pb2

from threadbus.bus import TaskState
from threadbus.gateways.a2a.ids import CONTEXT, MESSAGE
from threadbus.gateways.a2a.metadata import Metadata, fill, metadata_in, metadata_of
from threadbus.gateways.a2a.parts import PLAIN_MESSAGE, to_a2a
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentProgressed,
    Event,
    EventId,
    InputGiven,
    InputRequested,
    MentionReceived,
    MentionStored,
    MessagePosted,
    Parts,
    Recorded,
    ReferencePart,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
)

POSITION: Final = "threadbus.position"
"""The key of an update's metadata that says where in the log it is."""

SENDER: Final = "threadbus.agent"
"""The key of a message's metadata that says which agent said it."""

TASK: Final = "threadbus.task"
"""The key of a plain message's metadata that says which super-task it is the answer of."""

TERMINAL: Final = frozenset(
    {
        pb.TASK_STATE_COMPLETED,
        pb.TASK_STATE_FAILED,
        pb.TASK_STATE_CANCELED,
        pb.TASK_STATE_REJECTED,
    }
)
INTERRUPTED: Final = frozenset({pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED})
_GAVE_UP: Final = " gave up: "
_SAID_ON_PURPOSE: Final = "GiveUpError"
_UNSAID: Final = "The agent could not do it."

Update: TypeAlias = pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent


class Position(NamedTuple):
    """Where an update is: in the event at a sequence of the log, which may say several things."""

    seq: int
    nth: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.nth}"


def parse_position(text: str) -> Position | None:
    """Read a position; None where it is none."""
    seq, dot, nth = text.partition(".")
    if not dot or len(text) > 40 or not (seq.isascii() and seq.isdigit()):
        return None
    return Position(int(seq), int(nth)) if nth.isascii() and nth.isdigit() else None


class TaskView:
    """An A2A task as of the last event that was folded in."""

    def __init__(self, task: TaskId, link: Callable[[ReferencePart], str]) -> None:
        """Begin before the opening.

        Args:
            task: the super-task.
            link: the address for content that was not loaded.
        """
        self.bus = TaskState(task=task)
        self.labels: dict[str, str] = {}
        self.asked: tuple[AgentName, ...] = ()
        """Who was asked when it was opened."""
        self.loaded_bytes = 0
        """Of content that was loaded for it from the object store."""
        self._link = link
        self._state: pb.TaskState = pb.TASK_STATE_SUBMITTED
        self._message: pb.Message | None = None
        self._at = 0
        self._history: list[pb.Message] = []
        self._artifacts: dict[str, pb.Artifact] = {}
        self._about: dict[str, Metadata] = {}
        """What was said about the next chunk of an artifact."""
        self._messages: set[tuple[AgentName, str]] = set()
        self._plain: pb.Message | None = None
        self._seq = 0
        self._index = 0

    @property
    def exists(self) -> bool:
        """Whether it was ever opened."""
        return self.bus.exists

    @property
    def context(self) -> str:
        """The A2A context; that of a task which was opened elsewhere is the task itself."""
        return self.labels.get(CONTEXT) or self.bus.task

    @property
    def state(self) -> pb.TaskState:
        """The A2A state."""
        return self._state

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return self._state in TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """Whether it waits for the client."""
        return self._state in INTERRUPTED

    @property
    def updated_at(self) -> int:
        """When the status changed last, in nanoseconds since the epoch."""
        return self._at

    @property
    def plain_message(self) -> pb.Message | None:
        """What a client gets in place of the task; None where it gets that."""
        return self._plain

    @property
    def may_be_plain(self) -> bool:
        """Whether it may still end with nothing but a message: the opening is all that was said."""
        is_open = not (self.is_terminal or self.is_interrupted)
        return is_open and self._is_bare

    @property
    def _is_bare(self) -> bool:
        return len(self._history) == 1 and self._message is None and not self._artifacts

    def shows(self, name: AgentName) -> bool:
        """Whether *name* takes part, so that the task is visible for it."""
        main = self.bus.threads.get(MAIN_THREAD)
        return main is not None and name in main.participants

    def has_message(self, sender: AgentName, message: str) -> bool:
        """Whether the message that *sender* gave this ``messageId`` is in the task."""
        return (sender, message) in self._messages

    def task(self) -> pb.Task:
        """Return the task as a client gets it, with its history and artifacts."""
        return pb.Task(
            id=self.bus.task,
            context_id=self.context,
            status=self._status(),
            artifacts=[artifact for artifact in self._artifacts.values() if artifact.parts],
            history=self._history,
        )

    def _status(self) -> pb.TaskStatus:
        return pb.TaskStatus(state=self._state, message=self._message, timestamp=_time(self._at))

    # folding

    def apply(self, recorded: Recorded) -> list[tuple[Position, Update]]:
        """Fold one event in; return what it is for a client, with positions."""
        self._seq, self._index = recorded.seq, 0
        if self.is_terminal or not self.bus.apply(recorded):
            return []
        event = recorded.event
        if not self._at:
            self._open(recorded)
            return []
        begins = event.sender != self.bus.opened_by and not isinstance(
            event.data, MentionReceived | MentionStored | InputRequested | TaskClosed
        )
        updates = self._of(event)
        if self._state == pb.TASK_STATE_SUBMITTED and begins:
            # What it said did not tell the status: it is the first sign of work.
            updates.insert(0, self._change(pb.TASK_STATE_WORKING, event))
        return [(self._place(update), update) for update in updates]

    def _place(self, update: Update) -> Position:
        place = Position(self._seq, self._index)
        self._index += 1
        update.metadata[POSITION] = str(place)
        return place

    def _open(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event.data, TaskOpened):
            self.labels = event.data.labels
            self.asked = event.mentions
            self._at = max(event.at, 1)
            self._heard(event, event.data.parts, event.data.labels)

    def _of(self, event: Event) -> list[Update]:
        if isinstance(event.data, ArtifactAdded):
            return self._add(event, event.data)
        if event.thread != MAIN_THREAD:
            return []
        match event.data:
            case TaskStatusChanged() as data:
                return [self._stand(event, data)]
            case InputRequested() as data:
                return [self._ask(event, data)]
            case InputGiven() as data:
                return self._answered(event, data)
            case MessagePosted() as data:
                return self._posted(event, data)
            case AssignmentProgressed(note=note) if note and not self.is_interrupted:
                return [self._say(pb.TASK_STATE_WORKING, event, (TextPart(note),))]
            case TaskClosed() as data:
                return self._close(event, data)
            case _:
                return []

    def _stand(self, event: Event, data: TaskStatusChanged) -> Update:
        if data.status is TaskStatus.INPUT_REQUIRED:
            state: pb.TaskState = pb.TASK_STATE_INPUT_REQUIRED
        else:
            state = pb.TASK_STATE_WORKING
        note = data.note
        if data.status is TaskStatus.PAUSED:
            note = f"Paused: {note}" if note else "Paused."
        return self._say(state, event, (TextPart(note),) if note else ())

    def _ask(self, event: Event, data: InputRequested) -> Update:
        state = pb.TASK_STATE_AUTH_REQUIRED if data.auth else pb.TASK_STATE_INPUT_REQUIRED
        return self._say(state, event, data.parts)

    def _answered(self, event: Event, data: InputGiven) -> list[Update]:
        self._heard(event, data.parts, data.labels)
        if not self.bus.requests:
            return [self._change(pb.TASK_STATE_WORKING, event)]
        # Another question was open all along.
        asked = next(iter(self.bus.requests.values())).event
        return [self._ask(asked, asked.data)] if isinstance(asked.data, InputRequested) else []

    def _posted(self, event: Event, data: MessagePosted) -> list[Update]:
        if event.sender == self.bus.opened_by or data.labels.get(MESSAGE):
            self._heard(event, data.parts, data.labels)
            return []
        if self.is_interrupted:
            # The question stays what the client has to look at.
            self._history.append(self._spoken(event, data.parts))
            return []
        return [self._say(pb.TASK_STATE_WORKING, event, data.parts)]

    def _add(self, event: Event, data: ArtifactAdded) -> list[Update]:
        first = data.chunk_of
        key = first if first is not None and first in self._artifacts else event.id
        kept = self._artifacts.get(key)
        if kept is None:
            kept = self._artifacts[key] = pb.Artifact(
                artifact_id=key, name=data.name, description=data.description
            )
        about = metadata_in(data.part)
        if about is not None:
            # It goes out with the chunk that it is about.
            self._about[key] = about
            fill(kept.metadata, about.message)
            return []
        append = bool(kept.parts)
        artifact = pb.Artifact(
            artifact_id=key,
            name=data.name,
            description=data.description,
            parts=to_a2a((data.part,), self._link),
        )
        about = self._about.pop(key, None)
        if about is not None:
            fill(artifact.metadata, about.message)
            fill(artifact.parts[0].metadata, about.parts.get("0", {}))
            artifact.parts[0].filename = artifact.parts[0].filename or about.filenames.get("0", "")
        kept.parts.extend(artifact.parts)
        return [self._artifact_update(artifact, append=append, last=not data.more)]

    def _artifact_update(self, artifact: pb.Artifact, *, append: bool, last: bool) -> Update:
        return pb.TaskArtifactUpdateEvent(
            task_id=self.bus.task,
            context_id=self.context,
            artifact=artifact,
            append=append,
            last_chunk=last,
        )

    def _close(self, event: Event, data: TaskClosed) -> list[Update]:
        updates: list[Update] = []
        answer = None if data.answer is None else self.bus.answers.get(EventId(data.answer))
        if answer is not None and isinstance(answer.data, AnswerSubmitted):
            artifact = pb.Artifact(
                artifact_id=answer.id, name="answer", parts=to_a2a(answer.data.parts, self._link)
            )
            fill(artifact.metadata, metadata_of(answer.data.parts).message)
            self._plain = self._plainly(answer, answer.data.parts)
            self._artifacts[answer.id] = artifact
            updates.append(self._artifact_update(artifact, append=False, last=True))
        state = {
            TaskStatus.COMPLETED: pb.TASK_STATE_COMPLETED,
            TaskStatus.CANCELLED: pb.TASK_STATE_CANCELED,
        }.get(data.outcome, pb.TASK_STATE_REJECTED if data.rejected else pb.TASK_STATE_FAILED)
        said = _fit_to_tell(event.sender, data)
        updates.append(self._say(state, event, (TextPart(said),) if said else ()))
        return updates

    def _plainly(self, answer: Event, parts: Parts) -> pb.Message | None:
        """Return the answer as a message, where it says that it is one and nothing came before."""
        first = next((part for part in parts if metadata_in(part) is None), None)
        if (
            not self._is_bare
            or not isinstance(first, TextPart)
            or first.media_type != PLAIN_MESSAGE
        ):
            return None
        plain = self._spoken(answer, parts)
        plain.ClearField("task_id")
        plain.metadata[TASK] = self.bus.task
        return plain

    # the pieces

    def _say(self, state: pb.TaskState, event: Event, parts: Parts) -> Update:
        return self._change(state, event, self._spoken(event, parts) if parts else None)

    def _change(
        self, state: pb.TaskState, event: Event, message: pb.Message | None = None
    ) -> Update:
        self._shelve()
        self._state, self._message, self._at = state, message, event.at
        return pb.TaskStatusUpdateEvent(
            task_id=self.bus.task, context_id=self.context, status=self._status()
        )

    def _shelve(self) -> None:
        """Move what the status said into the history, where something comes after it."""
        if self._message is not None:
            self._history.append(self._message)
            self._message = None

    def _heard(self, event: Event, parts: Parts, labels: dict[str, str]) -> None:
        message_id = labels.get(MESSAGE) or event.id
        self._shelve()
        self._messages.add((event.sender, message_id))
        self._history.append(self._made(message_id, pb.ROLE_USER, parts))

    def _spoken(self, event: Event, parts: Parts) -> pb.Message:
        message = self._made(event.id, pb.ROLE_AGENT, parts)
        message.metadata[SENDER] = event.sender
        return message

    def _made(self, message_id: str, role: pb.Role, parts: Parts) -> pb.Message:
        message = pb.Message(
            message_id=message_id,
            role=role,
            task_id=self.bus.task,
            context_id=self.context,
            parts=to_a2a(parts, self._link),
        )
        fill(message.metadata, metadata_of(parts).message)
        return message


def _fit_to_tell(sender: AgentName, data: TaskClosed) -> str:
    """Return the summary, but nothing of an exception: its message may hold what is inside."""
    given_up = data.summary.startswith(f"{sender}{_GAVE_UP}")
    if not given_up or data.outcome is not TaskStatus.FAILED:
        return data.summary
    kind, _, message = data.summary.removeprefix(f"{sender}{_GAVE_UP}").partition(": ")
    return message if kind == _SAID_ON_PURPOSE else _UNSAID


def _time(ns: int) -> timestamp_pb2.Timestamp:
    # Milliseconds, as the protocol prints them.
    seconds, rest = divmod(ns, 1_000_000_000)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest // 1_000_000 * 1_000_000)
