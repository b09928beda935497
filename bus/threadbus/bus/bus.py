"""The bus as its users see it: one connection, one name that speaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

from threadbus.bus.appended import Appended
from threadbus.bus.artifacts import Artifacts
from threadbus.bus.conversations import Conversations
from threadbus.bus.facts import ServerFacts, StorageFacts, WaitingMention
from threadbus.bus.following import Entry
from threadbus.bus.forks import Forks
from threadbus.bus.health import Operations
from threadbus.bus.inbox import Inbox, count_pending, open_inbox
from threadbus.bus.limits import Limits
from threadbus.bus.live import LiveHandler, decoding, encode_live
from threadbus.bus.log import EventLog
from threadbus.bus.outcomes import Answer
from threadbus.bus.ports import (
    Backend,
)
from threadbus.bus.registry import Registry
from threadbus.bus.settings import BusSettings
from threadbus.bus.speaker import Speaker
from threadbus.bus.tasks import Tasks
from threadbus.bus.threads import Threads
from threadbus.bus.waits import DEFAULT_WAIT, Waits
from threadbus.bus.whole_log import LogConsumer, open_consumer
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    Event,
    EventId,
    Lane,
    MessagePosted,
    Part,
    TaskId,
    ThreadId,
    as_parts,
    live_filter,
    live_subject,
    new_event_id,
    new_task_id,
    parse_agent_name,
    parse_task_id,
    parse_thread_id,
)


class Bus:
    """One name on the bus. Made by :func:`connect`; :meth:`acting_as` gives another name."""

    def __init__(
        self,
        backend: Backend,
        settings: BusSettings,
        name: AgentName,
        log: EventLog | None = None,
        registry: Registry | None = None,
    ) -> None:
        self._backend = backend
        self._log = log or EventLog(backend, settings)
        self.registry = registry or Registry(backend, settings)
        self.artifacts = Artifacts(backend, settings)
        self._speaker = Speaker(name, self._log, self.registry, self.artifacts)
        self.settings = settings
        self.name = name
        self.tasks = Tasks(self._speaker)
        self.threads = Threads(self._speaker)
        self.waits = Waits(self._log)
        self.conversations = Conversations(self._speaker, self.waits)
        self.forks = Forks(self._log)
        self.operations = Operations(backend, self._log)
        self.limits = Limits(self._log.limits, name)

    @property
    def rejected(self) -> int:
        """How many messages that are no events this connection has met."""
        return self._log.rejected

    def acting_as(self, name: str) -> Bus:
        """Return a bus on the same connection that speaks under another name.

        Raises:
            InvalidNameError: the name is outside the grammar.
        """
        return Bus(self._backend, self.settings, parse_agent_name(name), self._log, self.registry)

    # saying

    async def append(
        self,
        data: AnyData,
        *,
        task: TaskId,
        thread: ThreadId = MAIN_THREAD,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Append an event of any type under the guard of its thread.

        Args:
            data: what the event says.
            task: the super-task.
            thread: the thread in it.
            mentions: who is woken, at most 16.
            cause: the event that this one answers.
            event_id: its id, where it is derived; a new one when absent.

        Raises:
            AppendError: it was not appended; the subclass says why.
            SchemaError: the event breaks a rule; the message names value and limit.

        Cancellation: the event may or may not be in the log; append it again with the same id.
        """
        return await self._speaker.say(
            data, task=task, thread=thread, mentions=mentions, cause=cause, event_id=event_id
        )

    async def observe(
        self,
        data: AnyData,
        *,
        task: TaskId,
        thread: ThreadId = MAIN_THREAD,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        event_id: EventId | None = None,
    ) -> EventId:
        """Send an observation without waiting; leaving the bus waits for it. Returns its id."""
        return await self._speaker.note(
            data, task=task, thread=thread, mentions=mentions, cause=cause, event_id=event_id
        )

    async def send(
        self,
        task: TaskId,
        thread: ThreadId,
        content: str | Part | Sequence[Part],
        *,
        mentions: Sequence[str] = (),
        cause: EventId | None = None,
        awaited: bool = False,
        lane: Lane = Lane.NORMAL,
        labels: Mapping[str, str] | None = None,
        event_id: EventId | None = None,
    ) -> Appended:
        """Post a message; those mentioned are woken.

        Args:
            task: the super-task.
            thread: the thread in it.
            content: text or parts; large ones go to the object store.
            mentions: participants to wake, at most 16.
            cause: the message that this one answers.
            awaited: the speaker follows the log for the reply, so it need not be mentioned.
            lane: ``quick`` for a question that a busy agent answers at once.
            labels: for programs.
            event_id: its id, where it is derived.

        Raises:
            AppendError, SchemaError: see :meth:`append`.

        Cancellation: the message may or may not be posted.
        """
        return await self._speaker.say(
            MessagePosted(
                parts=as_parts(content), awaited=awaited, lane=lane, labels=dict(labels or {})
            ),
            task=task,
            thread=thread,
            mentions=mentions,
            cause=cause,
            event_id=event_id,
        )

    async def ask(
        self,
        question: str | Part | Sequence[Part],
        *,
        to: Sequence[str],
        participants: Sequence[str] = (),
        title: str = "",
        timeout: timedelta = DEFAULT_WAIT,
        token_budget: int | None = None,
        task: TaskId | None = None,
    ) -> Answer:
        """Open a super-task and wait for its answer.

        Args:
            question: text or parts.
            to: who is asked.
            participants: who else may speak in the main thread.
            title: for lists; the beginning of the question when absent.
            timeout: how long to wait; the task goes on after it.
            token_budget: model tokens that the whole task may use.
            task: its id; a new one when absent.

        Raises:
            TaskFailedError: it ended without an answer.
            WaitTimeoutError: no answer in time; :meth:`Waits.for_answer` waits on.
            AppendError: the task could not be opened.

        Cancellation: the task goes on.
        """
        task = new_task_id() if task is None else task
        async with self._log.following(task, new=True) as entries:
            await self.tasks.open(
                question,
                to=to,
                participants=participants,
                title=title,
                token_budget=token_budget,
                task=task,
            )
            return await self.waits.answer_from(entries, task, timeout)

    async def request(
        self,
        task: TaskId,
        thread: ThreadId,
        content: str | Part | Sequence[Part],
        *,
        to: str,
        timeout: timedelta = DEFAULT_WAIT,
        cause: EventId | None = None,
        lane: Lane = Lane.NORMAL,
        event_id: EventId | None = None,
    ) -> Event:
        """Post a message to one participant and wait for what it says in answer.

        Args:
            task: the super-task.
            thread: the thread in it.
            content: text or parts.
            to: who is asked.
            timeout: how long to wait; the message stays after it.
            cause: the event that made it necessary.
            lane: ``quick`` for a question that a busy agent answers at once.
            event_id: the message's id, where it is derived: asked again, the same reply comes.

        Returns:
            The event that answers; its data has ``parts``.

        Raises:
            MentionFailedError: the agent gave it up.
            ThreadClosedError: the thread ended first.
            WaitTimeoutError: no reply in time.
            AppendError: the message was refused.

        Cancellation: the message may stay posted.
        """
        name = parse_agent_name(to)
        known_to = self._log.known_to(task, thread)
        message = new_event_id() if event_id is None else event_id
        async with self.waits.following_reply(
            task, thread, message, name, known_to, new=True
        ) as entries:
            sent = await self.send(
                task,
                thread,
                content,
                mentions=[name],
                cause=cause,
                awaited=True,
                lane=lane,
                event_id=message,
            )
            if not sent.duplicate:
                return await self.waits.reply_from(
                    entries,
                    task,
                    thread,
                    message,
                    name,
                    timeout,
                    sent.seq,
                    known_open=True,
                )
        return await self.waits.for_reply(
            task, thread, message, name, after=sent.seq, timeout=timeout
        )

    # reading

    def read(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0
    ) -> AsyncGenerator[Entry]:
        """Read a super-task, or one thread of it, in log order, to its end.

        Args:
            task: the super-task.
            thread: only this thread, when given.
            after: only what is later than this sequence.

        Yields:
            :class:`Recorded` events, and :class:`Rejected` for bytes that are none.

        Raises:
            ReadError: the server refused or did not answer.

        Cancellation: safe.
        """
        return self._log.read(task, thread, after)

    async def follow(
        self, task: TaskId, thread: ThreadId | None = None, after: int = 0
    ) -> AsyncGenerator[Entry]:
        """Read as :meth:`read` does and go on live, without a gap or a duplicate.

        Cancellation: safe; go on later with the last sequence seen.
        """
        async with self._log.following(task, thread, after) as entries:
            async for entry in entries:
                yield entry

    @property
    def partitions(self) -> int:
        """Over how many streams the log is spread; a super-task is whole in one of them."""
        return self._log.partitions

    def consuming(
        self, name: str, *, after: int | None = None, partition: int | None = None
    ) -> AbstractAsyncContextManager[LogConsumer]:
        """Take in the whole log as a durable consumer (see :func:`.whole_log.open_consumer`)."""
        return open_consumer(self._backend, self._log, name, after, partition)

    async def find_tasks(self, prefix: str, *, limit: int = 20) -> Sequence[TaskId]:
        """Return the super-tasks whose id begins with *prefix*, the newest first."""
        return [summary.task for summary in await self.tasks.list(limit=limit, prefix=prefix)]

    # being woken

    def inbox(
        self, *, room: int = 16, stream: str | None = None, fresh: bool = False
    ) -> AbstractAsyncContextManager[Inbox]:
        """Attach to this name's durable inbox, creating it where it is not.

        Args:
            room: how many mentions are held ahead at most.
            stream: where the inbox is, as the registry record says; found by the name when absent.
            fresh: whoever held mentions before is gone: what it had not settled comes at once,
                instead of after ``ack_wait``. Not for one of several replicas.
        """
        return open_inbox(
            self._backend,
            self._log,
            self._speaker,
            self.settings,
            stream=stream or self._backend.inboxes.stream_of(self.name),
            room=room,
            fresh=fresh,
        )

    async def pending_mentions(self, stream: str | None = None) -> Mapping[str, int]:
        """Return how many mentions wait for each agent, in one stream of inboxes or in all."""
        return await count_pending(self._backend.inboxes, stream)

    async def oldest_mention(self, agent: str, stream: str | None = None) -> WaitingMention | None:
        """Return the mention that has waited longest for *agent*, or None; raises ReadError."""
        inboxes, name = self._backend.inboxes, parse_agent_name(agent)
        return await inboxes.oldest(name, stream or inboxes.stream_of(name))

    # watching

    async def publish_live(self, task: TaskId, thread: ThreadId, data: Any) -> None:
        """Send a JSON value to whoever watches now; it is never stored.

        Raises:
            NotJsonError: JSON has no word for it.
            PayloadTooLargeError: the server does not take so much.
        """
        subject = live_subject(parse_task_id(task), parse_thread_id(thread), self.name)
        body = encode_live(data, self._backend.log.max_payload)
        await self._backend.live.publish(subject, body)

    @asynccontextmanager
    async def watching_live(self, task: TaskId, handler: LiveHandler) -> AsyncGenerator[None]:
        """Call *handler* with the sender and the value of each live message of a super-task.

        What is not on a subject of ours, or no JSON, is passed over.
        """
        filter_ = live_filter(parse_task_id(task))
        async with self._backend.live.subscribe(filter_, decoding(handler)):
            yield

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        return await self._backend.facts()

    async def storage(self) -> StorageFacts:
        """Return what is known of the streams: what they hold and whether they are as needed."""
        return await self._backend.storage()
