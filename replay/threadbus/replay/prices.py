"""What model calls cost, by a table that whoever runs the models writes. None is built in.

    currency = "USD"

    [models."small-1"]
    input = 0.15            # for a million tokens
    output = 0.60
    cached_input = 0.075    # of the input; as input where absent

    [models."large-*"]      # any name with this beginning; the longest pattern that fits counts
    input = 3
    output = 15

The same as JSON does as well. A call of a model without a price is counted, not guessed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final

import msgspec

from threadbus.replay.errors import PriceFileError
from threadbus.schemas import shorten

MAX_PRICE_BYTES: Final = 1_000_000
"""Bytes of a price file."""

MAX_MODELS: Final = 10_000
"""Models in a price file."""

_MILLION: Final = 1_000_000

_Price = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a million tokens of one model cost."""

    input: _Price
    output: _Price
    cached_input: _Price | None = None

    def of(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return what a call costs; cached tokens are a part of the input."""
        cached = min(cached_tokens, input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        total = (input_tokens - cached) * self.input + cached * cached_price
        return (total + output_tokens * self.output) / _MILLION


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price for each model; the name may be a pattern with ``*`` and ``?``."""

    models: Mapping[str, Price]
    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=12)] = "USD"

    def find(self, model: str) -> Price | None:
        """Return the price of *model*: under its name, or else the longest pattern that fits."""
        price = self.models.get(model)
        if price is not None:
            return price
        patterns = [name for name in self.models if "*" in name or "?" in name]
        fitting = [name for name in patterns if fnmatchcase(model, name)]
        return self.models[max(fitting, key=len)] if fitting else None


def load_prices(path: Path) -> Prices:
    """Read a price file, TOML or, where its name ends in ``.json``, JSON.

    Raises:
        PriceFileError: it cannot be read, or is no table of prices; says where it is wrong.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PRICE_BYTES + 1)
    except OSError as error:
        raise PriceFileError(str(path), error.strerror or str(error)) from error
    if len(content) > MAX_PRICE_BYTES:
        raise PriceFileError(str(path), f"over the limit of {MAX_PRICE_BYTES:,} bytes")
    try:
        table: object
        if path.suffix == ".json":
            table = msgspec.json.decode(content)
        else:
            table = tomllib.loads(content.decode("utf-8"))
        prices = msgspec.convert(table, Prices)
    except (ValueError, RecursionError) as error:
        raise PriceFileError(str(path), shorten(str(error), 300)) from error
    if len(prices.models) > MAX_MODELS:
        raise PriceFileError(str(path), f"{len(prices.models):,} models; {MAX_MODELS:,} at most")
    return prices
