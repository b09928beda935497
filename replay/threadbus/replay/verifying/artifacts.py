"""The contents that events refer to: fetched, and held against their hashes and sizes."""

from __future__ import annotations

from threadbus.bus import (
    ArtifactCorruptError,
    ArtifactNotFoundError,
    ArtifactTooLargeError,
    Bus,
)
from threadbus.replay.text import first_line
from threadbus.replay.verifying.checks import Verifier
from threadbus.replay.verifying.problem import Problem, ProblemKind


async def check_artifacts(bus: Bus, verifier: Verifier) -> None:
    """Fetch what the events refer to, one content after the other, and report what is not right.

    Raises:
        ReadError: the server refused or did not answer.

    Cancellation: safe.
    """
    report = verifier.report
    for digest, (part, seq) in verifier.artifacts.items():
        kind, problem = ProblemKind.VIOLATION, ""
        try:
            content = await bus.artifacts.get(part)
        except ArtifactNotFoundError:
            problem = "is not on the server"
        except ArtifactCorruptError as error:
            problem = f"is not what its hash says: {error}"
        except ArtifactTooLargeError as error:
            kind, problem = ProblemKind.NOTE, f"was not fetched: {error}"
            report.artifacts_unchecked += 1
        else:
            report.artifacts += 1
            if len(content) != part.size:
                problem = f"has {len(content):,} bytes, the event says {part.size:,}"
        if problem:
            name = first_line(part.name, 60)
            what = f"artifact {digest[:12]}{f' ({name})' if name else ''} {problem}"
            report.add(Problem(kind=kind, check="artifact", text=what, seq=seq))
