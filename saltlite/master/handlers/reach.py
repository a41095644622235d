"""What of the fleet a caller may learn of. One rule for every verb that tells of targets.

Operators, and callers with a runner that lists minions (`@runner manage.up`), are told of the whole fleet: that is what
the runner is for. Every other runner and wheel function tells what it is there to tell to whoever was granted it.
Everybody else has a reach: the minions and resources on which some rule lets him run some function. Answers count, name
and complete nothing beyond it. A target that selects anything beyond it gets the same refusal as one that selects
nobody, so a refusal does not say whether a name exists. The states of keys are told to callers who may list keys.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from saltlite.auth.acl import RIGHTS, Principal, may, places_of, too_wide
from saltlite.auth.rules import RUNNER, WHEEL, Call
from saltlite.errors import RefusedError
from saltlite.master.processes.context import Master
from saltlite.model.ids import TargetId
from saltlite.model.keys import KeyState
from saltlite.model.target import Target
from saltlite.targeting.fleet import Selection

EVERYWHERE = frozenset({"", "*"})
"""Places of rules that hold for every target."""
NOT_ACCEPTED = frozenset(KeyState) - {KeyState.ACCEPTED}


def reach(master: Master, principal: Principal) -> frozenset[TargetId] | None:
    """The minions and resources that the principal may learn of; None for all of them."""
    if may(principal, RUNNER, RIGHTS["minions"][1], master.terms):
        return None
    places = places_of(principal, master.terms)
    if places & EVERYWHERE:
        return None
    return frozenset[TargetId]().union(*(master.selects(place) for place in places))


def selected_within_reach(master: Master, principal: Principal, target: Target, call: Call) -> Selection:
    """What the target selects now. UsageError for what is no target.

    RefusedError when it selects anything beyond the reach of the principal, names somebody there, or selects nobody
    and names nobody: the sentence is the same for all three.
    """
    chosen = master.resolve(target)
    within = reach(master, principal)
    if within is None:
        return chosen
    found = {*chosen.minions, *chosen.resources}
    places = places_of(principal, master.terms)
    names_are_within = all(any(fnmatchcase(name, place) for place in places) for name in chosen.unknown)
    if found <= within and names_are_within and (found or chosen.unknown):
        return chosen
    raise RefusedError(too_wide(principal, call, master.terms))


def shown_key_states(master: Master, principal: Principal) -> frozenset[KeyState]:
    """Which states of keys, other than accepted, a sentence for the principal may tell."""
    return NOT_ACCEPTED if may(principal, WHEEL, RIGHTS["key_list"][1], master.terms) else frozenset()
