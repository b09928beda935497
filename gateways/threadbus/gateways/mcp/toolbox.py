"""Every tool in one table: its name, what a model is told of it, what it takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from threadbus.bus import LivingAgent
from threadbus.gateways.mcp import aliases, results, tools_ask, tools_threads, tools_work
from threadbus.gateways.mcp import arguments as takes
from threadbus.gateways.mcp.calls import Call
from threadbus.gateways.text import cut_text

Handler = Callable[[Call, Any], Awaitable[results.Result]]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool."""

    name: str
    title: str
    description: str
    expects: type[takes.Arguments]
    gives: type[results.Result]
    run: Handler
    reads: bool = False
    """It changes nothing."""
    repeatable: bool = False
    """Called again with the same arguments it does nothing more."""
    ends: bool = False
    """It ends something that cannot be opened again."""
    waits: bool = False
    """It waits for others, and stops when its host has gone."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return schema_of(self.expects)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        return schema_of(self.gives)

    def read(self, arguments: Mapping[str, Any] | None) -> takes.Arguments:
        """Read the arguments of a call.

        Raises:
            msgspec.ValidationError: they do not fit; says where and what was expected.
        """
        return msgspec.convert(arguments or {}, self.expects, strict=True)

    def usage(self) -> str:
        """Say what the tool takes, for an error."""
        fields = msgspec.structs.fields(self.expects)
        words = [f.name if f.required else f"[{f.name}]" for f in fields]
        return f"It takes {', '.join(words)}" if words else "It takes nothing"


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct in one piece: many hosts do not follow ``$ref``."""
    (root,), parts = msgspec.json.schema_components([kind])
    found = cast("dict[str, Any]", _resolved(root, parts))
    found.pop("title", None)
    found.pop("description", None)
    return found


