"""Logs of any shape: repeated, shuffled, truncated and altered entries of a run."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tests.support.runs import revenue_run
from threadbus.schemas import AgentName, Event, EventId, Recorded, Rejected, ThreadId

LOG = revenue_run().log
IDS = [item.event.id for item in LOG]
THREADS = sorted({item.event.thread for item in LOG})
AGENTS = sorted({item.event.sender for item in LOG})
ITEMS = st.sampled_from(LOG)


@st.composite
def altered(draw: st.DrawFn) -> Recorded:
    """An event of the run with some of its envelope exchanged for another one's."""
    item = draw(ITEMS)
    changes: dict[str, object] = {}
    if draw(st.booleans()):
        changes["cause"] = draw(st.none() | st.sampled_from(IDS) | st.just(EventId("f" * 32)))
    if draw(st.booleans()):
        changes["thread"] = ThreadId(draw(st.sampled_from(THREADS)))
    if draw(st.booleans()):
        changes["sender"] = AgentName(draw(st.sampled_from(AGENTS)))
    if draw(st.booleans()):
        changes["id"] = draw(st.sampled_from(IDS))
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(AGENTS), max_size=4))
        changes["mentions"] = tuple(AgentName(name) for name in names)
    if draw(st.booleans()):
        changes["at"] = draw(st.integers(0, 2**63 - 1))
    event: Event = msgspec.structs.replace(item.event, **changes)
    stored_at = draw(st.sampled_from([item.stored_at, 0, 1, 2**63 - 1]))
    return Recorded(draw(st.integers(0, 2**63)), event, stored_at)


REJECTED = st.builds(Rejected, st.integers(0, 500), st.text(max_size=20), st.text(max_size=20))
LOGS = st.lists(ITEMS | altered() | REJECTED, max_size=60)
