"""What a target selects, who may learn of it, and why a name in it selects nothing.

Operators, and users who may run a runner that lists minions (`@runner manage.up`), may learn of the whole fleet. For
any other user, reach is the minions and resources on which some rule lets them run some function: answers count, name
and complete nothing beyond it. A target that selects anything beyond it is refused with the same sentence as one that
selects nothing, so that a refusal does not reveal whether a name exists. Key states are shown to users who may list
keys.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from saltlite.auth.acl import (
    RIGHTS,
    RUNNER,
    WHEEL,
    Call,
    Principal,
    knows_pillars,
    may,
    target_expressions,
    too_wide,
)
from saltlite.auth.logins import WRONG_AT_ONCE
from saltlite.errors import RefusedError, UsageError, nearest
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import MinionRow, StoreReader
from saltlite.model.ids import MINION_ID_MAX, MinionId, TargetId
from saltlite.model.job import Job, Target, TargetKind
from saltlite.model.keys import KeyState
from saltlite.model.minion import ABSENCES, absence
from saltlite.targeting import explain, pillar_pattern, pillar_values, wrong_pillar_values
from saltlite.targeting.evaluate import Explanation
from saltlite.targeting.fleet import Selection
from saltlite.targeting.matchers import listed

EVERYWHERE = frozenset({"", "*"})
"""Target expressions of rules that hold for every target."""
NOT_ACCEPTED = frozenset(KeyState) - {KeyState.ACCEPTED}
_WITHOUT_PILLAR = frozenset(
    {
        TargetKind.GLOB,
        TargetKind.LIST,
        TargetKind.PCRE,
        TargetKind.GRAIN,
        TargetKind.GRAIN_PCRE,
        TargetKind.IPCIDR,
    }
)
"""Kinds of targets that never compare pillars."""


def reach(master: Master, principal: Principal) -> frozenset[TargetId] | None:
    """The minions and resources that the principal may learn of; None for all."""
    if may(principal, RUNNER, RIGHTS["minions"][1], master.config):
        return None
    expressions = target_expressions(principal, master.config)
    if expressions & EVERYWHERE:
        return None
    return frozenset[TargetId]().union(*(master.selects(expression) for expression in expressions))


def selected_within_reach(master: Master, principal: Principal, target: Target, call: Call) -> Selection:
    """What the target selects now. Raises UsageError for an invalid target.

    Raises RefusedError, with one and the same sentence, if the target selects or names anything beyond the principal's
    reach, or neither selects nor names anything.
    """
    chosen = master.resolve(target)
    within = reach(master, principal)
    if within is None:
        return chosen
    found = {*chosen.minions, *chosen.resources}
    expressions = target_expressions(principal, master.config)
    names_are_within = all(any(fnmatchcase(name, one) for one in expressions) for name in chosen.unknown)
    if found <= within and names_are_within and (found or chosen.unknown):
        return chosen
    raise RefusedError(too_wide(principal, call, master.config))


def shown_key_states(master: Master, principal: Principal) -> frozenset[KeyState]:
    """The key states, other than accepted, that a message for the principal may reveal."""
    return NOT_ACCEPTED if may(principal, WHEEL, RIGHTS["key_list"][1], master.config) else frozenset()


_REASONS_MAX = 10
_NOT_ACCEPTED = {
    KeyState.PENDING: "its key is pending: saltlite key accept {}",
    KeyState.CONFLICT: "its key is in conflict with another of this id: saltlite key list",
    KeyState.REJECTED: "its key is rejected",
    KeyState.REVOKED: "its key is revoked",
}
"""Why a minion with a key in this state is not a target; the first state that applies is shown."""
_NO_SUCH_NAME = "neither an accepted minion nor a resource has this name"
_NO_RESOURCE = "no such resource is registered"
"""Of an SRN: minion ids have no colon."""


def target_of(request: Mapping[str, Any]) -> Target:
    """The target in the fields tgt and tgt_type. Raises UsageError for an unknown type."""
    try:
        kind = TargetKind(request["tgt_type"])
    except ValueError:
        known = ", ".join(TargetKind)
        raise UsageError(f"there is no target type {request['tgt_type'][:40]!r}: use one of {known}") from None
    return Target(request["tgt"], kind)


def refuse_pillar_guesses(master: Master, principal: Principal, target: Target, explained: str = "") -> None:
    """Raises RefusedError if the target would let a principal who may not see pillars guess their values.

    Whether a target selects anything reveals whether a pattern matches or a value is right. So patterns are refused,
    and wrong values are limited as wrong passwords are. `explained` is the minion or resource that the target is
    explained for.
    """
    if target.kind in _WITHOUT_PILLAR or knows_pillars(principal, master.config):
        return
    word = pillar_pattern(target, master.fleet)
    if word:
        raise RefusedError(
            f"{principal} may not target by patterns of pillar, as in {word[:80]!r}: name a whole value, as in "
            "I@role:web, or a nodegroup"
        )
    limiter, values = master.pillar_guesses, pillar_values(target, master.fleet)
    if limiter is None or not values:
        return
    if values > WRONG_AT_ONCE:
        raise RefusedError(f"{principal} may target by {WRONG_AT_ONCE} values of pillar at once, and not by {values}")
    key, now = ("pillar", principal.label), master.clock.monotonic()
    wait_s = limiter.wait_s(key, now)
    if wait_s > 0:
        raise RefusedError(f"{principal} has named too many wrong values of pillar: try again in {wait_s:.0f} s")
    wrong = values  # also if this raises: an error may reveal how far the target was evaluated
    try:
        wrong = wrong_pillar_values(target, master.fleet, explained)
    finally:
        if wrong:
            limiter.spend(key, now, wrong)


def subset_of(master: Master, selection: Selection, subset: int | None) -> Selection:
    """All of the selection, or so many targets at random, connected ones first because they can answer."""
    if subset is None:
        return selection
    if subset < 1:
        raise UsageError(f"--subset takes 1 target or more, not {subset}")
    owners: dict[TargetId, MinionId] = {minion: minion for minion in selection.minions} | dict(selection.resources)
    # Sorted by id first, so that the order of a set has no influence.
    shuffled = sorted(
        sorted(owners), key=lambda one: (owners[one] not in master.present, master.clock.uniform(0.0, 1.0))
    )
    return narrowed(selection, shuffled[:subset])


def narrowed(selection: Selection, to: Iterable[TargetId]) -> Selection:
    """The part of a selection that is among these targets."""
    kept = frozenset(to)
    return Selection(
        minions=frozenset(minion for minion in selection.minions if minion in kept),
        resources={srn: owner for srn, owner in selection.resources.items() if srn in kept},
        named=selection.named & kept,
        unknown=selection.unknown,
    )


def still_accepted(selection: Selection, store: StoreReader) -> Selection:
    """The minions of a selection whose key is still accepted, and the resources that these manage (S5)."""
    accepted = store.accepted_set()
    if selection.minions <= accepted and accepted.issuperset(selection.resources.values()):
        return selection
    gone = selection.minions - accepted
    resources = (srn for srn, owner in selection.resources.items() if owner in accepted)
    return narrowed(selection, [*(selection.minions - gone), *resources])


def by_owner(resources: Mapping[TargetId, MinionId]) -> dict[MinionId, tuple[TargetId, ...]]:
    """Resources by managing minion, both sorted, as a job stores them."""
    found: dict[MinionId, list[TargetId]] = {}
    for srn, owner in resources.items():
        found.setdefault(owner, []).append(srn)
    return {owner: tuple(sorted(found[owner])) for owner in sorted(found)}


def target_fields(master: Master, job: Job | None) -> dict[str, Any]:
    """What an answer says of a job's targets: `minions`, `resources` by managing minion, and `away`: the minions with a
    part in the job that have no session now -> when each was last seen (wall clock, None for never), and in `absences`
    why that is so, where it is known."""
    if job is None:
        return {"minions": [], "resources": {}, "away": {}, "absences": {}}
    gone = [minion for minion in sorted({*job.minions, *job.resources}) if minion not in master.present]
    rows = _last_sessions(master, gone)
    return {
        "minions": list(job.minions),
        "resources": {owner: list(srns) for owner, srns in job.resources.items()},
        "away": {minion: row.last_seen if row is not None else None for minion, row in rows.items()},
        "absences": _known_reasons(master, rows),
    }


def absences(master: Master, minions: Collection[MinionId]) -> dict[MinionId, str]:
    """Why those of these minions that are not connected are not, where that is known."""
    return _known_reasons(master, _last_sessions(master, [one for one in minions if one not in master.present]))


def _known_reasons(master: Master, rows: Mapping[MinionId, MinionRow | None]) -> dict[MinionId, str]:
    found = {minion: absence_of(master, minion, row) for minion, row in rows.items()}
    return {minion: why for minion, why in found.items() if why != ABSENCES["away"]}


def absence_of(master: Master, minion: MinionId, row: MinionRow | None) -> str:
    """Why this minion is not connected, by the row of its last session; "" if it is."""
    if minion in master.present:
        return ""
    # Of a session whose end could not be stored the row is still `up`.
    return ABSENCES["never"] if row is None else absence("" if row.up else row.end_reason)


def _last_sessions(master: Master, minions: Collection[MinionId]) -> dict[MinionId, MinionRow | None]:
    known = {row.id: row for row in master.store.minions(minions)} if minions else {}
    # The others never had a session, or have no accepted key any more.
    return {minion: known.get(minion) or master.store.minion(minion) for minion in minions}


def unknown_names(
    master: Master, principal: Principal, job: Job, unknown: Sequence[str] | None = None
) -> dict[str, str]:
    """Why each name in a list or an expression is not a target of the job, as far as the principal may know.

    `unknown` are the names in an expression that select nothing; without them the target is resolved again.
    """
    if job.target.kind in (TargetKind.COMPOUND, TargetKind.NODEGROUP):
        return _why_not(
            master, principal, master.resolve(job.target).unknown if unknown is None else unknown, master.store
        )
    if job.target.kind is not TargetKind.LIST:
        return {}
    srns = [srn for some in job.resources.values() for srn in some]
    known = {*job.minions, *srns, *(srn.partition(":")[2] for srn in srns)}
    missing = [name for name in listed(job.target.expression) if name not in known]
    return _why_not(master, principal, missing, master.store)


def no_target_message(
    master: Master, principal: Principal, target: Target, unknown: Sequence[str], store: StoreReader
) -> str:
    """The message for a target that selects nothing: `unknown` are the names in it that are unknown."""
    sentence = f"no accepted minion and no resource matches {target.expression!r}: nothing was published"
    names = unknown
    if target.kind in (TargetKind.LIST, TargetKind.GLOB):
        names = listed(target.expression) if target.kind is TargetKind.LIST else [target.expression]
    if any(letter in name for name in names for letter in "*?["):
        shown = shown_key_states(master, principal)
        return sentence + (_waiting(target, store) if KeyState.PENDING in shown else "")
    reasons = _why_not(master, principal, names[:_REASONS_MAX], store)
    meant = [f"no minion has the grain {name!r}{near}" for name, near in _unknown_grains(master, principal, target)]
    return "; ".join([sentence, *(f"{name}: {reason}" for name, reason in reasons.items()), *meant])


NAMES_COMPARED_MAX = 2_000
"""Names that are compared with a mistyped one: more would take an MWorker tenths of a second."""
_HINTS_MAX = 3
"""Names of one target that get a hint."""
_LENGTHS_APART = 2
"""Names that differ more in length are not compared."""
_GRAIN_WORD = re.compile(r"(?:^|[\s(])[GP]@([^\s:()]+):")


def _near(name: str, known: Iterable[str]) -> str:
    """`; did you mean web1?`, or "" if no known name is similar."""
    alike = (one for one in known if abs(len(one) - len(name)) <= _LENGTHS_APART)
    near = nearest(name, list(islice(alike, NAMES_COMPARED_MAX)))
    return f"; did you mean {near}?" if near else ""


def _unknown_grains(master: Master, principal: Principal, target: Target) -> list[tuple[str, str]]:
    """The names of grains in the target that no minion has, each with a hint. Only for a principal who may learn of
    every minion."""
    if target.kind in (TargetKind.GRAIN, TargetKind.GRAIN_PCRE):
        words = [target.expression.partition(":")[0]]
    elif target.kind is TargetKind.COMPOUND:
        words = _GRAIN_WORD.findall(target.expression)
    else:
        return []
    if reach(master, principal) is not None:
        return []
    known = master.fleet.grain_names()
    unknown = [word for word in dict.fromkeys(words) if word not in known and "*" not in word]
    return [(word[:80], _near(word[:80], known)) for word in unknown[:_HINTS_MAX]]


def _waiting(target: Target, store: StoreReader) -> str:
    """That pending keys match a glob: accepting them is what users forget most often."""
    if target.kind is not TargetKind.GLOB:
        return ""
    count = sum(fnmatchcase(key.id, target.expression) for key in store.keys(frozenset({KeyState.PENDING})))
    many = "1 key that it fits waits" if count == 1 else f"{count} keys that it fits wait"
    return f"; {many} to be accepted: saltlite key list pending" if count else ""


def _why_not(master: Master, principal: Principal, names: Sequence[str], store: StoreReader) -> dict[str, str]:
    """Why each name is neither an accepted minion nor a resource, as far as the principal may know."""
    if not names:
        return {}
    shown = shown_key_states(master, principal)
    everything = reach(master, principal) is None
    states: dict[str, set[KeyState]] = {name: set() for name in names}
    for key in store.keys(shown) if shown else ():
        if key.id in states:
            states[key.id].add(key.state)
    reasons = {}
    for number, (name, known) in enumerate(states.items()):
        reason = next((text.format(name) for state, text in _NOT_ACCEPTED.items() if state in known), "")
        if not reason and ":" in name:
            reason = _NO_RESOURCE
        elif not reason:
            compares = everything and number < _HINTS_MAX and len(name) <= MINION_ID_MAX
            reason = _NO_SUCH_NAME + (_near(name, store.accepted_ids()) if compares else "")
        reasons[name] = reason
    return reasons


def handle_match(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """What a target selects, without publishing anything.

    Answers `minions`, `resources` (managing minion -> SRNs), `away` (which of these minions have no session), `unknown`
    (names in the target that select nothing), and with `explain`, an id or an SRN, its `explanation`: id, owner (None
    for a minion), read_as, selected, verdict, and `terms`: word, number and column (from 1, 0 for none), group (the
    nodegroup that has the word, or ""), true, why.
    """
    target, fleet = target_of(request), master.fleet
    refuse_pillar_guesses(master, principal, target, request.get("explain", ""))
    chosen = master.resolve(target)
    resources = {owner: list(srns) for owner, srns in by_owner(chosen.resources).items()}
    fields: dict[str, Any] = {
        "minions": sorted(chosen.minions),
        "resources": resources,
        "away": [minion for minion in sorted({*chosen.minions, *resources}) if minion not in master.present],
        "unknown": list(chosen.unknown),
    }
    if "explain" in request:
        fields["explanation"] = _explanation_fields(explain(target, fleet, request["explain"]))
    return Answer(fields)


def _explanation_fields(why: Explanation) -> dict[str, Any]:
    terms = [
        {
            "word": one.place.word,
            "number": one.place.number,
            "column": one.place.column,
            "group": one.place.group,
            "true": one.true,
            "why": one.why,
        }
        for one in why.terms
    ]
    return {
        "id": why.id,
        "owner": why.owner,
        "read_as": why.read_as,
        "selected": why.selected,
        "verdict": why.verdict,
        "terms": terms,
    }
