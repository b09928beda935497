"""An agent that puts what it is asked to its model, with the files as text."""

from threadbus.agents import Agent, Mention
from threadbus.agents.model import ChatMessage

agent = Agent("answerer", description="Answers questions, some with a file.")


@agent.on_mention
async def answer(mention: Mention) -> str:
    """Ask the model once."""
    files = [f"{file.name}:\n{file.content.decode()}" for file in await mention.files()]
    asked = ChatMessage.user("\n\n".join([mention.text, *files]))
    completion = await mention.thinking.complete([ChatMessage.system("Answer briefly."), asked])
    return completion.text
