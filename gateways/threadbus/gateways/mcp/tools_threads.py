"""Tools about agents and threads: who there is, opening, letting in and out, saying, closing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from msgspec import UnsetType

from threadbus.agents import decline, reply_to
from threadbus.bus import Appended, TaskNotFoundError, ThreadState
from threadbus.gateways.errors import BadArgumentError
from threadbus.gateways.mcp import arguments as takes
from threadbus.gateways.mcp.calls import Call, is_inside, parts_of
from threadbus.gateways.mcp.directory import ranked
from threadbus.gateways.mcp.references import Place, thread_ref, trace_of
from threadbus.gateways.mcp.results import (
    AgentList,
    Done,
    Message,
    Sent,
    ThreadInfo,
    ThreadList,
    ThreadMessages,
    ThreadOpened,
)
from threadbus.gateways.mcp.translate import agent_of, is_shown, message_of, thread_of
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    ErrorInfo,
    EventId,
    InputRequested,
    InvalidIdError,
    Lane,
    Part,
    ProposalMade,
    Recorded,
    TaskId,
    TaskStatus,
    ThreadId,
    ThreadOutcome,
    clean_text,
    derive_thread_id,
    new_task_id,
    parse_task_id,
)

_SCANNED_TASKS: Final = 100
_PAGE_BYTES: Final = 200_000
_TASK_OUTCOMES: Final = {
    "concluded": TaskStatus.COMPLETED,
    "cancelled": TaskStatus.CANCELLED,
}
_NO_TIME: Final = EventId("0" * 31 + "1")


async def list_agents(call: Call, args: takes.ListAgents) -> AgentList:
    """Name the agents there are."""
    agents = await call.directory.agents(fresh=True)
    shown = [agent for agent in agents if agent.is_living or args.include_offline]
    return AgentList(
        you=call.me,
        agents=[agent_of(agent) for agent in shown[: takes.MAX_LISTED]],
        more=len(shown) > takes.MAX_LISTED,
    )


async def find_agents(call: Call, args: takes.FindAgents) -> AgentList:
    """Name the agents that fit best what is to be done."""
    agents = [agent for agent in await call.directory.agents(fresh=True) if agent.name != call.me]
    found = ranked(agents, args.query)
    return AgentList(
        you=call.me,
        agents=[agent_of(agent) for agent in found[: args.limit]],
        more=len(found) > args.limit,
    )


async def create_thread(call: Call, args: takes.CreateThread) -> ThreadOpened:
    """Open a thread in a super-task, or a new super-task."""
    participants = await call.directory.resolve_all(args.participants)
    title = clean_text(args.name)
    if isinstance(args.task_id, str):
        opened = await _thread_in(call, args, _task_of(args.task_id), title, participants)
    else:
        opened = await open_task(
            call, (), to=(), participants=participants, title=title, key=args.idempotency_key
        )
    event = opened.event
    call.desk.closings.soon(event.task)
    state = await call.bus.threads.state(event.task, event.thread)
    return ThreadOpened(
        thread=thread_of(state),
        thread_id=thread_ref(event.task, event.thread),
        message_id=event.id,
        duplicate=opened.duplicate,
        notes=await notes_on(call, participants),
    )


async def _thread_in(
    call: Call, args: takes.CreateThread, task: TaskId, title: str, participants: list[AgentName]
) -> Appended:
    event_id = call.key_id(task, args.idempotency_key)
    thread: ThreadId | None = None
    if event_id is not None:
        thread = derive_thread_id(title, event_id, call.me, 0)
        before = await call.said_before(Place(task, thread), event_id)
        if before is not None:
            return before
    return await call.bus.threads.open(
        task,
        title,
        participants=participants,
        goal=clean_text(args.goal),
        thread=thread,
        event_id=event_id,
    )


async def open_task(
    call: Call,
    question: str | Part | Sequence[Part],
    *,
    to: Sequence[AgentName],
    participants: Sequence[AgentName],
    title: str,
    key: str | UnsetType,
) -> Appended:
    """Open a super-task: in the trace of the host, or under a key, where there is one."""
    trace = trace_of(call.traceparent)
    task, event_id = new_task_id(), call.key_id(TaskId(_NO_TIME), key)
    if event_id is not None:
        # The key names the task too, so that it is found again.
        task = TaskId(event_id)
        before = await call.said_before(Place(task, MAIN_THREAD), event_id)
        if before is not None:
            return before
    elif trace is not None and not (await _exists(call, trace)):
        task = trace
    return await call.bus.tasks.open(
        question,
        to=to,
        participants=participants,
        title=title,
        labels=call.trace_labels,
        task=task,
        event_id=event_id,
    )


async def _exists(call: Call, task: TaskId) -> bool:
    try:
        await call.bus.threads.state(task)
    except TaskNotFoundError:
        return False
    return True


async def add_participant(call: Call, args: takes.Participant) -> Done:
    """Let an agent into a thread."""
    place = call.place(args.thread_id)
    agent = await call.directory.resolve(args.agent)
    added = await call.bus.threads.add(*place, agent)
    return await _done(call, place, added)


async def remove_participant(call: Call, args: takes.Participant) -> Done:
    """Take an agent out of a thread."""
    place = call.place(args.thread_id)
    removed = await call.bus.threads.remove(*place, await call.directory.resolve(args.agent))
    return await _done(call, place, removed)


async def _done(call: Call, place: Place, appended: Appended) -> Done:
    state = await call.bus.threads.state(*place)
    return Done(message_id=appended.event.id, thread=thread_of(state))


async def send_message(call: Call, args: takes.SendMessage) -> Sent:
    """Post a message; those mentioned are woken."""
    place = call.place(args.thread_id)
    mentions = await mentioned(call, args.mentions)
    event_id = call.key_id(place.task, args.idempotency_key)
    sent = await call.said_before(place, event_id)
    if sent is None:
        cause = None
        if isinstance(args.in_reply_to, str):
            cause = (await call.find(place, args.in_reply_to)).event.id
        sent = await call.bus.send(
            *place,
            parts_of(args.content, args.data),
            mentions=mentions,
            cause=cause,
            lane=Lane.QUICK if args.quick else Lane.NORMAL,
            event_id=event_id,
            labels=call.trace_labels,
        )
    return await sent_result(call, sent)


async def mentioned(call: Call, names: list[str]) -> list[AgentName]:
    """Return whom a host mentions.

    Raises:
        BadArgumentError: it mentions itself.
        UnknownAgentError, AmbiguousNameError: it is not known who is meant.
    """
    found = await call.directory.resolve_all(names)
    if call.me in found:
        raise BadArgumentError(
            "mentions", f"you are {call.me} and mention yourself", "mention others, or nobody"
        )
    return found


async def reply(call: Call, args: takes.Reply) -> Sent:
    """Answer a mention with what it asks for."""
    place = call.place(args.thread_id)
    mention = await call.find(place, args.message_id)
    if isinstance(mention.event.data, ProposalMade):
        raise BadArgumentError("message_id", "it is put to the vote", "answer it with vote")
    if args.declined:
        await decline(call.bus, mention, ErrorInfo("declined", clean_text(args.content, 16_000)))
        said = Sent(
            message_id=mention.event.id,
            thread_id=args.thread_id,
            notes=[f"{mention.event.sender} was told that you do not do it"],
        )
    else:
        said = await sent_result(call, await _reply(call, mention, args))
        if said.duplicate:
            said.notes.append("you had replied to it before; send_message adds something to that")
    # Who answers a mention has received it.
    call.desk.mailbox.acknowledge(frozenset({mention.seq}))
    return said


async def _reply(call: Call, mention: Recorded, args: takes.Reply) -> Appended:
    parts = parts_of(args.content, args.data)
    event = mention.event
    if isinstance(event.data, InputRequested):
        return await call.bus.tasks.give_input(event.task, parts, request=event.id)
    return await reply_to(call.bus, mention, parts)


async def sent_result(call: Call, appended: Appended) -> Sent:
    """Say what was appended, and what the caller should know of those it mentions."""
    event = appended.event
    return Sent(
        message_id=event.id,
        thread_id=thread_ref(event.task, event.thread),
        mentions=list(event.mentions),
        duplicate=appended.duplicate,
        notes=await notes_on(call, event.mentions),
    )


async def notes_on(call: Call, names: tuple[AgentName, ...] | list[AgentName]) -> list[str]:
    """Say of whom nothing can come soon."""
    if not names:
        return []
    by_name = {agent.name: agent for agent in await call.directory.agents()}
    notes: list[str] = []
    for name in names:
        agent = by_name.get(name)
        if agent is None or not agent.is_living:
            notes.append(f"{name} is not running now; it finds this when it starts")
    return notes


async def close_thread(call: Call, args: takes.CloseThread) -> Done:
    """Close a thread with a summary; the main thread ends with its super-task."""
    place = call.place(args.thread_id)
    summary = clean_text(args.summary)
    if place.thread == MAIN_THREAD:
        outcome = _TASK_OUTCOMES.get(args.outcome, TaskStatus.FAILED)
        closed = await call.bus.tasks.close(place.task, outcome, summary=summary)
    else:
        closed = await call.bus.threads.close(
            *place, summary=summary, outcome=ThreadOutcome(args.outcome)
        )
    return await _done(call, place, closed)


async def get_thread(call: Call, args: takes.GetThread) -> ThreadMessages:
    """Read a thread, a page at a time."""
    place = call.place(args.thread_id)
    return await read_thread(call, place, args.after, args.limit)


async def read_thread(call: Call, place: Place, after: int, limit: int) -> ThreadMessages:
    """Return a page of a thread that the caller is in."""
    state = await call.visible(place)
    messages: list[Message] = []
    last, room, more = after, _PAGE_BYTES, False
    async for entry in call.bus.read(*place, after):
        if isinstance(entry, Recorded) and is_shown(entry.event):
            if len(messages) >= limit or room <= 0:
                more = True
                break
            messages.append(message_of(await call.loaded(entry.event), call.me))
            room -= min(len(entry.body), 40_000)
        last = entry.seq
    return ThreadMessages(thread=thread_of(state), messages=messages, last=last, more=more)


async def list_threads(call: Call, args: takes.ListThreads) -> ThreadList:
    """Name the threads that the caller takes part in."""
    found: list[ThreadInfo] = []
    async for state in threads_of(call):
        if state.is_open or args.include_closed:
            if len(found) == args.limit:
                return ThreadList(threads=found, more=True)
            found.append(thread_of(state))
    return ThreadList(threads=found)


async def threads_of(call: Call) -> AsyncGenerator[ThreadState]:
    """Yield the threads that the caller is in, those of the newest super-tasks first."""
    scans = call.directory.scans
    async with scans:
        summaries = await call.bus.tasks.list(limit=_SCANNED_TASKS)
    for summary in summaries:
        async with scans:
            states: list[ThreadState] = list(await call.bus.threads.list(summary.task))
        for state in states:
            if is_inside(state, call.me):
                yield state


def _task_of(task_id: str) -> TaskId:
    try:
        return parse_task_id(task_id.partition("/")[0].strip())
    except InvalidIdError as error:
        raise BadArgumentError("task_id", str(error), "use it as a result gave it") from error
