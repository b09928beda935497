"""Injected faults are found on a real server, and clean runs are left alone."""

from __future__ import annotations

from benchmarks.faults.catalogue import clean, faulty
from benchmarks.faults.report import Result, tables
from benchmarks.faults.running import run
from threadbus.replay import FindingKind


async def test_injected_faults_are_found_and_clean_runs_are_not_accused(bus_url: str) -> None:
    """Of the scenarios that take no time, nearly every fault is found, with agent and step."""
    faults, fine = faulty(quick=True), clean(quick=True)
    outcomes = await run(bus_url, [*faults, *fine])
    result = Result(outcomes[: len(faults)], outcomes[len(faults) :])
    text = tables(result)

    assert len(faults) >= 40
    assert len(fine) >= 35
    assert result.is_good, text
    found = [one for one in result.faults if one.is_found]
    assert sum(one.has_agent for one in found) >= 0.95 * len(found), text
    assert sum(one.has_step for one in found) >= 0.95 * len(found), text
    assert sum(one.rank == 1 for one in found) >= 0.8 * len(found), text
    assert sum(one.counted(FindingKind.SYMPTOM).total() for one in result.clean) <= 2, text


async def test_a_killed_process_is_found(bus_url: str) -> None:
    """A real agent that is killed in the middle of its work is found, with its last sign."""
    scenarios = [one for one in faulty() if one.name == "process killed"]
    (outcome,) = await run(bus_url, scenarios)

    assert outcome.is_sure
    assert outcome.has_agent
    assert outcome.has_step
    assert outcome.rank == 1


def test_scenarios_have_names_of_their_own_and_cover_the_detectors() -> None:
    """A name tells a scenario apart; most detectors have a fault that they should find."""
    names = [one.name for one in (*faulty(), *clean())]
    wanted = frozenset[str]().union(*(one.detectors for one in faulty()))

    assert len(set(names)) == len(names)
    assert len(faulty()) >= 40
    assert len(clean()) >= 40
    assert {"R1", "R2", "R3", "R4", "RA", "PT", "U1", "U2", "LB", "U3", "U4"} <= wanted
    assert {"I1", "I2", "C1", "C2", "T1", "T2", "V2", "Q1", "Q2", "O1", "O2", "O3"} <= wanted
    assert {"P1", "P2", "P3", "E1", "E2", "E3", "B2", "F1", "F2", "F3", "F4"} <= wanted
