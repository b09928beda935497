"""Whether a log is sound: what the guard, the subjects and the ids promise, held against it.

:class:`Verifier` takes entry by entry; :func:`check_artifacts` fetches what the events refer to.
"""

from threadbus.replay.verifying.artifacts import check_artifacts
from threadbus.replay.verifying.checks import Verifier
from threadbus.replay.verifying.problem import Problem, ProblemKind, Report

__all__ = ["Problem", "ProblemKind", "Report", "Verifier", "check_artifacts"]
