"""Replying for an agent that no runner runs: a gateway, or a person, has the mention in hand.

What is appended is what :class:`AgentRunner` would append, under the same derived ids: said twice
it stands once, and whoever waits for the reply of an agent finds it.
"""

from __future__ import annotations

from threadbus.agents.giving_up import GivingUp
from threadbus.agents.journal import Journal
from threadbus.agents.mention import Reply
from threadbus.agents.replying import Replies
from threadbus.bus import Appended, Bus
from threadbus.schemas import ErrorInfo, Recorded


async def reply_to(bus: Bus, mention: Recorded, reply: Reply) -> Appended:
    """Append *reply* as what the mention asks for: an answer, a result, an input or a message.

    Args:
        bus: speaks under the name of the agent that was mentioned.
        mention: what mentions it.
        reply: text, parts, or the data of an event.

    Returns:
        Where the reply is; ``duplicate`` where the agent had replied before, and that one stands.

    Raises:
        BadReplyError: it is no reply.
        AppendError, SchemaError: it was refused.

    Cancellation: the reply may or may not stand; say it again.
    """
    journal = Journal(bus, mention, bus.name)
    await journal.load()
    reply_id = journal.id_of("reply")
    replies = Replies(bus, mention.event, journal)
    before = journal.find(reply_id)
    if before is not None:
        await replies.complete()
        return before
    await replies.append(reply)
    said = journal.find(reply_id)
    if said is None:
        return Appended(mention.seq, mention.event, duplicate=True)
    return Appended(said.seq, said.event)


async def decline(bus: Bus, mention: Recorded, error: ErrorInfo) -> None:
    """Say that nothing will come of a mention: whoever asked is told, and the waiting ends.

    A super-task whose question was put to this agent alone ends with it.

    Raises:
        AppendError, SchemaError: it was refused.

    Cancellation: it may or may not be said; say it again.
    """
    journal = Journal(bus, mention, bus.name)
    await journal.load()
    giving_up = GivingUp(bus, mention.event, journal)
    await giving_up.tell(error, 1)
    await giving_up.end_what_rests(error)
