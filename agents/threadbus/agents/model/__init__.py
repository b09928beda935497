"""The model port: any OpenAI-compatible server, and tools for the model to call.

async with Model(ModelSettings.from_env(), agent="planner") as model:
    completion = await model.complete([ChatMessage.user("What is …?")])

:mod:`threadbus.agents.model.playbook` is a server to use without a key.
"""

from threadbus.agents.model.budget import TokenBudget
from threadbus.agents.model.call import OnDelta, OnRestart
from threadbus.agents.model.client import Model, OnCall
from threadbus.agents.model.labels import PLAYBOOK
from threadbus.agents.model.messages import (
    ChatMessage,
    Completion,
    JsonObject,
    Role,
    ToolCall,
    ToolSpec,
    Usage,
)
from threadbus.agents.model.settings import ModelSettings, Secret
from threadbus.agents.model.tools import (
    OnToolCalled,
    OnToolReturned,
    RunTool,
    Tool,
    ToolRun,
    make_tool,
    run_tools,
)

__all__ = [
    "PLAYBOOK",
    "ChatMessage",
    "Completion",
    "JsonObject",
    "Model",
    "ModelSettings",
    "OnCall",
    "OnDelta",
    "OnRestart",
    "OnToolCalled",
    "OnToolReturned",
    "Role",
    "RunTool",
    "Secret",
    "TokenBudget",
    "Tool",
    "ToolCall",
    "ToolRun",
    "ToolSpec",
    "Usage",
    "make_tool",
    "run_tools",
]
