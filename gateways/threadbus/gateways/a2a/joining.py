"""A remote A2A agent as a participant of the bus, for as long as it is to be reached.

It is an agent like any other: registered, living while its card can be fetched, woken by mentions,
leased while it works. When it goes away its presence goes, mentions wait in its inbox, and what was
being worked on is recorded as failed and tried again once it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Final

import structlog
from a2a.types import a2a_pb2 as pb

from threadbus.agents import Agent, AgentLimits, AgentRunner, GiveUpError, Mention, Reply
from threadbus.bus import Bus, BusSettings, NotAParticipantError, ThreadClosedError, connect
from threadbus.gateways.a2a.ids import CONTEXT
from threadbus.gateways.a2a.parts import to_a2a, to_bus
from threadbus.gateways.a2a.remote import RemoteAgent, RemoteTask
from threadbus.gateways.errors import RemoteError
from threadbus.schemas import (
    MAIN_THREAD,
    MAX_LABELS,
    MAX_NOTE_CHARS,
    MAX_PARTS,
    MAX_SKILLS,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
    AgentName,
    ArtifactAdded,
    EventId,
    InputGiven,
    MessagePosted,
    Part,
    Parts,
    Recorded,
    ReferencePart,
    Skill,
    TaskOpened,
    TextPart,
    clean_text,
    derive_event_id,
    text_of,
)

REMOTE_TASK: Final = "a2a.remote-task"
"""The label of a message that says which task the remote agent made of a mention."""

_LOOK_EVERY_S: Final = 10.0
_MISSES: Final = 3
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_QUESTIONS: Final = 100
_ID_WAIT_S: Final = 2.0
_ANSWER_WAIT: Final = timedelta(days=1)
_log: Any = structlog.get_logger("threadbus.gateways.a2a")


async def join(
    settings: BusSettings,
    remote: RemoteAgent,
    name: AgentName,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None] | None = None,
    look_every_s: float = _LOOK_EVERY_S,
) -> None:
    """Let a remote agent take part until *stop*; whenever it goes away, wait until it is back.

    Args:
        settings: where the bus is.
        remote: the remote agent.
        name: its name on the bus.
        stop: ends it, in order.
        on_ready: called each time it takes mentions.
        look_every_s: how often its card is fetched, in seconds.

    Raises:
        ConnectError: there is no usable server.
        AgentNameTakenError: somebody else has the name.

    Cancellation: aborts what runs; its mentions go back at once.
    """
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(settings, name=name))
        stack.push_async_callback(remote.aclose)
        pause = _FIRST_PAUSE_S
        while not stop.is_set():
            try:
                card = await remote.card()
            except RemoteError as error:
                _log.warning("not to be reached, trying on", agent=name, reason=str(error))
                await _rest(stop, pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            await _take_part(bus, remote, _agent(name, card, remote), stop, on_ready, look_every_s)


async def _take_part(
    bus: Bus,
    remote: RemoteAgent,
    agent: Agent,
    stop: asyncio.Event,
    on_ready: Callable[[], None] | None,
    look_every_s: float,
) -> None:
    """Run the agent until the stop, or until the remote one is gone."""
    runner = AgentRunner(agent, bus)
    work = asyncio.create_task(runner.run(), name=f"threadbus.a2a[{agent.name}]")
    ready = asyncio.create_task(runner.ready.wait(), name="threadbus.a2a.ready")
    misses = 0
    try:
        await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and on_ready is not None:
            on_ready()
        while not stop.is_set() and not work.done() and misses < _MISSES:
            await _rest(stop, look_every_s)
            try:
                await remote.card()
                misses = 0
            except RemoteError as error:
                misses += 1
                _log.warning("does not answer", agent=agent.name, misses=misses, reason=str(error))
        if stop.is_set():
            runner.stop()
            await asyncio.wait({work})
    finally:
        ready.cancel()
        # Gone: what it was working on goes back, and its presence ends.
        work.cancel()
        await asyncio.wait({work})
    if not work.cancelled():
        work.result()


async def _rest(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _agent(name: AgentName, card: pb.AgentCard, remote: RemoteAgent) -> Agent:
    """Return the agent of the bus that stands for a remote one."""
    agent = Agent(
        name,
        display_name=clean_text(card.name, 120),
        description=clean_text(card.description, MAX_NOTE_CHARS),
        version=clean_text(card.version, MAX_WORD_CHARS) or "0",
        skills=[_skill(skill) for skill in card.skills[:MAX_SKILLS]],
        input_modes=_words(card.default_input_modes) or ("text/plain",),
        output_modes=_words(card.default_output_modes) or ("text/plain",),
        labels={"a2a.url": clean_text(remote.url, MAX_WORD_CHARS)},
        limits=AgentLimits(concurrency=16, turn_timeout=timedelta(days=2)),
    )

    @agent.on_mention
    async def handle(mention: Mention) -> Reply:
        return await _Talk(mention, remote).run()

    return agent


def _skill(skill: pb.AgentSkill) -> Skill:
    return Skill(
        id=clean_text(skill.id, MAX_WORD_CHARS),
        name=clean_text(skill.name, MAX_TITLE_CHARS),
        description=clean_text(skill.description, MAX_NOTE_CHARS),
        tags=_words(skill.tags),
        examples=tuple(clean_text(text, MAX_NOTE_CHARS) for text in skill.examples[:MAX_LABELS]),
    )


def _words(values: Any) -> tuple[str, ...]:
    return tuple(clean_text(str(value), MAX_WORD_CHARS) for value in list(values)[:MAX_LABELS])


class _Talk:
    """One mention, as a task of the remote agent."""

    def __init__(self, mention: Mention, remote: RemoteAgent) -> None:
        self._mention = mention
        self._remote = RemoteTask(remote)
        self._is_known = False
        self._saved: dict[str, int] = {}
        self._first: dict[str, EventId] = {}
        self._artifacts: dict[str, list[Part]] = {}

    async def run(self) -> Reply:
        context = await self._look_back()
        try:
            message = None if self._is_known else await self._message(context)
            for number in range(_QUESTIONS):
                await self._following(message)
                if self._remote.message is not None:
                    return _reply(to_bus(self._remote.message.parts))
                state = self._remote.task.status.state
                if state == pb.TASK_STATE_COMPLETED:
                    return self._answer()
                if state not in (pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED):
                    name = pb.TaskState.Name(state).removeprefix("TASK_STATE_").lower()
                    said = text_of(self._said())
                    raise GiveUpError(f"the remote agent's task is {name}{said and f': {said}'}")
                message = await self._ask(number, auth=state == pb.TASK_STATE_AUTH_REQUIRED)
            raise GiveUpError(f"the remote agent asked more than {_QUESTIONS} questions")
        except (asyncio.CancelledError, ThreadClosedError, NotAParticipantError):
            # The task may have ended in any step, or this process ends and goes on later.
            if self._remote.task.id and await _has_ended(self._mention):
                await self._remote.cancel()
            raise

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

    async def _message(self, context: str) -> pb.Message:
        loaded = [await self._mention.bus.artifacts.load(part) for part in self._mention.parts]
        return pb.Message(
            message_id=self._mention.event.id,
            context_id=context,
            role=pb.ROLE_USER,
            parts=to_a2a(loaded, _no_link),
        )

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
                    for artifact in response.task.artifacts:
                        await self._save(artifact, whole=True)
                case "artifact_update":
                    update = response.artifact_update
                    await self._save(
                        update.artifact, whole=not update.append, more=not update.last_chunk
                    )
                case "status_update" if not self._remote.stands:
                    said = text_of(self._said())
                    if said:
                        await self._mention.progress(clean_text(said, MAX_NOTE_CHARS))
                case _:
                    continue

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

    async def _save(self, artifact: pb.Artifact, *, whole: bool, more: bool = False) -> None:
        """Save the parts of an artifact that are not saved yet, each as a chunk."""
        key = artifact.artifact_id
        parts = to_bus(artifact.parts) if artifact.parts else ()
        had = self._saved.get(key, 0)
        new = parts[had:] if whole else parts
        self._artifacts.setdefault(key, []).extend(new)
        for number, part in enumerate(new, had):
            first = self._first.get(key)
            saved = await self._mention.append(
                ArtifactAdded(
                    name=clean_text(artifact.name or key, MAX_TITLE_CHARS) or "artifact",
                    part=part,
                    description=clean_text(artifact.description, MAX_NOTE_CHARS),
                    chunk_of=first,
                    more=more or number + 1 < had + len(new),
                ),
                event_id=self._id(f"artifact:{key}:{number}"),
            )
            self._first.setdefault(key, saved.event.id)
            self._saved[key] = number + 1

    async def _ask(self, number: int, *, auth: bool) -> pb.Message:
        """Put the remote agent's question to whoever asked, and return the answer."""
        question = self._said() or (TextPart("What else do you need to tell me?"),)
        data = self._mention.event.data
        if isinstance(data, TaskOpened | InputGiven):
            answer = await self._mention.request_input(question, auth=auth, timeout=_ANSWER_WAIT)
        else:
            answer = await self._mention.ask(self._mention.sender, question, timeout=_ANSWER_WAIT)
        return pb.Message(
            message_id=self._id(f"answer:{number}"),
            task_id=self._remote.task.id,
            context_id=self._remote.task.context_id,
            role=pb.ROLE_USER,
            parts=[pb.Part(text=answer)],
        )

    def _said(self) -> Parts:
        parts = self._remote.task.status.message.parts
        return to_bus(parts) if parts else ()

    def _answer(self) -> Reply:
        """Return what the task ended with: its last words, or else its last artifact."""
        said = self._said()
        if not said and self._artifacts:
            said = tuple(list(self._artifacts.values())[-1])
        return _reply(said or (TextPart("Done."),))

    def _id(self, what: str) -> EventId:
        return derive_event_id(self._mention.event.id, self._mention.agent, f"a2a:{what}")


def _reply(parts: Parts) -> Reply:
    return list(parts[:MAX_PARTS])


def _no_link(part: ReferencePart) -> str:
    # Everything was loaded before.
    raise GiveUpError(f"content {part.sha256} was not loaded")


async def _has_ended(mention: Mention) -> bool:
    """Whether the super-task is over, as opposed to this process."""
    async for entry in mention.bus.read(mention.task, MAIN_THREAD):
        if isinstance(entry, Recorded) and entry.event.type == "task.closed":
            return True
    return False
