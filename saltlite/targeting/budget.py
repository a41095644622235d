"""How much work one request may cost whoever evaluates its patterns: a count of steps, so the same on every machine."""

from __future__ import annotations

from saltlite.errors import UsageError

STEPS_MAX = 30_000_000
"""Steps of one request, 30 to 60 ns each: one to two seconds on a machine of 2024."""

CREDIT_MAX = 5_000_000
"""Steps that Python's own engine may at worst take in one request for patterns that could backtrack. It mostly takes a
small part of that, so this is counted apart; when it is used up, the automaton takes over, and nothing is refused."""

TOO_LONG = "the target takes too long to look up: make it simpler, or divide it"


class BudgetError(UsageError):
    """A request has used up its budget."""


class Budget:
    """What is left of it. One object a request."""

    __slots__ = ("credit", "left")

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left: float = steps
        self.credit: float = CREDIT_MAX

    def spend(self, steps: float) -> None:
        """Raises BudgetError when less is left than this costs."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError(TOO_LONG)
