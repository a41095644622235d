"""`--test`: ask functions what they would do, and never run one that would do it.

A function takes part when it has a parameter `test` of its own. `**kwargs` is no support: such a function may never
look at the word, and then `--test` would do what it was to try out.
"""

from __future__ import annotations

from saltlite.cli.risk import kind_of, sayers
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.model.signature import parse_signature

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Call = tuple[str, list[Any], dict[str, Any]]

PARAMETER = "test"


def dry_run(calls: Sequence[Call], described: Mapping[str, Any]) -> list[Call]:
    """The same calls (function, arguments, keyword arguments) with `test=True`.

    `described` is the master's answer to `describe`. Raises RefusedError when a target may have a form of
    a function that does not know `test`, or has not said what the function takes; NoTargetError and UsageError
    where there is no target, and none that has the function.
    """
    if not described["count"]:
        raise NoTargetError("nothing matches the target; nothing was published")
    for fun, _arg, kwarg in calls:
        known = described["functions"][fun]
        if not known["signatures"] and not known["unknown"]:
            raise UsageError(f"no target has {fun}; nothing was published")
        refusal = _refusal(fun, known, kind_of(described))
        if refusal:
            raise RefusedError(refusal)
        if kwarg.get(PARAMETER, True) is not True:
            raise RefusedError(
                f"{fun} is given test={kwarg[PARAMETER]}, and --test says otherwise; leave one of them out"
            )
    return [(fun, arg, {**kwarg, PARAMETER: True}) for fun, arg, kwarg in calls]


def _refusal(fun: str, known: Mapping[str, Any], kind: str) -> str:
    for text, row in zip(known["signatures"], known["takers"], strict=True):
        signature = parse_signature(text)[1]
        if signature is None or signature.named(PARAMETER) is None:
            whose = "" if row["minions"] == row["of"] else f"{sayers(row, kind)} that "
            sentence = f"{fun} has no dry run (no parameter '{PARAMETER}'), so --test does not run it"
            return f"{whose}{sentence}; nothing was published"
    if unknown := known["unknown"]:
        have = f"{kind.removesuffix('s')} has" if unknown == 1 else f"{kind} have"
        return f"{unknown} {have} not said whether {fun} has a dry run, so --test does not run it; narrow the target"
    return ""
