"""Several functions of one job, one after the other in one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from saltlite.loader.call import Outcome, call
from saltlite.loader.chain import Chain
from saltlite.loader.loader import Loader

Call = tuple[str, Sequence[Any], Mapping[str, Any]]
"""Function, arguments and keyword arguments."""


def call_each(
    loader: Loader, calls: Iterable[Call], *, jid: str, user: str, chain: Chain | None = None, **about: Any
) -> Outcome:
    """Enter each function when the one before has ended, each through the executors of the chain.

    `about` is what these are told beside the job, such as what a resource is.

    The outcome of a single one is its own. That of several maps their names to what they returned (a function that
    stands twice has the second time `name (2)`), has the first retcode that is not 0, and no outputter.
    """
    outcomes: dict[str, Outcome] = {}
    for fun, args, kwargs in calls:
        pub = {"jid": jid, "fun": fun, "arg": list(args), "user": user, **about}
        before = sum(name.partition(" ")[0] == fun for name in outcomes)
        outcomes[f"{fun} ({before + 1})" if before else fun] = call(loader, fun, args, kwargs, pub=pub, chain=chain)
    every = list(outcomes.values())
    if len(every) == 1:
        return every[0]
    return Outcome(
        {name: outcome.value for name, outcome in outcomes.items()},
        next((outcome.retcode for outcome in every if outcome.retcode), 0),
        warnings=tuple(warning for outcome in every for warning in outcome.warnings),
    )