def _resolved(value: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        reference = items.get("$ref")
        if isinstance(reference, str):
            return _resolved(parts[reference.rpartition("/")[2]], parts)
        return {key: _resolved(item, parts) for key, item in items.items()}
    if isinstance(value, list):
        return [_resolved(item, parts) for item in cast("Sequence[Any]", value)]
    return value


_OURS: Final = (
    Tool(
        name="list_agents",
        title="List agents",
        description="Name all agents on the bus, what they can do and whether they run. Also says "
        "which one you are.",
        expects=takes.ListAgents,
        gives=results.AgentList,
        run=tools_threads.list_agents,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="find_agents",
        title="Find agents",
        description="Name the agents whose description and skills fit best what is to be done.",
        expects=takes.FindAgents,
        gives=results.AgentList,
        run=tools_threads.find_agents,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="create_thread",
        title="Create a thread",
        description="Open a thread in which agents talk. You are in it. Without task_id it opens "
        "a new super-task whose main thread this is. Nobody is told before you mention them in a "
        "message.",
        expects=takes.CreateThread,
        gives=results.ThreadOpened,
        run=tools_threads.create_thread,
    ),
    Tool(
        name="add_participant",
        title="Add a participant",
        description="Let an agent into a thread, so that it can be mentioned there.",
        expects=takes.Participant,
        gives=results.Done,
        run=tools_threads.add_participant,
    ),
    Tool(
        name="remove_participant",
        title="Remove a participant",
        description="Take an agent out of a thread. What it said stays.",
        expects=takes.Participant,
        gives=results.Done,
        run=tools_threads.remove_participant,
        ends=True,
    ),
    Tool(
        name="send_message",
        title="Send a message",
        description="Say something in a thread. Those in `mentions` are woken by it; others see "
        "it when they look at the thread. To answer a message that mentions you, use reply.",
        expects=takes.SendMessage,
        gives=results.Sent,
        run=tools_threads.send_message,
    ),
    Tool(
        name="reply",
        title="Reply to a mention",
        description="Answer a message that wait_for_mentions brought. What it becomes depends on "
        "what it answers: the answer of the super-task (which ends it), the result of an "
        "assignment, the input that was asked for, or a message to whoever asked. A mention is "
        "replied to once. With declined=true you say that you cannot do it.",
        expects=takes.Reply,
        gives=results.Sent,
        run=tools_threads.reply,
        repeatable=True,
    ),
    Tool(
        name="wait_for_mentions",
        title="Wait for mentions",
        description="Wait until somebody mentions you, or a thread that you are in is closed. "
        "Give the cursor of the result before: it acknowledges that result. Without it the same "
        "mentions come again, so nothing gets lost. Of two waits at once the newer one goes on.",
        expects=takes.WaitForMentions,
        gives=results.Mentions,
        run=tools_work.wait_for_mentions,
        waits=True,
    ),
    Tool(
        name="close_thread",
        title="Close a thread",
        description="Close a thread with a summary, which is what others see of it. The main "
        "thread ends with its super-task. Nothing can be added afterwards.",
        expects=takes.CloseThread,
        gives=results.Done,
        run=tools_threads.close_thread,
        ends=True,
    ),
    Tool(
        name="get_thread",
        title="Read a thread",
        description="Read what was said in a thread that you are in, its participants and state. "
        "Go on with `after` set to `last` of the result before.",
        expects=takes.GetThread,
        gives=results.ThreadMessages,
        run=tools_threads.get_thread,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="list_threads",
        title="List your threads",
        description="Name the threads that you are in, those of the newest super-tasks first.",
        expects=takes.ListThreads,
        gives=results.ThreadList,
        run=tools_threads.list_threads,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="assign",
        title="Assign work",
        description="Give a piece of work to one participant of a thread. wait_for_results with "
        "the message_id brings the result; with notify=true it mentions you instead.",
        expects=takes.Assign,
        gives=results.Sent,
        run=tools_work.assign,
    ),
    Tool(
        name="wait_for_results",
        title="Wait for results",
        description="Wait until assignments have finished, failed or were cancelled. At the "
        "timeout it says which are missing; wait again.",
        expects=takes.WaitForResults,
        gives=results.AssignmentResults,
        run=tools_work.wait_for_results,
        waits=True,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="report_progress",
        title="Report progress",
        description="Say how far you are with an assignment, or with the thread.",
        expects=takes.ReportProgress,
        gives=results.Sent,
        run=tools_work.report_progress,
    ),
    Tool(
        name="propose",
        title="Put to the vote",
        description="Put something to the vote in a thread. The voters are mentioned; "
        "wait_for_votes with the message_id says what came of it.",
        expects=takes.Propose,
        gives=results.Sent,
        run=tools_work.propose,
    ),
    Tool(
        name="vote",
        title="Vote",
        description="Approve or reject a proposal. Your last vote counts.",
        expects=takes.Vote,
        gives=results.Sent,
        run=tools_work.vote,
        repeatable=True,
    ),
    Tool(
        name="wait_for_votes",
        title="Wait for votes",
        description="Wait until a vote is decided. At the timeout it says who is missing.",
        expects=takes.WaitForVotes,
        gives=results.Votes,
        run=tools_work.wait_for_votes,
        waits=True,
        reads=True,
        repeatable=True,
    ),
    Tool(
        name="submit_answer",
        title="Submit the answer",
        description="Submit the answer of a super-task, with the messages it rests on and any "
        "dissent. This ends the super-task.",
        expects=takes.SubmitAnswer,
        gives=results.Sent,
        run=tools_work.submit_answer,
        ends=True,
        repeatable=True,
    ),
    Tool(
        name="ask",
        title="Ask an agent",
        description="Ask one agent and wait for its answer, in one call. Where the answer takes "
        "longer, the result says so and has a task_id to wait on with.",
        expects=takes.Ask,
        gives=results.Answered,
        run=tools_ask.ask,
        waits=True,
    ),
)

_CORAL: Final = (
    Tool(
        name="coral_create_thread",
        title="Create a thread",
        description="Create a thread with the named agents.",
        expects=aliases.CreateThread,
        gives=aliases.ThreadResult,
        run=aliases.coral_create_thread,
    ),
    Tool(
        name="coral_close_thread",
        title="Close a thread",
        description="Close a thread with a summary.",
        expects=aliases.CloseThread,
        gives=aliases.Said,
        run=aliases.coral_close_thread,
        ends=True,
    ),
    Tool(
        name="coral_add_participant",
        title="Add a participant",
        description="Add an agent to a thread.",
        expects=aliases.Participant,
        gives=aliases.Said,
        run=aliases.coral_add_participant,
    ),
    Tool(
        name="coral_remove_participant",
        title="Remove a participant",
        description="Remove an agent from a thread.",
        expects=aliases.Participant,
        gives=aliases.Said,
        run=aliases.coral_remove_participant,
        ends=True,
    ),
    Tool(
        name="coral_send_message",
        title="Send a message",
        description="Send a message to a thread; the mentioned agents are woken.",
        expects=aliases.SendMessage,
        gives=aliases.SentResult,
        run=aliases.coral_send_message,
    ),
    Tool(
        name="coral_wait_for_message",
        title="Wait for a message",
        description="Wait for a message that mentions you.",
        expects=aliases.WaitFor,
        gives=aliases.WaitResult,
        run=aliases.coral_wait_for_mention,
        waits=True,
    ),
    Tool(
        name="coral_wait_for_mention",
        title="Wait for a mention",
        description="Wait for a message that mentions you.",
        expects=aliases.WaitFor,
        gives=aliases.WaitResult,
        run=aliases.coral_wait_for_mention,
        waits=True,
    ),
    Tool(
        name="coral_wait_for_agent",
        title="Wait for an agent",
        description="Wait for a message of one agent that mentions you.",
        expects=aliases.WaitForAgent,
        gives=aliases.WaitResult,
        run=aliases.coral_wait_for_agent,
        waits=True,
    ),
)

TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _OURS}
"""The tools that every host is shown."""

ALIASES: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _CORAL}
"""The names of the newer Coral server: always callable, shown where the operator says so."""


def ask_tool(name: str, agent: LivingAgent) -> Tool:
    """Return the tool that asks one agent.

    Args:
        name: of the tool.
        agent: who is asked.
    """
    card = agent.record.card
    about = cut_text(" ".join(card.description.split()), 1000)

    async def run(call: Call, args: takes.AskAgent) -> results.Answered:
        return await tools_ask.ask_agent(call, agent.name, args)

    return Tool(
        name=name,
        title=f"Ask {card.title}",
        description=f"Ask the agent {card.title} and wait for its answer. {about}".strip(),
        expects=takes.AskAgent,
        gives=results.Answered,
        run=run,
        waits=True,
    )
