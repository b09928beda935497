"""One thread, or one agent, of a run."""

import pytest

from tests.support.runs import revenue_run
from tests.support.story import NUMBERS
from threadbus.replay import SaidStep, Selection, Turn, UnknownFilterError, fold
from threadbus.schemas import MAIN_THREAD, Rejected

LOG = revenue_run().log


def test_everything_is_the_default() -> None:
    """Without a filter the timeline is the same one."""
    timeline = fold(LOG)

    assert Selection().of(timeline) is timeline
    assert all(Selection().takes(item) for item in LOG)
    assert Selection().takes(Rejected(1, "", ""))


def test_one_thread_is_that_thread_in_full() -> None:
    """Its entries are there, and the totals are still those of the whole run."""
    timeline = fold(LOG)
    chosen = Selection(thread=NUMBERS).of(timeline)

    assert list(chosen.threads) == [NUMBERS]
    assert chosen.threads[NUMBERS].entries == timeline.threads[NUMBERS].entries
    assert chosen.totals == timeline.totals


def test_one_agent_is_its_turns_and_what_was_said_to_it() -> None:
    """Other agents' turns are left out, and the timeline itself is not touched."""
    timeline = fold(LOG)
    chosen = Selection(agent="coder").of(timeline)

    entries = [entry for story in chosen.threads.values() for entry in story.entries]
    assert [type(entry) for entry in entries if entry.agent == "coder"] == [Turn, Turn]
    others = [entry for entry in entries if entry.agent != "coder"]
    assert [entry.type for entry in others if isinstance(entry, SaidStep)] == ["proposal.made"]
    assert len(others) == 1
    main = timeline.threads[MAIN_THREAD]
    assert len(main.entries) > len(chosen.threads[MAIN_THREAD].entries)


def test_entries_of_the_log_are_chosen_alike() -> None:
    """By their thread, and by who sent them or is mentioned; what is no event is left out."""
    numbers = [item for item in LOG if Selection(thread=NUMBERS).takes(item)]
    coder = [item for item in LOG if Selection(agent="coder").takes(item)]

    assert {item.event.thread for item in numbers} == {NUMBERS}
    assert all("coder" in (item.event.sender, *item.event.mentions) for item in coder)
    assert not Selection(agent="coder").takes(Rejected(1, "", ""))


@pytest.mark.parametrize("selection", [Selection(thread="no"), Selection(agent="no")])
def test_what_the_run_does_not_have_is_an_error(selection: Selection) -> None:
    """The error names what there is."""
    with pytest.raises(UnknownFilterError, match=r"it has (main|user), "):
        selection.of(fold(LOG))
