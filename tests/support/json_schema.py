"""A typed face for jsonschema, which ships no types."""

from __future__ import annotations

from typing import Protocol, cast

from jsonschema import (  # no stubs are installed
    Draft7Validator,
    Draft202012Validator,
)
from jsonschema.exceptions import (  # as above
    ValidationError as NotValidError,
)

__all__ = ["NotValidError", "Validator", "draft_7", "draft_2020_12"]


class Validator(Protocol):
    """Something that holds a JSON value against a schema."""

    def validate(self, instance: object) -> None:
        """Raise NotValidError when *instance* does not satisfy the schema."""


def draft_2020_12(schema: dict[str, object]) -> Validator:
    """Make a validator after checking that *schema* itself is valid."""
    Draft202012Validator.check_schema(schema)
    return cast("Validator", Draft202012Validator(schema))


def draft_7(schema: dict[str, object]) -> Validator:
    """Make a validator after checking that *schema* itself is valid."""
    Draft7Validator.check_schema(schema)
    return cast("Validator", Draft7Validator(schema))
