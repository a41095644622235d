"""Which targets have a function, and with what signature, from what minions have reported. No minion is asked.

Minions with the same modules share one function set, found by its digest, so asking about ten thousand minions costs as
much as asking about one. A minion that has not reported all of its functions may have any function, with any signature.

A resource gets a job only if its type has all of the job's functions. Functions that the minion itself carries out (all
of `saltutil`, `sys.reload_modules`) or that make one return of many (`state`) are for no resource. Resources that a
target matches only by pattern are skipped and counted; for a resource that the target names, for a bare id of which no
type has the functions, and when no target remains, it is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from typing import Any

from saltlite.auth.acl import JOBS_OF_OTHERS, RIGHTS, RUNNER, Principal, may
from saltlite.errors import UncallableError, UsageError, nearest
from saltlite.master.handlers.targets import reach
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import FunctionSet
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import Jid, MinionId, TargetId, parse_srn
from saltlite.model.job import JobFilter
from saltlite.model.keys import KeyState
from saltlite.model.redaction import is_secret_argument
from saltlite.model.salt_features import missing_feature, missing_module
from saltlite.model.signature import ParameterKind, Signature, bind, is_absent, outputter_of, parse_signature
from saltlite.targeting.fleet import Selection
from saltlite.wire.job_body import FunctionCall

MINIONS_ONLY = frozenset({"saltutil", "state"})
"""Modules for minions, and for no resource."""
MINIONS_ONLY_FUNCTIONS = frozenset({"sys.reload_modules"})
SIGNATURES_MAX = 16
"""Different signatures of one function in an answer; minions with further ones count as unknown."""
NAMES_MAX = 1000
"""Minions that one answer names; more are counted only."""

AWAITED_S = 2.0
"""How long after its connection a minion is expected to report functions that the master does not know."""

_FUNCTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_PARSED = 1024
"""Texts whose signature is cached."""


def checked_function(fun: object) -> str:
    """`fun` if it is written as a function; UsageError otherwise."""
    if not isinstance(fun, str) or not _FUNCTION.fullmatch(fun):
        raise UsageError(f"{str(fun)[:80]!r} is not a function: it is written module.function, as in test.ping")
    return fun


# -- resources that have the functions


@dataclass(frozen=True, slots=True)
class Skipped:
    """Resources that do not get the job because their type lacks a function."""

    type: str
    fun: str
    """The first function of the job that the type does not have."""
    count: int


@dataclass(frozen=True, slots=True)
class SupportedTargets:
    """The part of a selection that gets the job, and what was skipped."""

    selection: Selection
    skipped: Sequence[Skipped] = ()


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """The selected resources of one type and one minion, and their functions: None if the minion has not reported any,
    so that they may have every function."""

    minion: MinionId
    type: str
    srns: Sequence[TargetId]
    functions: Mapping[str, str] | None

    def lacks(self, fun: str) -> bool:
        """Whether these resources do not have the function."""
        return is_for_minions(fun) or (self.functions is not None and fun not in self.functions)


def is_for_minions(fun: str) -> bool:
    """Whether no resource can have that function."""
    return fun.partition(".")[0] in MINIONS_ONLY or fun in MINIONS_ONLY_FUNCTIONS


def resource_groups(master: Master, resources: Mapping[TargetId, MinionId]) -> Iterator[ResourceGroup]:
    """The resources (SRN -> managing minion) by minion and type."""
    groups: dict[tuple[MinionId, str], list[TargetId]] = {}
    for srn, owner in resources.items():
        groups.setdefault((owner, parse_srn(srn).type or ""), []).append(srn)
    for (owner, kind), srns in groups.items():
        known = master.registrations.of(owner)
        yield ResourceGroup(owner, kind, srns, known.functions.get(kind) if known is not None else None)


def supported_targets(master: Master, selection: Selection, funs: Sequence[str]) -> SupportedTargets:
    """The selection without the resources whose type lacks one of the functions.

    Raises UsageError if nothing that a name in the target means has them, and if no target remains.
    """
    if not selection.resources:
        return SupportedTargets(selection)
    named = [*(frozenset({one}) for one in selection.named), *selection.id_collisions]
    asked = frozenset[TargetId]().union(*named)
    unsupported: dict[TargetId, tuple[str, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    kept: dict[TargetId, MinionId] = {}
    for group in resource_groups(master, selection.resources):
        missing = next((fun for fun in funs if group.lacks(fun)), "")
        if not missing:
            kept.update(dict.fromkeys(group.srns, group.minion))
        else:
            counts[group.type, missing] = counts.get((group.type, missing), 0) + len(group.srns)
            unsupported |= dict.fromkeys(asked.intersection(group.srns), (group.type, missing))
    for meant in named:
        if meant <= unsupported.keys():
            raise _unsupported(*min(unsupported[srn] for srn in meant))
    if not counts:
        return SupportedTargets(selection)
    if not kept and not selection.minions:
        raise _unsupported(*min(counts))
    left = Selection(selection.minions, kept, selection.named, selection.unknown)
    skipped = [Skipped(kind, fun, count) for (kind, fun), count in sorted(counts.items()) if not is_for_minions(fun)]
    return SupportedTargets(left, skipped)


def _unsupported(kind: str, fun: str) -> UsageError:
    return UsageError(f"Function {fun!r} is not supported for resource type {kind!r}. Nothing was published.")


# -- function sets and signatures


class FunctionSupport:
    """The function sets of a selection, each with the number of targets that have it."""

    def __init__(self, selection: Selection, master: Master) -> None:
        self._holders = master.store.function_digests(sorted(selection.minions)) if selection.minions else {}
        self._master = master
        self._groups = list(resource_groups(master, selection.resources))
        self._minions = selection.minions
        self._resources = selection.resources

    @property
    def targets(self) -> list[TargetId]:
        """The minions and SRNs of the selection, sorted."""
        return sorted([*self._minions, *self._resources])

    def sets(self) -> Iterator[tuple[FunctionSet | None, int, TargetId]]:
        """Each set, None where nothing is known, with the number of targets and the first of them by id."""
        for digest, (count, first) in self._holders.items():
            known = self._master.functions.of(digest, self._master.store) if digest else None
            yield known, count, first
        for group in self._groups:
            of_type = FunctionSet("", group.functions, whole=True) if group.functions is not None else None
            yield of_type, len(group.srns), min(group.srns)

    def texts(self, fun: str) -> Iterator[tuple[str, int, TargetId]]:
        """Each text of `saltlite.model.signature` that is reported for the function, as `sets` has its set."""
        for functions, count, first in self.sets():
            if functions is not None and fun in functions.functions:
                yield functions.functions[fun], count, first

    def signatures(self, fun: str) -> Iterator[tuple[Signature, int]]:
        """Each known signature of the function, with the number of targets."""
        for text, count, _first in self.texts(fun):
            signature = _parsed(text)[1]
            if signature is not None:
                yield signature, count

    def awaited(self) -> int:
        """The number of minions that connected less than AWAITED_S ago, and are about to report their functions."""
        since = self._master.clock.wall() - AWAITED_S
        newest_first = reversed(self._master.present.items())
        recent = takewhile(lambda session: session[1] > since, newest_first)
        minions = sorted(minion for minion, _at in recent if minion in self._minions)
        holders = self._master.store.function_digests(minions) if minions else {}
        known = self._master.functions
        return sum(
            count
            for digest, (count, _first) in holders.items()
            if not digest or known.of(digest, self._master.store) is None
        )


@functools.lru_cache(_PARSED)
def _parsed(text: str) -> tuple[str, Signature | None, str]:
    """(function, signature, risk) of a text that was checked when it arrived."""
    return parse_signature(text)


@dataclass(slots=True)
class _Reporters:
    """The targets that report the same of a function."""

    minions: int = 0
    one: str = ""

    def add(self, count: int, first: TargetId) -> None:
        self.minions += count
        self.one = min(self.one or first, first)

    def row(self, having: int) -> dict[str, Any]:
        return {"minions": self.minions, "of": having, "one": self.one}


def described(fun: str, known: FunctionSupport) -> dict[str, Any]:
    """`signatures`, the different texts, with `takers`, who reports each; `risks`, with who reports which; `missing`,
    how many targets do not have the function; `unknown`, how many may have it and have not reported its signature.

    Each reporter row has `minions`, how many, `of` how many that have the function, and `one`, the first by id: a risk
    or signature that only few report may come from a compromised minion.
    """
    signatures: dict[str, _Reporters] = {}
    risks: dict[str, _Reporters] = {}
    having = missing = unknown = 0
    for functions, count, first in known.sets():
        text = functions.functions.get(fun) if functions is not None else None
        if text is None:
            if functions is not None and functions.whole:
                missing += count
            else:
                unknown += count
            continue
        having += count
        _fun, signature, risk = _parsed(text)
        if risk:
            risks.setdefault(risk, _Reporters()).add(count, first)
        if signature is None or (text not in signatures and len(signatures) == SIGNATURES_MAX):
            unknown += count
        else:
            signatures.setdefault(text, _Reporters()).add(count, first)
    return {
        "signatures": list(signatures),
        "takers": [reporters.row(having) for reporters in signatures.values()],
        "risks": [{"risk": risk, **reporters.row(having)} for risk, reporters in risks.items()],
        "missing": missing,
        "unknown": unknown,
    }


def outputter_for(funs: Sequence[str], known: FunctionSupport) -> str:
    """The outputter that all signatures of a single function name, or ""."""
    if len(funs) != 1:
        return ""
    found = {outputter_of(text) for text, _count, _first in known.texts(funs[0]) if _parsed(text)[1] is not None}
    return found.pop() if len(found) == 1 else ""


def depends_on_signature(call: FunctionCall, known: FunctionSupport) -> bool:
    """Whether a client that knows the signatures could read the call's arguments as other values.

    Without a signature a client reads a word as the value that it plainly is (`saltlite.client.arguments`). An
    annotation changes that value only if it does not name the value's own type.
    """
    for signature, _count in known.signatures(call.fun):
        for index, value in enumerate(call.args):
            parameter = signature.positional(index)
            # `read-ahead=1` is a keyword for a function that takes any.
            is_keyword = isinstance(value, str) and "=" in value
            if is_keyword or (parameter is not None and not _is_of(value, parameter.types)):
                return True
        for name, value in call.kwargs.items():
            parameter = signature.keyword(name)
            if parameter is not None and not _is_of(value, parameter.types):
                return True
    return False


def _is_of(value: object, types: Sequence[str]) -> bool:
    return not types or ("None" if value is None else type(value).__name__) in types


# -- calls that can be published


def publishable_calls(
    calls: Sequence[FunctionCall], known: FunctionSupport, *, may_be_missing: bool
) -> tuple[FunctionCall, ...]:
    """The calls, if each can be made on at least one target; arguments for parameters named as secrets are marked.

    With `may_be_missing` a target without the function counts, because the executor that was asked for may know what to
    do. An argument is a secret if at least half of the targets that have the function say so: one compromised minion
    cannot hide from the history what was called on the others.

    Raises UncallableError, with the near name or the signature, for a function that no target has or can be called so.
    """
    for call in calls:
        problem = _problem(call, known, may_be_missing=may_be_missing)
        if problem:
            missing = "" if any(known.texts(call.fun)) else call.fun
            raise UncallableError(f"{problem} Nothing was published.", known.targets, missing)
    return tuple(replace(call, hidden=_secret_indexes(call, known)) if call.args else call for call in calls)


def _secret_indexes(call: FunctionCall, known: FunctionSupport) -> list[int]:
    having, secret = 0, [0] * len(call.args)
    for signature, count in known.signatures(call.fun):
        having += count
        for index in range(len(call.args)):
            parameter = signature.positional(index)
            secret[index] += count if parameter is not None and is_secret_argument(parameter.name) else 0
    return [index for index, count in enumerate(secret) if count and 2 * count >= having]


def _problem(call: FunctionCall, known: FunctionSupport, *, may_be_missing: bool) -> str:
    """Why the call can be made on no target, as a sentence, or ""; the first target where it can ends the search."""
    problem = ""
    for functions, _count, _first in known.sets():
        text = functions.functions.get(call.fun) if functions is not None else None
        if functions is None or (text is None and (may_be_missing or not functions.whole)):
            return ""
        if text is not None:
            signature = _parsed(text)[1]
            misfit = bind(call.fun, signature, call.args, call.kwargs) if signature is not None else ""
            if not misfit:
                return ""
            problem = problem or misfit
    return f"{problem}." if problem else _no_such_function(call.fun, known)


def _no_such_function(fun: str, known: FunctionSupport) -> str:
    sets = [functions for functions, _count, _first in known.sets() if functions is not None]
    names = {name for functions in sets for name, text in functions.functions.items() if not is_absent(text)}
    said = f"none of the targeted minions has {fun[:80]!r}"
    feature = missing_feature(fun)
    if not feature and not any(name.startswith(f"{fun.partition('.')[0]}.") for name in names):
        feature = missing_module(fun)
    if feature:
        return f"{said}: {feature}."
    near = nearest(fun, names)
    return said + (f"; did you mean {near}?" if near else ".")


# -- minions without a function


def handle_missing_functions(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `count`, the accepted minions; `missing` and `unknown`, how many; `names` and `unknown_names`, sorted.

    Unknown are those that have not reported all of their functions.
    """
    fun = checked_function(request["fun"])
    digests = {row.id: row.functions for row in master.store.minions()}
    sets: dict[str, FunctionSet | None] = {"": None}
    missing: list[MinionId] = []
    unknown: list[MinionId] = []
    accepted = master.store.accepted_ids()
    for minion in accepted:
        digest = digests.get(minion, "")
        if digest not in sets:
            sets[digest] = master.store.functions(digest)
        functions = sets[digest]
        text = functions.functions.get(fun) if functions is not None else None
        if text is not None and not is_absent(text):
            continue
        (missing if functions is not None and (functions.whole or text is not None) else unknown).append(minion)
    return Answer(
        {
            "count": len(accepted),
            "missing": len(missing),
            "names": missing[:NAMES_MAX],
            "unknown": len(unknown),
            "unknown_names": unknown[:NAMES_MAX],
        }
    )


