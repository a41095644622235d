"""The limit of work for the patterns of one request, counted in steps, so that it is the same on every machine."""

from __future__ import annotations

from saltlite.errors import UsageError

STEPS_MAX = 30_000_000
"""Steps of one request at 30 to 60 ns: one to two seconds on a machine of 2024."""

CREDIT_MAX = 5_000_000
"""Worst-case steps of Python's engine in one request for patterns that could backtrack. Most texts need far fewer, so
they are counted separately. When they are used up, the automaton takes over, and the request goes on."""

TOO_LONG = "the target takes too long to look up: make it simpler, or divide it"


class BudgetError(UsageError):
    """A request has used up its budget."""


class Budget:
    """The remaining steps of one request."""

    __slots__ = ("credit", "left")

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left: float = steps
        self.credit: float = CREDIT_MAX

    def spend(self, steps: float) -> None:
        """Charge `steps`. Raises BudgetError if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError(TOO_LONG)
