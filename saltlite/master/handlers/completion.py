"""Words for shell completion, from the store alone: no minion is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from saltlite.auth.acl import JOBS_OF_OTHERS, RIGHTS, RUNNER, Principal, may
from saltlite.errors import UsageError
from saltlite.master.handlers.targets import reach
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import FunctionSet
from saltlite.model.history import JobFilter
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.keys import KeyState
from saltlite.model.signature import Kind, is_absent, parse_signature

WORDS_MAX = 500
"""Words of one answer: more than a user reads in a terminal."""

FUNCTION_SETS_MAX = 32
"""Function sets that one answer reads: a fleet has a few, and a hostile one must not make it slow."""

JIDS_MAX = 50
"""Jobs of one answer, the newest first."""

_BY_NAME = frozenset({Kind.EITHER, Kind.KEYWORD_ONLY})

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
    needs = {"jid": (RUNNER, JOBS_OF_OTHERS), "key": RIGHTS["key_list"]}
    return kind not in needs or may(principal, *needs[kind], master.terms)


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
