"""Parts of a run: a thread, an agent, kinds, a stretch, what says a text, and all of these."""

from __future__ import annotations

import pytest

from tests.support.runs import revenue_run
from tests.support.story import MS, NUMBERS, START
from threadbus.replay import (
    LogItem,
    SaidStep,
    Selection,
    Sieve,
    Timeline,
    TimelineFold,
    ToolStep,
    Turn,
    UnknownFilterError,
    fold,
    parse_bound,
)
from threadbus.schemas import MAIN_THREAD, Rejected

LOG = revenue_run().log


def chosen(selection: Selection, log: list[LogItem] | None = None) -> tuple[Timeline, list[int]]:
    """Return the part of the story, and the sequences of the entries of the log in it."""
    sieve, folding = Sieve(selection), TimelineFold()
    taken: list[int] = []
    for item in log if log is not None else LOG:
        is_taken = sieve.takes(item)
        entry = folding.apply(item)
        if is_taken:
            sieve.note(item, entry)
            taken.append(item.seq)
    return sieve.of(folding.timeline), taken


def entries(timeline: Timeline) -> list[object]:
    """Return all that a timeline shows: entries and, instead of a turn, it and its steps."""
    found: list[object] = []
    for story in timeline.threads.values():
        for entry in story.entries:
            found.append(entry)
            if isinstance(entry, Turn):
                found += entry.steps
    return found


def test_everything_is_the_default() -> None:
    """Without a filter the timeline is the same one, and takes what cannot be read, too."""
    timeline = fold(LOG)

    assert Sieve(Selection()).of(timeline) is timeline
    assert chosen(Selection())[1] == [item.seq for item in LOG]
    assert Sieve(Selection()).takes(Rejected(1, "", ""))
    assert Sieve(Selection()).note_for_person(timeline) == ""


def test_one_thread_is_that_thread_in_full() -> None:
    """Its entries are there, and the totals are still those of the whole run."""
    timeline = fold(LOG)
    part, _ = chosen(Selection(thread=NUMBERS))

    assert list(part.threads) == [NUMBERS]
    assert part.threads[NUMBERS].entries == timeline.threads[NUMBERS].entries
    assert part.totals == timeline.totals


def test_one_agent_is_its_turns_and_what_was_said_to_it() -> None:
    """Other agents' turns are left out, and the timeline itself is not touched."""
    timeline = fold(LOG)
    part = Sieve(Selection(agent="coder")).of(timeline)

    shown = [entry for story in part.threads.values() for entry in story.entries]
    assert [type(entry) for entry in shown if entry.agent == "coder"] == [Turn, Turn]
    others = [entry for entry in shown if entry.agent != "coder"]
    assert [entry.type for entry in others if isinstance(entry, SaidStep)] == ["proposal.made"]
    assert len(others) == 1
    main = timeline.threads[MAIN_THREAD]
    assert len(main.entries) > len(part.threads[MAIN_THREAD].entries)


def test_entries_of_the_log_are_chosen_alike() -> None:
    """By their thread, and by who sent them or is mentioned; what is no event is left out."""
    numbers, coder = Sieve(Selection(thread=NUMBERS)), Sieve(Selection(agent="coder"))

    assert {item.event.thread for item in LOG if numbers.takes(item)} == {NUMBERS}
    assert all(
        "coder" in (item.event.sender, *item.event.mentions) for item in LOG if coder.takes(item)
    )
    assert not coder.takes(Rejected(1, "", ""))


@pytest.mark.parametrize("kind", ["tool", "tool.called"])
def test_a_kind_is_a_type_or_a_family(kind: str) -> None:
    """Turns show only the steps of that kind, and those without any are gone."""
    part, taken = chosen(Selection(kinds=(kind,)))

    steps = [entry for entry in entries(part) if not isinstance(entry, Turn)]
    assert steps
    assert {type(step) for step in steps} == {ToolStep}
    expected = [item.seq for item in LOG if item.event.type.startswith(kind)]
    assert taken == expected


def test_several_kinds_are_either() -> None:
    """An event of any of them is in the part."""
    _, taken = chosen(Selection(kinds=("plan", "vote.cast")))

    types = [(item.seq, item.event.type) for item in LOG]
    expected = [seq for seq, name in types if name == "vote.cast" or name.startswith("plan.")]
    assert taken == expected
    assert expected


def test_a_stretch_of_sequences_has_both_its_ends() -> None:
    """From the one to the other, what cannot be read in between included."""
    log: list[LogItem] = [*LOG[:10], Rejected(31, "", "garbage"), *LOG[10:]]
    selection = Selection(start=parse_bound("9", "--from"), end=parse_bound("31", "--to"))
    _, taken = chosen(selection, log)

    assert taken == [9, 12, 15, 18, 21, 24, 27, 30, 31]


def test_a_stretch_of_time_counts_from_the_opening_or_by_the_calendar() -> None:
    """Both ways of saying the same moment give the same part."""
    offset = LOG[12].stored_at - LOG[0].stored_at
    relative = parse_bound(f"+{offset // MS}ms", "--from")
    absolute = parse_bound("2026-03-01T12:00:05.001Z", "--from")

    _, taken = chosen(Selection(start=relative))
    assert taken == [item.seq for item in LOG if item.stored_at - LOG[0].stored_at >= offset]
    assert absolute.at == START + MS
    assert chosen(Selection(start=absolute))[1] == [item.seq for item in LOG]


def test_a_text_is_found_anywhere_in_an_event_whatever_its_capitals() -> None:
    """In messages, results of tools and reasons; a tool call shows when its result says it."""
    part, taken = chosen(Selection(grep="FOOTNOTE"))

    assert taken
    texts = [item for item in LOG if item.seq in taken]
    assert all(b"footnote" in item.body.lower() for item in texts)
    assert entries(part)
    assert chosen(Selection(grep="nobody says this"))[1] == []


def test_filters_combine() -> None:
    """All that is asked for must be true."""
    both, one, other = (
        set(chosen(selection)[1])
        for selection in (
            Selection(agent="coder", kinds=("tool",)),
            Selection(agent="coder"),
            Selection(kinds=("tool",)),
        )
    )
    assert both == one & other
    assert both


def test_a_person_is_told_what_is_shown() -> None:
    """How much of the run it is, or, where it is nothing, where the run ends."""
    timeline = fold(LOG)
    sieve = Sieve(Selection(agent="coder"))
    for item in LOG:
        sieve.takes(item)

    assert sieve.note_for_person(timeline).startswith(f"only agent coder: {sieve.taken} of ")
    none = Sieve(Selection(start=parse_bound("99999", "--from")))
    assert f"sequences up to {timeline.last_seq:,}" in none.note_for_person(timeline)


@pytest.mark.parametrize(
    "selection", [Selection(thread="no"), Selection(agent="no"), Selection(kinds=("no",))]
)
def test_what_the_run_does_not_have_is_an_error(selection: Selection) -> None:
    """The error names what there is."""
    with pytest.raises(UnknownFilterError, match=r"it has (main|user|answer.submitted), "):
        chosen(selection)


def test_a_selection_can_be_typed_again() -> None:
    """As options of the command, for whoever looks at the same part in another form."""
    bounds = parse_bound("9", "--from"), parse_bound("+1s", "--to")
    selection = Selection("main", "coder", ("vote", "plan"), *bounds, "a b")

    assert selection.arguments() == [
        *("--thread", "main", "--agent", "coder", "--kind", "vote", "--kind", "plan"),
        *("--from", "9", "--to", "+1s", "--grep", "a b"),
    ]
    assert Selection().arguments() == []
