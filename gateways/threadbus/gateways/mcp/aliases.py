"""The tools of the newer Coral server by its names and parameters, for agents written for it.

Its waits have no cursor but the clock of the model, which is not looked at here: what such a wait
has handed out is acknowledged by the next one, unless the host had gone before it got the result.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from threadbus.gateways.mcp import arguments as takes
from threadbus.gateways.mcp.calls import Call
from threadbus.gateways.mcp.results import Message, Result, ThreadInfo
from threadbus.gateways.mcp.tools_threads import (
    add_participant,
    close_thread,
    create_thread,
    get_thread,
    remove_participant,
    send_message,
)
from threadbus.gateways.mcp.translate import message_of

_LAST: Final = "coral-cursor"
_MAX_WAIT_MS: Final = 60_000


class CoralMessage(Result, frozen=True, kw_only=True):
    """A message in the words of Coral."""

    id: str
    threadId: str  # noqa: N815 - a name of Coral
    text: str
    senderName: str  # noqa: N815
    mentionNames: list[str]  # noqa: N815
    timestamp: str


class CoralState(Result, frozen=True, kw_only=True):
    """Whether a thread is open."""

    state: Literal["open", "closed"]
    summary: str = ""


class CoralThread(Result, frozen=True, kw_only=True):
    """A thread in the words of Coral."""

    id: str
    name: str
    creatorName: str  # noqa: N815
    participants: list[str]
    messages: list[CoralMessage]
    state: CoralState
    timestamp: str


class ThreadResult(Result, frozen=True, kw_only=True):
    """What ``coral_create_thread`` gives."""

    thread: CoralThread


class Said(Result, frozen=True, kw_only=True):
    """What a change gives."""

    message: str


class SentResult(Result, frozen=True, kw_only=True):
    """What ``coral_send_message`` gives."""

    status: str
    message: CoralMessage


class WaitResult(Result, frozen=True, kw_only=True):
    """What a wait gives."""

    status: Literal["Message received", "Timeout reached"]
    message: CoralMessage | None = None


class CreateThread(takes.Arguments, frozen=True, kw_only=True):
    """Arguments of ``coral_create_thread``."""

    threadName: Annotated[str, Meta(min_length=1, max_length=400)]  # noqa: N815
    participantNames: takes.Agents  # noqa: N815


class CloseThread(takes.Arguments, frozen=True, kw_only=True):
    """Arguments of ``coral_close_thread``."""

    threadId: takes.Thread  # noqa: N815
    summary: Annotated[str, Meta(min_length=1, max_length=16_384)]


class Participant(takes.Arguments, frozen=True, kw_only=True):
    """Arguments of ``coral_add_participant`` and ``coral_remove_participant``."""

    threadId: takes.Thread  # noqa: N815
    participantName: takes.AgentArg  # noqa: N815


class SendMessage(takes.Arguments, frozen=True, kw_only=True):
    """Arguments of ``coral_send_message``."""

    threadId: takes.Thread  # noqa: N815
    content: takes.Content
    mentions: takes.Mentions


class WaitFor(takes.Arguments, frozen=True, kw_only=True):
    """Arguments of ``coral_wait_for_message`` and ``coral_wait_for_mention``."""

    currentUnixTime: Annotated[int, Meta(description="Not looked at.")] = 0  # noqa: N815
    maxWaitMs: Annotated[int, Meta(ge=0, le=600_000)] = 30_000  # noqa: N815


class WaitForAgent(WaitFor, frozen=True, kw_only=True):
    """Arguments of ``coral_wait_for_agent``."""

    agentName: takes.AgentArg  # noqa: N815


async def coral_create_thread(call: Call, args: CreateThread) -> ThreadResult:
    """Open a thread, in a super-task of its own."""
    opened = await create_thread(
        call, takes.CreateThread(name=args.threadName, participants=args.participantNames)
    )
    return ThreadResult(thread=await _thread(call, opened.thread))


async def coral_close_thread(call: Call, args: CloseThread) -> Said:
    """Close a thread."""
    await close_thread(call, takes.CloseThread(thread_id=args.threadId, summary=args.summary))
    return Said(message="Thread closed successfully")


async def coral_add_participant(call: Call, args: Participant) -> Said:
    """Let an agent in."""
    await add_participant(
        call, takes.Participant(thread_id=args.threadId, agent=args.participantName)
    )
    return Said(message="Participant added successfully")


async def coral_remove_participant(call: Call, args: Participant) -> Said:
    """Take an agent out."""
    await remove_participant(
        call, takes.Participant(thread_id=args.threadId, agent=args.participantName)
    )
    return Said(message="Participant removed successfully")


async def coral_send_message(call: Call, args: SendMessage) -> SentResult:
    """Post a message."""
    sent = await send_message(
        call,
        takes.SendMessage(thread_id=args.threadId, content=args.content, mentions=args.mentions),
    )
    place = call.place(sent.thread_id)
    event = (await call.find(place, sent.message_id)).event
    return SentResult(status="Message sent successfully", message=_message(message_of(event)))


async def coral_wait_for_mention(call: Call, args: WaitFor) -> WaitResult:
    """Wait for one mention."""
    return await _wait(call, args, "")


async def coral_wait_for_agent(call: Call, args: WaitForAgent) -> WaitResult:
    """Wait for one mention by a certain agent; those of others stay for later."""
    return await _wait(call, args, await call.directory.resolve(args.agentName))


async def _wait(call: Call, args: WaitFor, sender: str) -> WaitResult:
    seconds = min(args.maxWaitMs, _MAX_WAIT_MS, takes.MAX_WAIT_S * 1000) / 1000
    woken = await call.desk.mailbox.wait(
        call.desk.state.pop(_LAST, ""), seconds, most=1, sender=sender
    )
    if not woken.events:
        return WaitResult(status="Timeout reached")
    # Kept once the host has it: see the server, which calls this when the result is on its way.
    call.at_delivery = lambda: call.desk.state.__setitem__(_LAST, woken.cursor)
    event = await call.loaded(woken.events[0])
    return WaitResult(status="Message received", message=_message(message_of(event, call.me)))


def _message(message: Message) -> CoralMessage:
    return CoralMessage(
        id=message.message_id,
        threadId=message.thread_id,
        text=message.text,
        senderName=message.sender,
        mentionNames=message.mentions,
        timestamp=message.at,
    )


async def _thread(call: Call, thread: ThreadInfo) -> CoralThread:
    page = await get_thread(call, takes.GetThread(thread_id=thread.thread_id, limit=1))
    return CoralThread(
        id=thread.thread_id,
        name=thread.title,
        creatorName=thread.creator,
        participants=thread.participants,
        messages=[],
        state=CoralState(state=thread.state, summary=thread.summary),
        timestamp=page.messages[0].at if page.messages else "",
    )
