"""Functions whose module calls them a risk are run when a person typed the number of targets, or a script said so."""

from __future__ import annotations

from saltlite.cli.targets import noun, targets_text
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

    `described` is the master's answer to `describe`, `count` the number of targets. A risk that only some of the
    targets declare is asked about too, for a fleet may have several providers of a function; it is told as theirs,
    with a name, so that one minion that says what is not so is seen at once. Raises RefusedError.
    """
    rows = [(fun, row) for fun, known in described["functions"].items() for row in known["risks"]]
    risky = [(fun, row) for fun, row in rows if row["risk"] not in accepted]
    if not risky:
        return
    amount, kind = _amount(described, count), kind_of(described)
    what = "; ".join(_told(fun, row, kind) for fun, row in risky)
    if not console.can_ask():
        names = ",".join(dict.fromkeys([*accepted, *(row["risk"] for _fun, row in risky)]))
        doubted = dict.fromkeys(row["one"] for _fun, row in risky if row["minions"] == 1 < row["of"])
        instead = f", or leave {' and '.join(doubted)} out of the target" if doubted else ""
        raise RefusedError(f"{what}; nothing was published. To run it on {amount} add --accept-risk={names}{instead}")
    if console.answer(f"{what}, on {amount}; type {count} to go on:") != str(count):
        raise RefusedError(f"that was not {count}; nothing was published")


def _amount(described: Mapping[str, Any], count: int) -> str:
    resources = described["resources"]
    if count == described["count"] or not resources:
        return targets_text(count - resources, resources)
    return f"{count} target{'' if count == 1 else 's'}"  # some by chance: nobody knows yet which


def kind_of(described: Mapping[str, Any]) -> str:
    """What many of the targets are called, by what the master's answer to `describe` counts."""
    return noun(described["count"] - described["resources"], described["resources"])


def _told(fun: str, row: Mapping[str, Any], kind: str) -> str:
    if row["minions"] == row["of"]:
        return f"{fun} carries the risk {row['risk']}"
    return f"{sayers(row, kind)} that {fun} carries the risk {row['risk']}"


def sayers(row: Mapping[str, Any], kind: str) -> str:
    """Those targets, of all that have a function, who say something of it, as the beginning of a sentence.

    `row` has `minions`, how many they are, `of` how many, and `one` of their ids; `kind` is what they are called.
    """
    few, of, one = row["minions"], row["of"], row["one"]
    return f"1 of {of} {kind} ({one}) says" if few == 1 else f"{few} of {of} {kind} ({one} is one of them) say"