# -- Words for shell completion, from the store alone: no minion is asked


WORDS_MAX = 500
"""Words of one answer: more than a user reads in a terminal."""

FUNCTION_SETS_MAX = 32
"""Function sets that one answer reads: a fleet has a few, and a hostile one must not make it slow."""

JIDS_MAX = 50
"""Jobs of one answer, the newest first."""

_BY_NAME = frozenset({ParameterKind.EITHER, ParameterKind.KEYWORD_ONLY})

KINDS = ("target", "minion", "function", "argument", "jid", "key")


def handle_complete(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """At most WORDS_MAX words of one kind that begin with `prefix`, in display order.

    `function` belongs to the kind `argument`, `states` (key states) to `key`. A function is completed up to the dot of
    its module first. Raises UsageError for an unknown kind.
    """
    kind, prefix = request["kind"], request["prefix"]
    if kind not in KINDS:
        raise UsageError(f"words of kind {kind[:40]!r} cannot be completed: use one of {', '.join(KINDS)}")
    if not _may_know(master, principal, kind):
        return Answer({"words": []})
    words = _words(_Known(master, reach(master, principal)), kind, prefix, request)
    return Answer({"words": list(islice(words, WORDS_MAX))})


def _may_know(master: Master, principal: Principal, kind: str) -> bool:
    """Jobs and keys need the right to list them. The other kinds are limited by the principal's reach."""
    needs = {"jid": (RUNNER, JOBS_OF_OTHERS), "key": RIGHTS["key_list"][:2]}
    return kind not in needs or may(principal, *needs[kind], master.config)


def _words(fleet: _Known, kind: str, prefix: str, request: Mapping[str, Any]) -> Iterator[str]:
    master = fleet.master
    match kind:
        case "target":
            return _beginning(chain(fleet.minions(), _resources(fleet, prefix)), prefix)
        case "minion":
            return _beginning(fleet.minions(), prefix)
        case "key":
            states = frozenset(state for state in KeyState if state in request.get("states", list(KeyState)))
            return _beginning(sorted({key.id for key in master.store.keys(states)}), prefix)
        case "jid":
            return _beginning(_jids(master, prefix), prefix)
        case "function":
            return _functions(fleet, prefix)
    return _beginning(_arguments(fleet, request.get("function", "")), prefix)


@dataclass(frozen=True, slots=True)
class _Known:
    """The part of the fleet within the principal's reach; `within` is None for all of it."""

    master: Master
    within: frozenset[TargetId] | None

    def minions(self) -> list[MinionId]:
        """The accepted minions, sorted."""
        accepted = self.master.store.accepted_ids()
        return [minion for minion in accepted if self.within is None or minion in self.within]

    def function_sets(self) -> Iterator[FunctionSet]:
        """The function sets of minions; those with the same modules share one."""
        digests = sorted(filter(None, self.master.store.function_digests(self.minions())))
        for digest in digests[:FUNCTION_SETS_MAX]:
            known = self.master.functions.of(digest, self.master.store)
            if known is not None:
                yield known

    def type_functions(self) -> Iterator[Mapping[str, str]]:
        """The functions of resource types; minions with the same ones share one map."""
        types = None if self.within is None else self._types()
        sets = {
            id(functions): functions
            for minion, row in self.master.registrations.rows()
            for kind, functions in row.functions.items()
            if types is None or (minion, kind) in types
        }
        return islice(iter(sets.values()), FUNCTION_SETS_MAX)

    def _types(self) -> frozenset[tuple[MinionId, str]]:
        """The types within reach, each with the minion that manages resources of it."""
        fleet = self.master.fleet
        owners = ((fleet.owner(srn), srn.partition(":")[0]) for srn in self.within or () if ":" in srn)
        return frozenset((owner, kind) for owner, kind in owners if owner is not None)


def _resources(known: _Known, prefix: str) -> list[str]:
    """Bare ids of resources, or SRNs after the colon of a type, sorted.

    None without a prefix: the registry is not sorted, so they cannot be read in parts.
    """
    if not prefix:
        return []
    by_type = known.master.registry.views().by_type
    kind, colon, begun = prefix.partition(":")
    types, head = ({kind: by_type.get(kind, {})}, f"{kind}:") if colon else (by_type, "")
    begun = begun if colon else prefix
    rows = ((name, bare_id) for name, holdings in types.items() for held in holdings.values() for bare_id in held.ids)
    within = known.within
    found = (
        bare_id
        for name, bare_id in rows
        if bare_id.startswith(begun) and (within is None or f"{name}:{bare_id}" in within)
    )
    return sorted({f"{head}{bare_id}" for bare_id in islice(found, WORDS_MAX)})


def _beginning(words: Iterable[str], prefix: str) -> Iterator[str]:
    return (word for word in words if word.startswith(prefix))


def _jids(master: Master, prefix: str) -> list[str]:
    """The newest jobs whose jid can begin with `prefix`, newest first."""
    if prefix and not (prefix.isascii() and prefix.isdigit()):
        return []
    # No valid jid, but it sorts after all that begin so: the colon follows the nine.
    behind_them = Jid(f"{prefix}:")
    return [job.jid for job in master.store.jobs(JobFilter(before=behind_them), JIDS_MAX)]


def _functions(known: _Known, prefix: str) -> Iterator[str]:
    offered = chain(
        (pair for one in known.function_sets() for pair in one.functions.items()),
        (pair for functions in known.type_functions() for pair in functions.items()),
    )
    names = sorted({name for name, text in offered if name.startswith(prefix) and not is_absent(text)})
    modules = sorted({name.partition(".")[0] for name in names})
    if "." in prefix or len(modules) == 1:
        return iter(names)
    return (f"{module}." for module in modules)


def _arguments(known: _Known, function: str) -> list[str]:
    """`name=` for each parameter that can be given by name, in any reported signature of the function."""
    names: dict[str, None] = {}
    for functions in chain((one.functions for one in known.function_sets()), known.type_functions()):
        signature = parse_signature(functions[function])[1] if function in functions else None
        parameters = signature.parameters if signature is not None else ()
        names.update(dict.fromkeys(f"{one.name}=" for one in parameters if one.kind in _BY_NAME))
    return list(names)
