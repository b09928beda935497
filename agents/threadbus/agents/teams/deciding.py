"""Let a model decide by a tool, however it behaves around that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from threadbus.agents.errors import ToolRoundsExceededError
from threadbus.agents.mention import Mention
from threadbus.agents.model import ChatMessage, Tool


async def decide(
    mention: Mention,
    messages: Sequence[ChatMessage],
    tools: Mapping[str, Tool],
    *,
    max_rounds: int = 3,
) -> str:
    """Let the model call its tools, and return what it says last.

    A model that calls them in every round is stopped after the last one: what it has decided by
    then counts, and is not lost because it does not know when to end.

    Args:
        mention: what is answered.
        messages: the conversation.
        tools: name → tool.
        max_rounds: how often the model is called at most.

    Raises:
        ModelError, NoModelError, ModelBudgetExceededError: see :meth:`Thinking.complete`.

    Cancellation: ends the model call and the tools that run.
    """
    try:
        return (await mention.thinking.run(messages, tools, max_rounds=max_rounds)).text
    except ToolRoundsExceededError as error:
        return f"it called {', '.join(error.tools[:3])} in every one of {error.rounds} rounds"
