"""The benchmark of contexts counts both ways over one run."""

from benchmarks.context import count
from tests.support.anemoi_log import TeamLog
from threadbus.schemas import ContextUsed, ModelCalled, PlanStep, new_event_id


def test_what_was_shown_is_replaced_by_the_whole_thread() -> None:
    """A call with 100 tokens of which 40 were context costs 60 and all that was said so far."""
    log = TeamLog()
    said = sum(len("- planner says: How much?") for _ in range(1))
    turn = new_event_id()
    log.add("web", ContextUsed(up_to_seq=1, tokens=40), cause=turn)
    call = ModelCalled(model="m", started_at=0, duration_ns=1, input_tokens=100)
    log.add("web", call, cause=turn)
    log.plan(PlanStep("A", "web"))
    log.add("web", call, cause=turn)
    tokens = count([entry.event for entry in log.entries])

    plan = len("- planner proposes a plan:\n1. A (web)")
    first, second = -(-said // 4), -(-(said + plan) // 4)
    assert (tokens.calls, tokens.events, tokens.sent) == (2, 2, 200)
    assert tokens.resent == 60 + first + 60 + second
