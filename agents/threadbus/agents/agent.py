"""An agent: a card, what it does when it is mentioned, and its limits. No I/O; see ``runner``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from threadbus.agents.errors import InvalidSettingError, NotAHandlerError
from threadbus.agents.mention import Mention, Reply
from threadbus.schemas import (
    AgentCard,
    AgentName,
    Recorded,
    Skill,
    canonical_agent_name,
    parse_agent_name,
)

MentionHandler: TypeAlias = Callable[[Mention], Awaitable[Reply]]
"""Does the work of one mention; what it returns is the reply."""

DeadLetterHandler: TypeAlias = Callable[[Recorded], Awaitable[None]]
"""Told that another agent gave up what this one had asked it."""

_MOST: Final = 10_000

_HandlerT = TypeVar("_HandlerT", bound=MentionHandler)
_DeadLetterT = TypeVar("_DeadLetterT", bound=DeadLetterHandler)


@dataclass(frozen=True, kw_only=True)
class AgentLimits:
    """How much an agent takes on at once, and how long it tries."""

    concurrency: int = 4
    """Threads worked on at the same time by one process."""
    max_attempts: int = 5
    """Attempts at one mention before it is given up."""
    first_retry: timedelta = timedelta(seconds=1)
    """Pause after the first failure; doubled after each further one."""
    longest_retry: timedelta = timedelta(seconds=60)
    turn_timeout: timedelta = timedelta(hours=1)
    """How long one attempt may take; a longer one counts as failed."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_attempts"):
            count = getattr(self, name)
            if not 1 <= count <= _MOST:
                raise InvalidSettingError(name, str(count), f"it is a number from 1 to {_MOST:,}")
        for name in ("first_retry", "longest_retry"):
            if getattr(self, name) < timedelta(0):
                raise InvalidSettingError(name, str(getattr(self, name)), "it is 0 or longer")
        if self.turn_timeout <= timedelta(0):
            raise InvalidSettingError(
                "turn_timeout", str(self.turn_timeout), "it is longer than 0; an hour is usual"
            )


class Agent:
    """An agent, described by a card and made of handlers.

    ``@agent.on_mention`` marks the function that is run for each mention: in order within a
    thread, several threads at once.
    """

    def __init__(
        self,
        name: str,
        *,
        display_name: str = "",
        description: str = "",
        version: str = "0.1.0",
        skills: Sequence[Skill] = (),
        input_modes: Sequence[str] = ("text/plain",),
        output_modes: Sequence[str] = ("text/plain",),
        labels: dict[str, str] | None = None,
        limits: AgentLimits | None = None,
    ) -> None:
        """Describe an agent.

        Args:
            name: its canonical name; others mention it by this.
            display_name: free-form, for people.
            description: what it can do, in words that others choose it by.
            version: of the agent, not of threadbus.
            skills: what it can do, one by one.
            input_modes: media types that it takes.
            output_modes: media types that it gives.
            labels: for programs that sort agents.
            limits: how much it takes on and how long it tries.

        Raises:
            InvalidNameError: the name is outside the grammar; has one that would do.
        """
        self.card = AgentCard(
            name=parse_agent_name(name),
            display_name=display_name,
            description=description,
            version=version,
            skills=tuple(skills),
            input_modes=tuple(input_modes),
            output_modes=tuple(output_modes),
            labels=labels or {},
        )
        self.limits = limits or AgentLimits()
        self.mention_handler: MentionHandler | None = None
        self.quick_handler: MentionHandler | None = None
        self.dead_letter_handler: DeadLetterHandler | None = None

    @property
    def name(self) -> AgentName:
        """The canonical name."""
        return AgentName(self.card.name)

    def renamed(self, name: str) -> Agent:
        """Return the same agent under another name."""
        other = Agent(name, limits=self.limits)
        other.card = msgspec.structs.replace(self.card, name=other.name)
        other.mention_handler = self.mention_handler
        other.quick_handler = self.quick_handler
        other.dead_letter_handler = self.dead_letter_handler
        return other

    def on_mention(self, handler: _HandlerT) -> _HandlerT:
        """Run *handler* for each mention; what it returns is the reply.

        A string or parts answer whatever was asked: the super-task, an assignment or a message.
        ``None`` says nothing. An event's data, such as :class:`VoteCast`, is appended as it is.

        Raises:
            NotAHandlerError: it is not an async function of one argument.
        """
        _check(handler)
        self.mention_handler = handler
        return handler

    def on_quick(self, handler: _HandlerT) -> _HandlerT:
        """Run *handler* at once for a quick question, also while the agent is busy.

        Without one, the agent answers with what it is busy with.
        """
        _check(handler)
        self.quick_handler = handler
        return handler

    def on_dead_letter(self, handler: _DeadLetterT) -> _DeadLetterT:
        """Run *handler* when another agent gives up what this one asked without waiting."""
        _check(handler)
        self.dead_letter_handler = handler
        return handler


def from_callable(
    run: Callable[[str], str] | Callable[[str], Awaitable[str]],
    name: str = "",
    *,
    description: str = "",
    limits: AgentLimits | None = None,
) -> Agent:
    """Make an agent of ``run(task_desc) -> str``, plain or async.

    A plain function runs in a thread of its own, so that it may block.

    Args:
        run: does the work.
        name: the agent's name; that of the function when absent.
        description: what it can do; the first line of its docstring when absent.
        limits: how much it takes on and how long it tries.

    Raises:
        NotAHandlerError: it cannot be called with one string.
        InvalidNameError: *name* is outside the grammar.
    """
    if not _takes_one(run):
        raise NotAHandlerError(_name_of(run))
    doc = (inspect.getdoc(run) or "").split("\n", 1)[0]
    own_name = getattr(_unwrapped(run), "__name__", type(run).__name__)
    agent = Agent(
        name or canonical_agent_name(own_name.strip("_").lower()),
        description=description or doc,
        limits=limits,
    )

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return str(await mention.call(run, mention.text))

    return agent


def _check(handler: Callable[..., object]) -> None:
    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - the method itself, not whether there is one
    )
    if not is_async or not _takes_one(handler):
        raise NotAHandlerError(_name_of(handler))


def _takes_one(function: Callable[..., object]) -> bool:
    """Whether it can be called with one argument; what has no signature is believed to."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name_of(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or repr(handler)[:100]
