"""Three agents that need one another; the fault tests kill them."""

from threadbus.agents import Agent, AgentLimits, Mention

_MANY = AgentLimits(concurrency=16, max_attempts=50)

front = Agent("front", limits=_MANY)
middle = Agent("middle", limits=_MANY)
back = Agent("back", limits=_MANY)


@front.on_mention
async def lead(mention: Mention) -> str:
    """Ask one agent, give work to another, and put the two together."""
    asked = await mention.ask("middle", f"ask {mention.text}")
    done = await mention.assign("back", f"do {mention.text}")
    return f"{asked} + {done.text}"


@middle.on_mention
async def answer(mention: Mention) -> str:
    """Answer at once."""
    return f"asked({mention.text})"


@back.on_mention
async def work(mention: Mention) -> str:
    """Do the work, with a word on the way."""
    await mention.progress("half way", 0.5)
    return f"done({mention.text})"
