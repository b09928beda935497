"""Settings of the detectors: defaults, a table of a TOML file, and single overrides."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec

from threadbus.replay.errors import FindingSettingError
from threadbus.replay.findings.detector import Detector, Setting, Value
from threadbus.replay.findings.registry import ALL
from threadbus.schemas import nearest_names

MAX_FILE_BYTES: Final = 1 << 20
"""Bytes of a file with settings."""

MAX_WORDS: Final = 1_000
"""Entries of a setting that is a list."""

GENERAL: Final = (
    Setting("most", 50, "findings that are kept of each detector; how many more is said", 1, 10**6),
    Setting(
        "polling",
        (
            "wait*",
            "sleep*",
            "poll*",
            "get_status",
            "check_status*",
            "*_status",
            "status",
            "list_agents",
            "heartbeat*",
        ),
        "tools that may be called again and again (* stands for anything)",
    ),
    Setting("off", (), "detectors that do not look"),
)
"""Settings that belong to no detector."""


class FindingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which detectors look, and by which values their rules go."""

    most: int = cast("int", GENERAL[0].default)
    """Findings that are kept of each detector."""
    polling: tuple[str, ...] = cast("tuple[str, ...]", GENERAL[1].default)
    """Patterns of tools that may be called again and again."""
    off: tuple[str, ...] = ()
    """Ids of detectors that do not look."""
    values: dict[str, dict[str, Value]] = {}
    """Detector's id → setting → value, where it is not the default."""

    def of(self, detector: type[Detector]) -> dict[str, Value]:
        """Return all settings of *detector*."""
        defaults = {setting.name: setting.default for setting in detector.settings}
        return {**defaults, **self.values.get(detector.id, {})}


def load_settings(
    file: Path | None = None,
    overrides: Sequence[str] = (),
    detectors: Sequence[type[Detector]] = ALL,
) -> FindingSettings:
    """Read the settings.

    Args:
        file: a TOML file; its table ``[findings]`` counts, with a table in it for each detector
            (``[findings.R1]``).
        overrides: ``R1.times=3``, ``off=S1,S2``; they count more than the file.
        detectors: those that there are.

    Raises:
        FindingSettingError: the file cannot be read, or a setting is unknown or out of bounds.
    """
    reader = _Reader(detectors)
    if file is not None:
        reader.read_file(file)
    for override in overrides:
        reader.read_override(override)
    return reader.settings()


class _Reader:
    def __init__(self, detectors: Sequence[type[Detector]]) -> None:
        self._detectors = {detector.id: detector for detector in detectors}
        self._general: dict[str, Value] = {}
        self._values: dict[str, dict[str, Value]] = {}

    def settings(self) -> FindingSettings:
        off = cast("tuple[str, ...]", self._general.get("off", ()))
        return msgspec.convert(
            {
                **self._general,
                "off": tuple(self._detector("off", one) for one in off),
                "values": self._values,
            },
            FindingSettings,
        )

    def read_file(self, file: Path) -> None:
        where = str(file)
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                raise FindingSettingError(where, "", f"a file has at most {MAX_FILE_BYTES:,} bytes")
            with file.open("rb") as stream:
                document: dict[str, object] = tomllib.load(stream)
        except (OSError, UnicodeDecodeError) as error:
            raise FindingSettingError(where, "", f"it cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise FindingSettingError(where, "", f"it is not TOML: {error}") from error
        table = document.get("findings")
        if not isinstance(table, dict):
            raise FindingSettingError(where, "", "it has no table [findings]")
        for key, value in cast("dict[str, object]", table).items():
            if isinstance(value, dict):
                for name, one in cast("dict[str, object]", value).items():
                    self._set(f"{key}.{name}", one)
            else:
                self._set(key, value)

    def read_override(self, override: str) -> None:
        key, equals, text = override.partition("=")
        if not equals:
            raise FindingSettingError(override, "", "write it as KEY=VALUE, as R1.times=3")
        self._set(key.strip(), text.strip())

    def _set(self, key: str, value: object) -> None:
        owner, dot, name = key.partition(".")
        if not dot:
            setting = _named(GENERAL, key, key, value)
            self._general[key] = _converted(setting, key, value)
            return
        detector = self._detectors[self._detector(key, owner)]
        setting = _named(detector.settings, name, key, value)
        values = self._values.setdefault(detector.id, {})
        values[setting.name] = _converted(setting, key, value)

    def _detector(self, key: str, wanted: str) -> str:
        found = wanted.upper()
        if found not in self._detectors:
            near = ", ".join(nearest_names(found, list(self._detectors))) or "R1, U1, T1 …"
            raise FindingSettingError(key, wanted, f"no detector has this id; there are {near}")
        return found


def _named(settings: Sequence[Setting], name: str, key: str, value: object) -> Setting:
    for setting in settings:
        if setting.name == name:
            return setting
    known = ", ".join(setting.name for setting in settings) or "none"
    raise FindingSettingError(key, _shown(value), f"there is no such setting; there are: {known}")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _converted(setting: Setting, key: str, value: object) -> Value:
    default = setting.default
    if isinstance(default, tuple):
        return _words(key, value)
    if isinstance(default, bool):
        return _switch(key, value)
    number = _number(value, whole=isinstance(default, int))
    if number is None:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise FindingSettingError(key, _shown(value), f"it must be {kind}")
    if not setting.least <= number <= setting.most:
        bounds = f"it must be {setting.least:,g} to {setting.most:,g}"
        raise FindingSettingError(key, _shown(value), bounds)
    return number


def _number(value: object, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
        if not whole:
            return None if math.isnan(number) else number
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None


def _switch(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    raise FindingSettingError(key, _shown(value), "it must be true or false")


_SWITCHES: Final[Mapping[str, bool]] = {
    "true": True,
    "on": True,
    "yes": True,
    "false": False,
    "off": False,
    "no": False,
}


def _words(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        words = [word.strip() for word in value.split(",") if word.strip()]
    else:
        given = cast("list[object]", value) if isinstance(value, list) else [value]
        words = [one for one in given if isinstance(one, str)]
        if len(words) < len(given):
            raise FindingSettingError(key, _shown(given), "it must be a list of words")
    if len(words) > MAX_WORDS:
        raise FindingSettingError(key, f"{len(words)} words", f"it has at most {MAX_WORDS:,}")
    return tuple(words)
