"""One mention of a remote agent, as one of its tasks."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import ExitStack
from datetime import timedelta
from typing import Final

from a2a.types import a2a_pb2 as pb

from threadbus.agents import GiveUpError, Mention, Reply
from threadbus.bus import NotAParticipantError, ThreadClosedError
from threadbus.gateways.a2a.following import RemoteTask
from threadbus.gateways.a2a.ids import CONTEXT
from threadbus.gateways.a2a.metadata import fill, gathered, metadata_of
from threadbus.gateways.a2a.parts import to_a2a, to_bus
from threadbus.gateways.a2a.receiving import Bells
from threadbus.gateways.a2a.remote import RemoteAgent
from threadbus.gateways.errors import ForeignPartError
from threadbus.schemas import (
    MAIN_THREAD,
    MAX_NOTE_CHARS,
    MAX_PARTS,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
    ArtifactAdded,
    AssignmentMade,
    AssignmentProgressed,
    DataPart,
    Event,
    EventId,
    InputGiven,
    LimitExceededError,
    MessagePosted,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    TaskOpened,
    TextPart,
    clean_text,
    derive_event_id,
    text_of,
)

REMOTE_TASK: Final = "a2a.remote-task"
"""The label of a message that says which task the remote agent made of a mention."""

_QUESTIONS: Final = 100
_ID_WAIT_S: Final = 2.0
_ANSWER_WAIT: Final = timedelta(days=1)
_MAX_NOTES: Final = 10_000
_MAX_CHUNKS: Final = 10_000
_MAX_ARTIFACT_BYTES: Final = 1024**3


class Talk:
    """One mention, as a task of the remote agent.

    Everything that comes of it has an id that is derived from the mention and from what the remote
    agent calls it. So another attempt, in another process, finds what this one has passed on.
    """

    def __init__(self, mention: Mention, remote: RemoteAgent, bells: Bells | None = None) -> None:
        """Prepare.

        Args:
            mention: what the remote agent is asked.
            remote: the remote agent.
            bells: where it may push its updates to.
        """
        self._mention = mention
        self._agent = remote
        self._bells = bells
        self._remote = RemoteTask(remote, None, mention.traceparent)
        self._is_known = False
        self._noted: set[str] = set()
        self._saved: dict[str, int] = {}
        self._first: dict[str, EventId] = {}
        self._about: dict[str, DataPart] = {}
        self._newest: tuple[str, list[Part]] = ("", [])
        """The artifact that was begun last, as far as an answer has room for it."""
        self._chunks = 0
        self._bytes = 0

    async def run(self) -> Reply:
        """Send the mention, pass on what comes of it, and return the end.

        A super-task that is over meanwhile is nothing to ask for.

        Raises:
            GiveUpError: the remote agent's task failed, or what it says cannot be taken.
            RemoteError: it refuses, or is not to be reached.

        Cancellation: the remote task is cancelled where the super-task is over.
        """
        with ExitStack() as stack:
            if self._bells is not None and self._agent.pushes:
                bell = stack.enter_context(self._bells.hung(self._mention.event.id))
                self._remote = RemoteTask(self._agent, bell, self._mention.traceparent)
            context = await self._look_back()
            if await _has_ended(self._mention):
                # While it waited for the remote agent, or an attempt of before was being stopped.
                if self._is_known:
                    await self._remote.cancel()
                return None
            try:
                return await self._converse(context)
            except (ForeignPartError, LimitExceededError) as error:
                if self._remote.task.id and not self._remote.is_over:
                    await self._remote.cancel()
                raise GiveUpError(f"what the remote agent says cannot be taken: {error}") from error
            except (asyncio.CancelledError, ThreadClosedError, NotAParticipantError):
                # The task may have ended in any step, or this process ends and goes on later.
                if self._remote.task.id and await _has_ended(self._mention):
                    await self._remote.cancel()
                raise

    async def _converse(self, context: str) -> Reply:
        message = None if self._is_known else await self._opening(context)
        for number in range(_QUESTIONS):
            await self._following(message)
            if self._remote.is_over:
                return await self._end()
            message = await self._ask(number)
        raise GiveUpError(f"the remote agent asked more than {_QUESTIONS} questions")

    async def _end(self) -> Reply:
        if self._remote.message is not None:
            said = self._remote.message
            return _reply(to_bus(said.parts, said.metadata))
        await self._remote.say_farewell()
        state = self._remote.task.status.state
        if state == pb.TASK_STATE_COMPLETED:
            return self._answer()
        name = pb.TaskState.Name(state).removeprefix("TASK_STATE_").lower()
        told = text_of(self._said())
        raise GiveUpError(f"the remote agent's task is {name}{told and f': {told}'}")

    async def _look_back(self) -> str:
        """Find what an earlier attempt began, and the context of the talk in this thread."""
        context = ""
        for recorded in await self._mention.history():
            data = recorded.event.data
            if recorded.event.sender == self._mention.agent and isinstance(data, MessagePosted):
                context = data.labels.get(CONTEXT, context)
                if recorded.event.cause == self._mention.event.id and REMOTE_TASK in data.labels:
                    self._is_known = True
                    self._remote.task.id = data.labels[REMOTE_TASK]
                    self._remote.task.context_id = context
        return context

    async def _opening(self, context: str) -> pb.Message:
        message = await self._message(self._mention.event.id, self._mention.parts)
        message.context_id = context
        return message

    async def _message(self, message_id: str, parts: Parts) -> pb.Message:
        loaded = [await self._mention.bus.artifacts.load(part) for part in parts]
        message = pb.Message(
            message_id=message_id, role=pb.ROLE_USER, parts=to_a2a(loaded, _no_link)
        )
        fill(message.metadata, metadata_of(loaded).message)
        return message

    # following

    async def _following(self, message: pb.Message | None) -> None:
        """Follow the remote task; cancelled before its id is known, wait a moment for that."""
        follow = asyncio.create_task(self._follow(message), name="threadbus.a2a.follow")
        try:
            await asyncio.shield(follow)
        except asyncio.CancelledError:
            if not self._remote.task.id and await _has_ended(self._mention):
                # Without it the remote agent could not be told. What follows it is refused.
                await asyncio.wait({follow}, timeout=_ID_WAIT_S)
            raise
        finally:
            follow.cancel()
            await asyncio.wait({follow})
            if not follow.cancelled():
                # It was raised above, or nobody waits for it any more.
                follow.exception()

    async def _follow(self, message: pb.Message | None) -> None:
        async for response in self._remote.updates(message):
            await self._note_task()
            match response.WhichOneof("payload"):
                case "task":
                    await self._catch_up(response.task)
                case "artifact_update":
                    update = response.artifact_update
                    await self._save(
                        update.artifact, whole=not update.append, more=not update.last_chunk
                    )
                case "status_update" if not self._remote.stands:
                    await self._pass_on(self._remote.task.status.message)
                case _:
                    continue

    async def _catch_up(self, task: pb.Task) -> None:
        """Pass on what a task holds that was not passed on yet."""
        for place, said in enumerate(task.history, 1):
            # What was answered was a question, and went another way.
            is_question = any(one.role == pb.ROLE_USER for one in task.history[place : place + 1])
            if said.role == pb.ROLE_AGENT and not is_question:
                await self._pass_on(said)
        if not self._remote.stands:
            await self._pass_on(task.status.message)
        for artifact in task.artifacts:
            await self._save(artifact, whole=True)

    async def _note_task(self) -> None:
        """Record the remote task, so that another attempt goes on with it."""
        task = self._remote.task
        if self._is_known or not task.id or len(task.id) > MAX_WORD_CHARS:
            return
        self._is_known = True
        labels = {REMOTE_TASK: clean_text(task.id), CONTEXT: clean_text(task.context_id, 256)}
        await self._mention.append(
            MessagePosted(parts=(TextPart("The remote agent works on it."),), labels=labels),
            event_id=self._id("taken"),
        )

    async def _pass_on(self, said: pb.Message) -> None:
        """Tell how far the work is; what was told already is told once."""
        note = clean_text(text_of(to_bus(said.parts)), MAX_NOTE_CHARS) if said.parts else ""
        key = _key(said.message_id) or hashlib.sha256(note.encode()).hexdigest()
        if not note or key in self._noted or len(self._noted) >= _MAX_NOTES:
            return
        self._noted.add(key)
        mention = self._mention
        mention.progress_note = note
        if isinstance(mention.event.data, AssignmentMade):
            await mention.append(
                AssignmentProgressed(assignment=mention.event.id, note=note),
                event_id=self._id(f"said:{key}"),
            )
        live = {"kind": "progress", "note": note, "fraction": None}
        await mention.bus.publish_live(mention.task, mention.thread, live)

    async def _save(self, artifact: pb.Artifact, *, whole: bool, more: bool = False) -> None:
        """Save the parts of an artifact that are not saved yet, each as a chunk.

        Raises:
            LimitExceededError: the remote agent has sent more than a task may hold.
        """
        key = _key(artifact.artifact_id)
        had = self._saved.get(key, 0)
        new = artifact.parts[had:] if whole else artifact.parts
        for number, part in enumerate(new, had):
            self._count(part)
            (saved, *_) = to_bus([part])
            about = gathered([part], artifact.metadata)
            if about is not None and about != self._about.get(key):
                # It goes before what it is about.
                self._about[key] = about
                await self._chunk(artifact, f"{number}:about", about, more=True)
            is_last = number + 1 == had + len(new)
            await self._chunk(artifact, str(number), saved, more=more or not is_last)
            if key not in self._saved:
                self._newest = (key, [])
            if key == self._newest[0] and len(self._newest[1]) < MAX_PARTS:
                self._newest[1].append(saved)
            self._saved[key] = number + 1

    def _count(self, part: pb.Part) -> None:
        self._chunks += 1
        self._bytes += part.ByteSize()
        for what, count, limit in (
            ("pieces of artifacts", self._chunks, _MAX_CHUNKS),
            ("bytes of artifacts", self._bytes, _MAX_ARTIFACT_BYTES),
        ):
            if count > limit:
                raise LimitExceededError(what, count, limit, "make them several tasks")

    async def _chunk(self, artifact: pb.Artifact, place: str, part: Part, *, more: bool) -> None:
        key = _key(artifact.artifact_id)
        added = await self._mention.append(
            ArtifactAdded(
                name=clean_text(artifact.name or key, MAX_TITLE_CHARS) or "artifact",
                part=part,
                description=clean_text(artifact.description, MAX_NOTE_CHARS),
                chunk_of=self._first.get(key),
                more=more,
            ),
            event_id=self._id(f"artifact:{key}:{place}"),
        )
        self._first.setdefault(key, added.event.id)

    # asking back

    async def _ask(self, number: int) -> pb.Message:
        """Put the remote agent's question to whoever asked, and return the answer."""
        status = self._remote.task.status
        # By what the remote agent calls it: a process that goes on does not know the number.
        key = status.message.message_id or (
            str(status.timestamp.ToNanoseconds()) if status.HasField("timestamp") else str(number)
        )
        question = self._said() or (TextPart("What else do you need to tell me?"),)
        given = await self._given(self._id(f"question:{key}"), question)
        message = await self._message(self._id(f"answer:{key}"), getattr(given.data, "parts", ()))
        message.task_id = self._remote.task.id
        message.context_id = self._remote.task.context_id
        return message

    async def _given(self, asked: EventId, question: Parts) -> Event:
        """Return the answer to a question, which is asked once."""
        mention = self._mention
        task, thread, sender = mention.task, mention.thread, mention.sender
        history = await mention.history()
        found = next((one for one in history if one.event.id == asked), None)
        if isinstance(mention.event.data, TaskOpened | InputGiven):
            seq = found.seq if found is not None else 0
            if found is None:
                auth = self._remote.task.status.state == pb.TASK_STATE_AUTH_REQUIRED
                made = await mention.bus.tasks.request_input(
                    task, question, auth=auth, cause=mention.event.id, event_id=asked
                )
                seq = made.seq
            return await mention.bus.waits.for_input(task, asked, after=seq, timeout=_ANSWER_WAIT)
        if found is None:
            return await mention.bus.request(
                task,
                thread,
                question,
                to=sender,
                timeout=_ANSWER_WAIT,
                cause=mention.event.id,
                event_id=asked,
            )
        return await mention.bus.waits.for_reply(
            task, thread, asked, sender, after=found.seq, timeout=_ANSWER_WAIT
        )

    def _said(self) -> Parts:
        said = self._remote.task.status.message
        return to_bus(said.parts, said.metadata) if said.parts else ()

    def _answer(self) -> Reply:
        """Return what the task ended with: its last words, or else its last artifact."""
        said = self._said()
        if not said:
            said = tuple(self._newest[1])
        return _reply(said or (TextPart("Done."),))

    def _id(self, what: str) -> EventId:
        return derive_event_id(self._mention.event.id, self._mention.agent, f"a2a:{what}")


def _reply(parts: Parts) -> Reply:
    return list(parts[:MAX_PARTS])


def _key(foreign: str) -> str:
    """Return what a remote agent calls something, in a length that can be kept ten thousandfold."""
    is_short = len(foreign) <= MAX_WORD_CHARS
    return foreign if is_short else hashlib.sha256(foreign.encode()).hexdigest()


def _no_link(part: ReferencePart) -> str:
    # Everything was loaded before.
    raise GiveUpError(f"content {part.sha256} was not loaded")


async def _has_ended(mention: Mention) -> bool:
    """Whether the super-task is over, as opposed to this process."""
    async for entry in mention.bus.read(mention.task, MAIN_THREAD):
        if isinstance(entry, Recorded) and entry.event.type == "task.closed":
            return True
    return False
