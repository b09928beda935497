"""The rules of one super-task: how many must agree, how long is waited, what is tried how often.

They come from ``BUS_ANEMOI_…`` of the planner's process and from the labels ``anemoi.…`` of the
super-task, which win. The planner puts them into the thread, so that everybody goes by the same.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from threadbus.agents.errors import InvalidSettingError

PREFIX: Final = "BUS_ANEMOI_"
LABEL_PREFIX: Final = "anemoi."

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Times = Annotated[int, msgspec.Meta(ge=0, le=100)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
SecondsOrNone = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Characters = Annotated[int, msgspec.Meta(ge=200, le=200_000)]


class WithoutConsensus(StrEnum):
    """What becomes of the last proposal when it does not get its quorum."""

    SUBMIT = "submit"
    """It is submitted, with the dissent on record."""
    GIVE_UP = "give-up"
    """The super-task fails, with the dissent as its reason."""


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What binds a team; enforced by the planner's and the answer-finding agent's code."""

    quorum: Share = 0.6
    """Share of the voters who must approve; rounded up."""
    vote_seconds: Seconds = 300
    """How long a vote is open. Who is silent does not approve."""
    max_rounds: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    """Votes at most; after a failed one the plan is revised."""
    without_consensus: WithoutConsensus = WithoutConsensus.SUBMIT
    """What happens after the last failed vote."""
    max_revisions: Times = 3
    """How often the plan is revised for results that are not accepted; then they are left out."""
    review_seconds: SecondsOrNone = 120
    """How long the participants may look at the first plan before work begins; 0: not at all."""
    work_seconds: Seconds = 600
    """How long an assignment may show no progress before its worker is asked and passed over."""
    longest_work_seconds: Seconds = 3600
    """How long an assignment may take, whatever its progress."""
    summary_chars: Characters = 4_000
    """Characters of the summary of what a model has seen before."""
    recent_chars: Characters = 24_000
    """Characters of what is new to a model in one turn."""

    def approvals_needed(self, voters: int) -> int:
        """Return the quorum of a vote with so many voters."""
        # 0.6 of 5 is 3.0000000000000004 in some orders of operation.
        return max(1, math.ceil(self.quorum * voters - 1e-9))


def rules_for(labels: Mapping[str, str], environ: Mapping[str, str] | None = None) -> Rules:
    """Return the rules of a super-task.

    Args:
        labels: of the super-task; ``anemoi.max_rounds`` sets *max_rounds*.
        environ: of the process; ``BUS_ANEMOI_MAX_ROUNDS`` sets it where no label does.

    Raises:
        InvalidSettingError: a value does not fit, or there is no such rule.
    """
    found: dict[str, str] = {}
    origin: dict[str, str] = {}
    for prefix, source in ((PREFIX, os.environ if environ is None else environ), ("", labels)):
        for name, text in source.items():
            field = _field(name, prefix)
            if field is None or not text.strip():
                continue
            if field not in Rules.__struct_fields__:
                raise InvalidSettingError(name, text, f"there are {_fields()}")
            found[field], origin[field] = text.strip(), name
    for field, text in found.items():
        try:
            msgspec.convert({field: text}, Rules, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidSettingError(origin[field], text, str(error)) from error
    return msgspec.convert(found, Rules, strict=False)


def _field(name: str, prefix: str) -> str | None:
    if prefix:
        return name.removeprefix(prefix).lower() if name.startswith(prefix) else None
    return name.removeprefix(LABEL_PREFIX) if name.startswith(LABEL_PREFIX) else None


def _fields() -> str:
    return ", ".join(Rules.__struct_fields__)
