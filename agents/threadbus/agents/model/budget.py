"""How many model tokens a super-task may use."""

from __future__ import annotations

from threadbus.agents.errors import ModelBudgetExceededError


class TokenBudget:
    """Counts the tokens of one super-task, input and output together.

    A call is refused once the limit is reached, never cut short: the last call may go over it by
    what it uses, and calls that run at the same time by what each of them uses.
    """

    def __init__(self, limit: int | None = None, used: int = 0) -> None:
        """Start to count.

        Args:
            limit: tokens that the super-task may use, or ``None`` for no limit.
            used: tokens that the log already has for the super-task.
        """
        self._limit = limit
        self._used = used

    @property
    def limit(self) -> int | None:
        """Tokens that may be used, or ``None`` for no limit."""
        return self._limit

    @property
    def used(self) -> int:
        """Tokens used so far."""
        return self._used

    @property
    def remaining(self) -> int | None:
        """Tokens left, 0 or more, or ``None`` for no limit."""
        return None if self._limit is None else max(0, self._limit - self._used)

    def check(self) -> None:
        """Make sure that there is something left.

        Raises:
            ModelBudgetExceededError: there is not.
        """
        if self._limit is not None and self._used >= self._limit:
            raise ModelBudgetExceededError(self._used, self._limit)

    def add(self, tokens: int) -> None:
        """Count *tokens* that a call has used."""
        self._used += tokens

    def __repr__(self) -> str:
        return f"TokenBudget(limit={self._limit}, used={self._used})"
