"""Agents as services on the bus, and the model port they think with.

``@agent.on_mention async def handle(mention) -> reply``, then ``bus run module:agent``.
"""

from threadbus.agents.adapters import EndpointError, ProgramError, from_command, from_http
from threadbus.agents.agent import (
    Agent,
    AgentLimits,
    DeadLetterHandler,
    MentionHandler,
    from_callable,
)
from threadbus.agents.by_hand import decline, reply_to
from threadbus.agents.context import current_traceparent
from threadbus.agents.conversing import Floor, open_team
from threadbus.agents.discovery import (
    Bm25Ranker,
    DiscoveryError,
    EmbeddingRanker,
    FoundAgent,
    FusedRanker,
    LocalEmbedder,
    Match,
    OpenAIEmbedder,
    Ranked,
    Ranker,
    find_agents,
)
from threadbus.agents.errors import (
    AgentError,
    AgentLoadError,
    BadReplyError,
    GiveUpError,
    HandlerExitError,
    InvalidSettingError,
    NoModelError,
    NotAHandlerError,
    TaskDeadlineError,
    TaskEndedError,
    TurnOverError,
    TurnTimeoutError,
)
from threadbus.agents.heartbeat import Heartbeat
from threadbus.agents.loading import load_agent
from threadbus.agents.mention import Content, Mention, Reply
from threadbus.agents.runner import AgentRunner
from threadbus.agents.serving import serve, stopping_on_signals, supervise
from threadbus.agents.teaming import MAX_DISCOVERY_ROUNDS, TeamFormingError, form_team
from threadbus.agents.thinking import Thinking

__all__ = [
    "MAX_DISCOVERY_ROUNDS",
    "Agent",
    "AgentError",
    "AgentLimits",
    "AgentLoadError",
    "AgentRunner",
    "BadReplyError",
    "Bm25Ranker",
    "Content",
    "DeadLetterHandler",
    "DiscoveryError",
    "EmbeddingRanker",
    "EndpointError",
    "Floor",
    "FoundAgent",
    "FusedRanker",
    "GiveUpError",
    "HandlerExitError",
    "Heartbeat",
    "InvalidSettingError",
    "LocalEmbedder",
    "Match",
    "Mention",
    "MentionHandler",
    "NoModelError",
    "NotAHandlerError",
    "OpenAIEmbedder",
    "ProgramError",
    "Ranked",
    "Ranker",
    "Reply",
    "TaskDeadlineError",
    "TaskEndedError",
    "TeamFormingError",
    "Thinking",
    "TurnOverError",
    "TurnTimeoutError",
    "current_traceparent",
    "decline",
    "find_agents",
    "form_team",
    "from_callable",
    "from_command",
    "from_http",
    "load_agent",
    "open_team",
    "reply_to",
    "serve",
    "stopping_on_signals",
    "supervise",
]
