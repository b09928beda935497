"""Forks: a new super-task that begins with a copy of another one and then goes its own way.

:func:`plan_fork` says what would be written; :func:`write_fork` writes it.
"""

from threadbus.replay.forking.plan import ForkPlan, plan_fork
from threadbus.replay.forking.writing import Written, write_fork

__all__ = ["ForkPlan", "Written", "plan_fork", "write_fork"]
