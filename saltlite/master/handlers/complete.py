"""Words for the completion of command lines: from the store alone, no minion is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master
from saltlite.model.keys import KeyState

WORDS_MAX = 500
"""Words of one answer: more than anybody reads in a terminal."""

FUNCTION_SETS_MAX = 32
"""Function sets that one answer looks through; a fleet has a few, and a hostile one must not make it slow."""

KINDS = ("minion", "function", "argument", "jid", "key")


def handle_complete(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """At most WORDS_MAX words of one kind that begin with `prefix`, in the order in which they are shown.

    `function` goes with the kind `argument`, `states` (names of key states) with `key`. A function is first
    completed up to its module and the dot. Raises UsageError for another kind.
    """
    authorize(principal, Action("complete"), master.terms.operators)
    kind, prefix = request["kind"], request["prefix"]
    if kind not in KINDS:
        raise UsageError(f"words of kind {kind[:40]!r} cannot be completed: use one of {', '.join(KINDS)}")
    words = _words(master, kind, prefix, request)
    return Answer({"words": list(islice(words, WORDS_MAX))})


def _words(master: Master, kind: str, prefix: str, request: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "minion":
            return _beginning(master.store.accepted_ids(), prefix)
        case "key":
            states = frozenset(state for state in KeyState if state in request.get("states", list(KeyState)))
            return _beginning(sorted({key.id for key in master.store.keys(states)}), prefix)
        case "jid":
            return _beginning(_jids(master), prefix)
        case "function":
            return _functions(master, prefix)
    return _beginning(_arguments(master, request.get("function", "")), prefix)


def _beginning(words: Iterable[str], prefix: str) -> Iterator[str]:
    return (word for word in words if word.startswith(prefix))
