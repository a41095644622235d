"""Words for the completion of command lines: from the store alone, no minion is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from saltlite.core.acl import JOBS_OF_OTHERS, RIGHTS, Action, Principal, authorize, may
from saltlite.core.acl_rules import RUNNER
from saltlite.core.ports import FunctionSet
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master
from saltlite.model.history import JobFilter
from saltlite.model.ids import Jid
from saltlite.model.keys import KeyState
from saltlite.model.signature import Kind, is_absent, parse_signature

WORDS_MAX = 500
"""Words of one answer: more than anybody reads in a terminal."""

FUNCTION_SETS_MAX = 32
"""Function sets that one answer looks through; a fleet has a few, and a hostile one must not make it slow."""

JIDS_MAX = 50
"""Jobs of one answer, the newest first."""

_BY_NAME = frozenset({Kind.EITHER, Kind.KEYWORD_ONLY})

KINDS = ("target", "minion", "function", "argument", "jid", "key")


def handle_complete(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """At most WORDS_MAX words of one kind that begin with `prefix`, in the order in which they are shown.

    `function` goes with the kind `argument`, `states` (names of key states) with `key`. A function is first
    completed up to its module and the dot. Raises UsageError for another kind.
    """
    authorize(principal, Action("complete"), master.terms)
    kind, prefix = request["kind"], request["prefix"]
    if kind not in KINDS:
        raise UsageError(f"words of kind {kind[:40]!r} cannot be completed: use one of {', '.join(KINDS)}")
    if not _may_know(master, principal, kind):
        return Answer({"words": []})
    words = _words(master, kind, prefix, request)
    return Answer({"words": list(islice(words, WORDS_MAX))})


def _may_know(master: Master, principal: Principal, kind: str) -> bool:
    """What functions there are is known to whoever may run some; ids, jobs and keys are for whoever may list them."""
    if kind in ("function", "argument"):
        return True
    needs = {"jid": (RUNNER, JOBS_OF_OTHERS), "key": RIGHTS["key_list"]}
    return may(principal, *needs.get(kind, RIGHTS["minions"]), master.terms)


def _words(master: Master, kind: str, prefix: str, request: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "target":
            return _beginning(chain(master.store.accepted_ids(), _resources(master, prefix)), prefix)
        case "minion":
            return _beginning(master.store.accepted_ids(), prefix)
        case "key":
            states = frozenset(state for state in KeyState if state in request.get("states", list(KeyState)))
            return _beginning(sorted({key.id for key in master.store.keys(states)}), prefix)
        case "jid":
            return _beginning(_jids(master, prefix), prefix)
        case "function":
            return _functions(master, prefix)
    return _beginning(_arguments(master, request.get("function", "")), prefix)


def _resources(master: Master, prefix: str) -> list[str]:
    """Bare ids of resources, or SRNs behind the colon of a type, sorted.

    All of them stand in no order, so none are looked for without a beginning.
    """
    if not prefix:
        return []
    by_type = master.registry.views().by_type
    kind, colon, begun = prefix.partition(":")
    types, head = ([by_type.get(kind, {})], f"{kind}:") if colon else (list(by_type.values()), "")
    begun = begun if colon else prefix
    ids = (bare_id for holdings in types for held in holdings.values() for bare_id in held.ids)
    found = islice((bare_id for bare_id in ids if bare_id.startswith(begun)), WORDS_MAX)
    return sorted({f"{head}{bare_id}" for bare_id in found})


def _beginning(words: Iterable[str], prefix: str) -> Iterator[str]:
    return (word for word in words if word.startswith(prefix))


def _jids(master: Master, prefix: str) -> list[str]:
    """The newest jobs whose jid can begin with `prefix`, newest first."""
    if prefix and not (prefix.isascii() and prefix.isdigit()):
        return []
    # No jid, but it sorts behind all that begin so: a colon follows the nine.
    behind_them = Jid(f"{prefix}:")
    return [job.jid for job in master.store.jobs(JobFilter(before=behind_them), JIDS_MAX)]


def _functions(master: Master, prefix: str) -> Iterator[str]:
    offered = chain(
        (pair for known in _sets(master) for pair in known.functions.items()),
        (pair for functions in _of_types(master) for pair in functions.items()),
    )
    names = sorted({name for name, text in offered if name.startswith(prefix) and not is_absent(text)})
    modules = sorted({name.partition(".")[0] for name in names})
    if "." in prefix or len(modules) == 1:
        return iter(names)
    return (f"{module}." for module in modules)


def _arguments(master: Master, function: str) -> list[str]:
    """`name=` for each parameter that can be given by its name, as the sets that have the function declare it."""
    names: dict[str, None] = {}
    for functions in chain((known.functions for known in _sets(master)), _of_types(master)):
        signature = parse_signature(functions[function])[1] if function in functions else None
        parameters = signature.parameters if signature is not None else ()
        names.update(dict.fromkeys(f"{one.name}=" for one in parameters if one.kind in _BY_NAME))
    return list(names)


def _of_types(master: Master) -> Iterator[Mapping[str, str]]:
    """The functions of resource types, as far as one answer looks; minions with the same share one map."""
    sets = {
        id(functions): functions for _minion, row in master.registrations.rows() for functions in row.functions.values()
    }
    return islice(iter(sets.values()), FUNCTION_SETS_MAX)


def _sets(master: Master) -> Iterator[FunctionSet]:
    digests = sorted(filter(None, master.store.function_digests(master.store.accepted_ids())))
    for digest in digests[:FUNCTION_SETS_MAX]:
        known = master.store.functions(digest)
        if known is not None:
            yield known
