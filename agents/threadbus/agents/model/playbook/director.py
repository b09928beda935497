"""Chooses the play that is due and makes the answer that it describes."""

from __future__ import annotations

import re
from itertools import count

import msgspec

from threadbus.agents.errors import PlaybookMissError, PlaybookTemplateError
from threadbus.agents.model.playbook.book import FailPlay, Play, Playbook, UsagePlay
from threadbus.agents.model.playbook.conversation import Conversation, usage_of
from threadbus.agents.model.playbook.template import (
    Namespace,
    TemplateError,
    render,
    render_value,
)
from threadbus.agents.model.playbook.wire import ChatRequest


class ReplyCall(msgspec.Struct, frozen=True):
    """A tool call as it goes out."""

    id: str
    tool: str
    arguments: str


class Reply(msgspec.Struct, frozen=True):
    """What to answer, and how."""

    id: str
    play: str
    """Which play it is, for people."""
    text: str
    calls: tuple[ReplyCall, ...]
    finish_reason: str
    usage: UsagePlay | None
    fail: FailPlay | None
    delay_ms: int
    chunk_chars: int
    chunk_delay_ms: int


class Director:
    """Answers from one playbook, and remembers how often each play was used."""

    def __init__(self, book: Playbook) -> None:
        self._book = book
        self._used = [0] * len(book.play)
        self._numbers = count(1)

    @property
    def book(self) -> Playbook:
        """What it answers from."""
        return self._book

    def answer(self, agent: str, request: ChatRequest) -> Reply:
        """Return what the first matching play says.

        Raises:
            PlaybookMissError: none matches.
            PlaybookTemplateError: its template names what is not there.
        """
        conversation = Conversation(agent, request)
        misses: list[tuple[int, str]] = []
        for index, play in enumerate(self._book.play):
            verdict = self._match(index, play, conversation)
            if isinstance(verdict, str):
                misses.append((index, verdict))
                continue
            reply = self._reply(index, conversation, verdict, request)
            self._used[index] += 1
            return reply
        raise self._miss(conversation, misses)

    def _match(
        self, index: int, play: Play, conversation: Conversation
    ) -> tuple[Namespace, Namespace] | str:
        """Return what its patterns caught, or why the play is not due."""
        if play.agents and conversation.agent not in play.agents:
            return f"is for {' and '.join(play.agents)}"
        if play.step is not None and play.step != conversation.step:
            return f"wants step {play.step}"
        if play.turn is not None and play.turn != conversation.turn:
            return f"wants turn {play.turn}"
        if play.after_tool is not None and conversation.last.tool != play.after_tool:
            return f"wants a result of {play.after_tool} last"
        caught: Namespace = {}
        if play.when is not None:
            match = re.search(play.when, conversation.last.text)
            if match is None:
                return f"wants {play.when!r} in the last message"
            caught = _groups(match)
        found: dict[str, object] = {}
        for name, pattern in play.find.items():
            matches = (re.search(pattern, said.text) for said in reversed(conversation.said))
            newest = next((match for match in matches if match is not None), None)
            if newest is None:
                return f"finds {pattern!r} in no message"
            found[name] = newest.group(1 if newest.re.groups else 0) or ""
        if play.times is not None and self._used[index] >= play.times:
            return f"was used {play.times} times already"
        return caught, found

    def _reply(
        self,
        index: int,
        conversation: Conversation,
        patterns: tuple[Namespace, Namespace],
        request: ChatRequest,
    ) -> Reply:
        play, defaults = self._book.play[index], self._book.defaults
        names = conversation.names(*patterns)
        try:
            text = render(play.text or "", names)
            calls = tuple(
                ReplyCall(
                    f"call_{conversation.turn}_{number}",
                    call.tool,
                    msgspec.json.encode(render_value(call.arguments, names)).decode()
                    if call.raw_arguments is None
                    else call.raw_arguments,
                )
                for number, call in enumerate(play.call, 1)
            )
        except TemplateError as error:
            raise PlaybookTemplateError(
                self._book.file, self._book.label(index), error.expression, error.reason
            ) from error
        usage = play.usage
        if usage is True:
            usage = UsagePlay(
                input=usage_of([message.text for message in request.messages]),
                output=usage_of([text, *(call.tool + call.arguments for call in calls)]),
            )
        return Reply(
            id=f"playbook-{next(self._numbers)}",
            play=self._book.label(index),
            text=text,
            calls=calls,
            finish_reason=play.finish_reason or ("tool_calls" if calls else "stop"),
            usage=usage or None,
            fail=play.fail,
            delay_ms=defaults.delay_ms if play.delay_ms is None else play.delay_ms,
            chunk_chars=play.chunk_chars or defaults.chunk_chars,
            chunk_delay_ms=defaults.chunk_delay_ms
            if play.chunk_delay_ms is None
            else play.chunk_delay_ms,
        )

    def _miss(self, conversation: Conversation, misses: list[tuple[int, str]]) -> PlaybookMissError:
        # Those for this agent come nearest.
        near = [
            (index, reason)
            for index, reason in misses
            if not self._book.play[index].agents
            or conversation.agent in self._book.play[index].agents
        ]
        shown = "; ".join(f"{self._book.label(index)} {reason}" for index, reason in near[:4])
        more = f"; and {len(near) - 4} more" if len(near) > 4 else ""
        why = f"{shown}{more}." if near else "No play is for this agent."
        return PlaybookMissError(
            self._book.file,
            conversation.agent,
            conversation.step,
            conversation.turn,
            conversation.last.text,
            why[:1].upper() + why[1:],
        )


def _groups(match: re.Match[str]) -> Namespace:
    groups: dict[str, str | None] = {str(n): match.group(n) for n in range(match.re.groups + 1)}
    return {name: text or "" for name, text in (groups | match.groupdict()).items()}
