"""Settings of the detectors: a TOML file, overrides, and what cannot be used."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from threadbus.replay import FindingSettingError, ReplayError
from threadbus.replay.findings import ALL, FindingSettings, load_settings

R1 = next(detector for detector in ALL if detector.id == "R1")
U4 = next(detector for detector in ALL if detector.id == "U4")

FILE = """
[findings]
most = 7
polling = ["peek*"]
off = ["s1"]

[findings.R1]
times = 3

[findings.u4]
quiet_s = 12.5
"""


def test_without_a_file_the_defaults_hold() -> None:
    """Each detector has all its settings."""
    assert load_settings() == FindingSettings()
    assert FindingSettings().of(R1) == {"times": 2, "min_chars": 12}


def test_a_file_and_overrides_are_read(tmp_path: Path) -> None:
    """What is given by itself counts more; ids may be written small."""
    file = tmp_path / "findings.toml"
    file.write_text(FILE, encoding="utf-8")
    settings = load_settings(file, ["r1.times=5", "off=S1, S2", "most = 9"])

    assert settings.of(R1) == {"times": 5, "min_chars": 12}
    assert settings.of(U4) == {"quiet_s": 12.5}
    assert (settings.most, settings.polling, settings.off) == (9, ("peek*",), ("S1", "S2"))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("R1.times", ["KEY=VALUE"]),
        ("R1.tims=3", ["R1.tims=3", "times, min_chars"]),
        ("R1.times=few", ["R1.times=few", "whole number"]),
        ("R1.times=2.5", ["whole number"]),
        ("R1.times=1", ["2 to"]),
        ("R1.times=inf", ["whole number"]),
        ("R2.likeness=nan", ["must be a number"]),
        ("R2.likeness=7", ["0.1 to 1"]),
        ("V1.always=maybe", ["true or false"]),
        ("XX.times=3", ["XX", "no detector"]),
        ("off=R1,XX", ["XX", "no detector"]),
        ("mots=3", ["mots=3", "most"]),
    ],
)
def test_an_override_that_cannot_be_used_says_why(override: str, words: list[str]) -> None:
    """The value, the limit and what there is."""
    with pytest.raises(FindingSettingError) as caught:
        load_settings(overrides=[override])

    message = str(caught.value)
    assert [word for word in (*words, "docs/findings.md") if word not in message] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[findings", "not TOML"),
        ("[other]\nx = 1", "no table [findings]"),
        ("[findings]\npolling = [1]", "list of words"),
        ("[findings.R1]\ntimes = true", "whole number"),
        ("[findings.R1]\ntimes = [1]", "whole number"),
        ("x = '" + "y" * (1 << 20) + "'", "at most"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, word: str) -> None:
    """So does one that is not there."""
    file = tmp_path / "findings.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FindingSettingError) as caught:
        load_settings(file)
    with pytest.raises(ReplayError) as absent:
        load_settings(tmp_path / "nothing.toml")

    assert word in str(caught.value)
    assert "nothing.toml" in str(absent.value)


def test_the_error_survives_a_pickle() -> None:
    """It keeps its attributes and its message."""
    error = FindingSettingError("R1.times", "few", "it must be a whole number")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - just made here

    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
