"""Which of the selected resources get a job: those whose type has its functions.

A function that the minion itself carries out (all of `saltutil`, `sys.reload_modules`), or that makes one return of
many (`state`), is for no resource. Resources that a target only describes are left out; counted are those that lack a
function which other types may have. For one that a target names, and when nothing is left, it is an error. So it is for
a bare id that several types have, when none of them has the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from saltlite.errors import UsageError
from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.srn import parse_srn
from saltlite.targeting.fleet import Selection

MINIONS_ONLY = frozenset({"saltutil", "state"})
"""Modules for minions, and for no resource."""
MINIONS_ONLY_FUNCTIONS = frozenset({"sys.reload_modules"})


@dataclass(frozen=True, slots=True)
class Skipped:
    """Resources that were left out, as their type lacks a function."""

    type: str
    fun: str
    """The first function of the job that the type does not have."""
    count: int


@dataclass(frozen=True, slots=True)
class Fitting:
    """What of a selection gets the job, and what of it was left out."""

    chosen: Selection
    skipped: Sequence[Skipped] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """The selected resources of one type that one minion manages, and what their functions take.

    `functions` is None as long as the minion has not said what the type has: it may have anything.
    """

    minion: MinionId
    type: str
    srns: Sequence[TargetId]
    functions: Mapping[str, str] | None

    def lacks(self, fun: str) -> bool:
        """Whether the function is not to be had on them."""
        return is_for_minions(fun) or (self.functions is not None and fun not in self.functions)


def is_for_minions(fun: str) -> bool:
    """Whether no resource can have that function."""
    return fun.partition(".")[0] in MINIONS_ONLY or fun in MINIONS_ONLY_FUNCTIONS


def kinds(master: Master, resources: Mapping[TargetId, MinionId]) -> Iterator[Kind]:
    """The resources (SRN -> its owner) by owner and type."""
    groups: dict[tuple[MinionId, str], list[TargetId]] = {}
    for srn, owner in resources.items():
        groups.setdefault((owner, parse_srn(srn).type or ""), []).append(srn)
    for (owner, kind), srns in groups.items():
        known = master.registrations.of(owner)
        yield Kind(owner, kind, srns, known.functions.get(kind) if known is not None else None)


def fitting(master: Master, chosen: Selection, funs: Sequence[str]) -> Fitting:
    """Leave out the resources whose type lacks one of the functions.

    Raises UsageError when nothing that a name in the target means has them, and when nothing is left of the selection.
    """
    if not chosen.resources:
        return Fitting(chosen)
    named = [*(frozenset({one}) for one in chosen.named), *chosen.namesakes]
    asked = frozenset[TargetId]().union(*named)
    unfit: dict[TargetId, tuple[str, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    kept: dict[TargetId, MinionId] = {}
    for one in kinds(master, chosen.resources):
        lacking = next((fun for fun in funs if one.lacks(fun)), "")
        if not lacking:
            kept.update(dict.fromkeys(one.srns, one.minion))
        else:
            counts[one.type, lacking] = counts.get((one.type, lacking), 0) + len(one.srns)
            unfit |= dict.fromkeys(asked.intersection(one.srns), (one.type, lacking))
    for meant in named:
        if meant <= unfit.keys():
            raise _unsupported(*min(unfit[srn] for srn in meant))
    if not counts:
        return Fitting(chosen)
    if not kept and not chosen.minions:
        raise _unsupported(*min(counts))
    left = Selection(chosen.minions, kept, chosen.named, chosen.unknown)
    told = [Skipped(kind, fun, count) for (kind, fun), count in sorted(counts.items()) if not is_for_minions(fun)]
    return Fitting(left, told)


def _unsupported(kind: str, fun: str) -> UsageError:
    return UsageError(f"Function {fun!r} is not supported for resource type {kind!r}. Nothing was published.")
