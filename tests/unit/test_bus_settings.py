"""Settings: one table of flags, variables and defaults, and clear words for what is wrong."""

from dataclasses import fields
from datetime import timedelta

import pytest

from threadbus.bus import SETTINGS, BusSettings, InvalidSettingError


def test_every_setting_is_in_the_table() -> None:
    """Each field has its flag, its variable and its help, once."""
    assert {info.attribute for info in SETTINGS} == {one.name for one in fields(BusSettings)}
    assert (
        len({info.env for info in SETTINGS})
        == len({info.flag for info in SETTINGS})
        == len(SETTINGS)
    )
    assert all(info.flag.startswith("--") and info.help.endswith(".") for info in SETTINGS)
    assert {info.env for info in SETTINGS} >= {"BUS_URL", "BUS_AS", "BUS_ACK_WAIT"}


def test_variables_and_above_them_what_was_typed() -> None:
    """A typed value goes before a variable, a variable before the default; empty is not given."""
    environ = {"BUS_URL": "nats://a", "BUS_AS": "web", "BUS_ACK_WAIT": "2.5", "BUS_NKEY": ""}
    settings = BusSettings.from_env(environ, url="nats://b", name=None, pending_max="7")

    assert (settings.url, settings.name, settings.pending_max) == ("nats://b", "web", 7)
    assert settings.ack_wait == timedelta(seconds=2.5)
    assert settings.nkey == BusSettings().nkey
    assert BusSettings.from_env({}) == BusSettings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BUS_AS", "Not A Name"),
        ("BUS_ACK_WAIT", "soon"),
        ("BUS_ACK_WAIT", "0"),
        ("BUS_ACK_WAIT", "-1"),
        ("BUS_ACK_WAIT", "nan"),
        ("BUS_ACK_WAIT", "inf"),
        ("BUS_ACK_WAIT", "1e99"),
        ("BUS_PENDING_MAX", "0"),
        ("BUS_PENDING_MAX", "1.5"),
        ("BUS_PART_MAX_BYTES", "64K"),
        ("BUS_APPEND_TIMEOUT", "101"),
    ],
)
def test_a_value_that_cannot_be_taken_is_named(variable: str, value: str) -> None:
    """The error says which setting, which value, and what is expected."""
    with pytest.raises(InvalidSettingError) as refusal:
        BusSettings.from_env({variable: value})

    assert refusal.value.expected
    assert value.rstrip("0") in str(refusal.value) or value in str(refusal.value)


def test_what_was_typed_is_named_by_its_flag() -> None:
    """A wrong value on the command line is named by the flag that it came with."""
    with pytest.raises(InvalidSettingError, match="--ack-wait"):
        BusSettings.from_env({}, ack_wait="soon")


def test_settings_are_shown_as_they_are_typed() -> None:
    """What `shown` gives can be typed again, and names every setting."""
    settings = BusSettings(ack_wait=timedelta(milliseconds=1500), replicas=3)
    shown = settings.shown()

    assert shown["ack_wait"] == "1.5"
    assert BusSettings.from_env({}, **shown) == settings
