"""Which values the types that every text knows take as a default."""

from __future__ import annotations

import re
from typing import Final

from threadbus.agents.teams.york.emfatic.model import Primitive

_BITS: Final = {
    "EByte": 8,
    "EByteObject": 8,
    "EShort": 16,
    "EShortObject": 16,
    "EInt": 32,
    "EIntegerObject": 32,
    "ELong": 64,
    "ELongObject": 64,
}
_NUMBERS: Final = frozenset({"EFloat", "EDouble", "EFloatObject", "EDoubleObject", "EBigDecimal"})
_BOOLEANS: Final = frozenset({"EBoolean", "EBooleanObject"})
_CHARACTERS: Final = frozenset({"EChar", "ECharacterObject"})
_INTEGER: Final = re.compile(r"-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_MAX_DIGITS: Final = 1_000


def wanted_of(target: Primitive, value: str) -> str:
    """Return what a default of this type has to be; empty where *value* is that."""
    name = target.value
    bits = _BITS.get(name)
    if bits is not None or name == "EBigInteger":
        if len(value) > _MAX_DIGITS or not _INTEGER.fullmatch(value):
            return "a whole number"
        most = 2 ** ((bits or 0) - 1) - 1 if bits else 0
        fits = bits is None or -most - 1 <= int(value) <= most
        return "" if fits else f"a whole number from {-most - 1:,} to {most:,}"
    if name in _NUMBERS:
        return "" if len(value) <= _MAX_DIGITS and _NUMBER.fullmatch(value) else "a number"
    if name in _BOOLEANS:
        return "" if value in {"true", "false"} else "true or false"
    if name in _CHARACTERS:
        return "" if len(value) == 1 else "one character"
    return ""
