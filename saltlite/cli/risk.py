"""Functions whose module calls them a risk are run when a person typed the number of minions, or a script said so."""

from __future__ import annotations

from saltlite.errors import RefusedError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console


def accepted_risks(text: str) -> tuple[str, ...]:
    """The names in the value of `--accept-risk`, which are parted by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def require_consent(described: Mapping[str, Any], count: int, accepted: Sequence[str], console: Console) -> None:
    """Return when each risk of the described functions was accepted, by option or at the terminal.

    `described` is the master's answer to `describe`, `count` the number of targeted minions. Raises RefusedError.
    """
    risky = {fun: risks for fun, known in described["functions"].items() if (risks := _open(known["risk"], accepted))}
    if not risky:
        return
    minions = f"{count} minion{'' if count == 1 else 's'}"
    what = "; ".join(f"{fun} carries the risk {' and '.join(risks)}" for fun, risks in risky.items())
    if not console.can_ask():
        names = ",".join(dict.fromkeys([*accepted, *(risk for risks in risky.values() for risk in risks)]))
        raise RefusedError(f"{what}; nothing was published. To run it on {minions} add --accept-risk={names}")
    if console.answer(f"{what}, on {minions}; type {count} to go on:") != str(count):
        raise RefusedError(f"that was not {count}; nothing was published")


def _open(risk: str, accepted: Sequence[str]) -> list[str]:
    """The risks of one function that nobody accepted; several are parted by commas."""
    return [one for one in risk.split(",") if one and one not in accepted]
