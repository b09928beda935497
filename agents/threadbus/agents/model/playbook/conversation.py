"""A request as a playbook sees it: who asks, where the conversation stands, what was said."""

from __future__ import annotations

import json
from collections.abc import Sequence

from threadbus.agents.model.playbook.template import Branch, Namespace, known
from threadbus.agents.model.playbook.wire import ChatRequest


class Said(Branch):
    """A message or a tool's result: shown as its text, with ``.text`` and ``.json.…`` below."""

    def __init__(self, text: str, tool: str = "") -> None:
        self.text = text
        self.tool = tool
        """Which tool returned it; empty for a message."""

    def child(self, name: str) -> object:
        match name:
            case "text":
                return self.text
            case "tool":
                return self.tool
            case "json":
                try:
                    return json.loads(self.text)
                except (ValueError, RecursionError) as error:
                    raise LookupError(f"its text is not JSON ({error})") from error
            case _:
                raise LookupError("there is text, json and tool")

    def __str__(self) -> str:
        return self.text


class Conversation:
    """One request, taken apart."""

    def __init__(self, agent: str, request: ChatRequest) -> None:
        """Take *request* apart.

        Args:
            agent: who asks, by the header; the request's ``user`` where that is empty.
            request: what came.
        """
        self.agent = agent or request.user or ""
        self.model = request.model
        self.said: list[Said] = []
        """Every message in order."""
        self.results: list[Said] = []
        """What tools returned, in order."""
        self.turn = 1
        """The how-manieth answer of the conversation is asked for."""
        self.step = 1
        """The how-manieth since the last user message."""
        self.user = Said("")
        """The last user message."""
        self.system = Said("")
        """The first instruction."""
        tools: dict[str, str] = {}
        for message in request.messages:
            said = Said(message.text, tools.get(message.tool_call_id or "", ""))
            self.said.append(said)
            match message.role:
                case "user":
                    self.user = said
                    self.step = 1
                case "assistant":
                    self.turn += 1
                    self.step += 1
                    tools.update((call.id, call.function.name) for call in message.tool_calls or ())
                case "tool":
                    self.results.append(said)
                case _:
                    self.system = said if not self.system.text else self.system

    @property
    def last(self) -> Said:
        """The last message, whoever said it."""
        return self.said[-1]

    def names(self, match: Namespace, found: Namespace) -> dict[str, object]:
        """Return what templates can name."""
        latest = {result.tool: result for result in self.results}
        return {
            "agent": self.agent,
            "model": self.model,
            "step": self.step,
            "turn": self.turn,
            "system": self.system,
            "user": self.user,
            "last": self.last,
            "tool": _Tools(latest),
            "results": list[object](self.results),
            "match": match,
            "find": found,
        }


class _Tools(Branch):
    """The latest result of each tool."""

    def __init__(self, latest: dict[str, Said]) -> None:
        self._latest = latest

    def child(self, name: str) -> object:
        if name not in self._latest:
            raise LookupError(f"tools have returned: {known(self._latest, name)}")
        return self._latest[name]

    def __str__(self) -> str:
        return ", ".join(self._latest)


def usage_of(texts: Sequence[str]) -> int:
    """Count tokens by the rule of playbooks: one for every four characters, begun ones included.

    It only gives figures of a plausible size: no tokenizer is asked, as no model is.
    """
    return sum(-(-len(text) // 4) for text in texts)
