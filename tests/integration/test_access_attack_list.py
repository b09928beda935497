"""The list of attacks that anybody can run: none succeeds, and one that would is seen."""

from __future__ import annotations

import asyncio
import json

import pytest

from benchmarks import attacks
from benchmarks.attacks import ATTACKS, Outcome, attack, stage_of


async def test_no_attack_succeeds_with_the_streams_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each is refused, dropped or without effect; the table says which, and counts."""
    async with asyncio.timeout(60):
        found = await attack("apart")
    attacks.show("apart", found)
    shown = capsys.readouterr().out

    assert list(found) == list(ATTACKS)
    assert [name for name, one in found.items() if one.outcome is Outcome.SUCCEEDED] == []
    assert found["have the server speak as another"].outcome is Outcome.REFUSED
    assert found["flood the log"].outcome is Outcome.MUTED
    assert f"{len(ATTACKS)} attacks" in shown
    assert "0 SUCCEEDED" in shown


async def test_an_attack_that_succeeds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server has nothing against it, it counts as a success."""
    monkeypatch.setattr(attacks, "_ANSWER_S", 0.2)
    async with asyncio.timeout(60), stage_of("nkeys") as stage:
        allowed = await stage.publish(stage.own(), json.dumps({}).encode())
        heard = await stage.subscribe("live.>")
        taken = await stage.api_refuses("$KV.AGENTS.mallory")

    assert [one.outcome for one in (allowed, heard, taken)] == [Outcome.SUCCEEDED] * 3


def test_an_unknown_form_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names it and the forms that there are."""
    assert attacks.main(["nkey"]) == 2
    assert "no form 'nkey'; there are nkeys, apart, jwt" in capsys.readouterr().err
