"""A minion that is to be left alone: `minion_blackout` in its configuration, its grains or its pillar, as in Salt.

`minion_blackout_whitelist` beside it names functions that jobs may run all the same. It is for whoever asks from
elsewhere: what is called on the machine itself is the business of who is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saltlite.loader.call import ERROR_OUTPUTTER, Outcome
from saltlite.loader.loader import Loader

ALWAYS = "saltutil.refresh_pillar"
"""The way out of a blackout that stands in the pillar."""


def blackout(loader: Loader, funs: Iterable[str]) -> Outcome | None:
    """What a job of these functions is answered while the minion is to be left alone; None when it may run.

    A job is refused as a whole. A value that is neither true nor false is a blackout: somebody wanted one.
    """
    wanted = [fun for fun in funs if fun != ALWAYS]
    for name, place in loader.settings.items():
        if place.get("minion_blackout") in (None, False):
            continue
        listed = place.get("minion_blackout_whitelist")
        allowed = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
        refused = [fun for fun in wanted if fun not in allowed]
        if refused:
            text = (
                f"Minion in blackout mode: {refused[0]} does not run. Set 'minion_blackout' to False in its {name} to "
                f"end it; only {ALWAYS} and what minion_blackout_whitelist names there runs until then."
            )
            return Outcome(text, 1, ERROR_OUTPUTTER)
    return None
