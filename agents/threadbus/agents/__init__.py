"""Agents as services on the bus, and the model port they think with.

``@agent.on_mention async def handle(mention) -> reply``, then ``bus run module:agent``.
"""

from threadbus.agents.agent import (
    Agent,
    AgentLimits,
    DeadLetterHandler,
    MentionHandler,
    from_callable,
)
from threadbus.agents.errors import (
    AgentError,
    AgentLoadError,
    GiveUpError,
    NoModelError,
    NotAHandlerError,
    TurnTimeoutError,
)
from threadbus.agents.loading import load_agent
from threadbus.agents.mention import Content, Mention, Reply
from threadbus.agents.runner import AgentRunner
from threadbus.agents.serving import serve, supervise
from threadbus.agents.thinking import Thinking

__all__ = [
    "Agent",
    "AgentError",
    "AgentLimits",
    "AgentLoadError",
    "AgentRunner",
    "Content",
    "DeadLetterHandler",
    "GiveUpError",
    "Mention",
    "MentionHandler",
    "NoModelError",
    "NotAHandlerError",
    "Reply",
    "Thinking",
    "TurnTimeoutError",
    "from_callable",
    "load_agent",
    "serve",
    "supervise",
]
