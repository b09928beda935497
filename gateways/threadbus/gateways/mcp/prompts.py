"""Prompts that teach a model how to work with others in threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threadbus.gateways.errors import BadArgumentError
from threadbus.gateways.text import bounded_text

MAX_ARGUMENT_CHARS: Final = 20_000

INSTRUCTIONS: Final = (
    "You are an agent on a bus of agents, under the name that list_agents calls `you`. Agents "
    "talk in threads; a mention wakes an agent. To have something done by one agent, use ask. To "
    "work with several: find_agents, create_thread, send_message with mentions, then "
    "wait_for_mentions and answer what it brings with reply (or vote). Pass the cursor of each "
    "result to the next wait_for_mentions. Ids are used exactly as results give them. An error "
    "says what to do next."
)


@dataclass(frozen=True)
class Argument:
    """What a prompt takes."""

    name: str
    description: str
    required: bool = True


@dataclass(frozen=True)
class Prompt:
    """One prompt."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: Callable[[Mapping[str, str]], str]


def _lead(given: Mapping[str, str]) -> str:
    return (
        f"Lead a team of agents to this goal:\n\n{given['goal']}\n\n"
        "1. find_agents for each thing that has to be done; read what they can do.\n"
        "2. create_thread with those you need as participants.\n"
        "3. send_message with the plan, mentioning everybody whose opinion you need, or assign "
        "pieces of work one by one and wait_for_results.\n"
        "4. wait_for_mentions, always with the cursor of the result before. Answer with reply. "
        "When somebody is stuck, help or ask somebody else.\n"
        "5. When there is an answer, propose it to the others and wait_for_votes. If it is "
        "rejected, the reasons in get_thread say what to change.\n"
        "6. submit_answer with the messages that it rests on as sources, and any dissent."
    )


def _serve(given: Mapping[str, str]) -> str:
    duty = given.get("duty") or "whatever you are able to do"
    return (
        f"Work as an agent that others can mention. What you do for them: {duty}.\n\n"
        "Repeat until you are told to stop:\n"
        "1. wait_for_mentions with the cursor of the result before (none the first time).\n"
        "2. For each message: get_thread where you need what was said before. Then do what "
        "`respond_with` says: reply with your result, or vote. Use report_progress for long work. "
        "What you cannot do, you reply to with declined=true and the reason.\n"
        "3. A thread that was closed needs nothing more from you.\n"
        "A wait that ends with `timeout` is no problem: wait again."
    )


def _review(given: Mapping[str, str]) -> str:
    return (
        f"Review what is proposed in thread {given['thread_id']}.\n\n"
        "Read it with get_thread. Look for what is wrong, missing or not shown by evidence. Vote "
        "on the proposal with your reasons: approve only what you would answer for yourself. "
        "If you need to know something first, send_message to whoever said it and "
        "wait_for_mentions."
    )


_PROMPTS: Final = (
    Prompt(
        "lead_a_team",
        "Lead a team",
        "Reach a goal together with other agents: find them, plan, assign, vote, answer.",
        (Argument("goal", "What is to be reached, and what is known about it."),),
        _lead,
    ),
    Prompt(
        "serve_mentions",
        "Work for others",
        "Wait for mentions by other agents and answer them.",
        (Argument("duty", "What you do for others.", required=False),),
        _serve,
    ),
    Prompt(
        "review_and_vote",
        "Review and vote",
        "Read what is proposed in a thread, judge it, and vote.",
        (Argument("thread_id", "The thread."),),
        _review,
    ),
)

PROMPTS: Final[Mapping[str, Prompt]] = {prompt.name: prompt for prompt in _PROMPTS}


def render(prompt: Prompt, given: Mapping[str, str]) -> str:
    """Return the text of a prompt.

    Raises:
        BadArgumentError: an argument is missing or unknown.
        LimitExceededError: one is too long.
    """
    known = {argument.name for argument in prompt.arguments}
    for name in given:
        if name not in known:
            takes = ", ".join(sorted(known))
            raise BadArgumentError(name, "the prompt does not take it", f"it takes {takes}")
    clean = {name: bounded_text(name, text, MAX_ARGUMENT_CHARS) for name, text in given.items()}
    for argument in prompt.arguments:
        if argument.required and not clean.get(argument.name, "").strip():
            raise BadArgumentError(argument.name, "it is missing", argument.description)
    return prompt.text(clean)
