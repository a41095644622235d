"""Admission of registrations: the document is parsed, its names are checked, and the master's rules are applied.

A registration with an invalid name, or with too many names, is refused as a whole, and the old one stays. A rule about
a single resource (another owner, the name of a minion, the policy) withholds that resource only.

Resources that a minion no longer finds are not removed at once: a half-read device file, an empty inventory or a typo
in a pillar look as if they were gone. A type that lost all or most of its resources keeps its rows until several looks
agree or an operator confirms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from fnmatch import fnmatchcase, translate
from itertools import islice
from typing import Any

from saltlite.errors import RefusedError, RemoteProtocolError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId, check_resource_ids, check_resource_type, resource_index_srn_key
from saltlite.model.resourcelook import TypeReport, read_report
from saltlite.model.signature import by_name, is_absent, is_function_name, parse_signature
from saltlite.resources.registry.registry import Conflict

# -- Missing resources

LOOKS = 3
"""Looks in a row that have to miss the same resources before these are removed."""

MANY = 20
"""A type with this many resources may not lose more than half of them at once."""


@dataclass(frozen=True, slots=True)
class MissingResources:
    """Resources of one type that stay although their minion did not find them."""

    since: Mapping[str, float]
    """Bare id -> the time since it is missing, wall-clock seconds since 1970."""
    looks: int
    """Number of looks in a row that missed exactly these."""
    look: str
    """The name of the last of these looks."""

    def without(self, bare_ids: Set[str]) -> MissingResources | None:
        """The same without these ids; None if none is left."""
        since = {bare_id: at for bare_id, at in self.since.items() if bare_id not in bare_ids}
        return MissingResources(since, self.looks, self.look) if since else None


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a look at one type. `look` is its name, "" for a failed look, which says nothing."""

    ids: Set[str]
    look: str


def still_missing(held: Set[str], seen: Seen, before: MissingResources | None, now: float) -> MissingResources | None:
    """The resources of `held` that stay although they were not seen; None for none. `now`: wall-clock seconds since
    1970."""
    gone = held - seen.ids
    if not gone or (seen.look and not is_suspicious(len(held), len(seen.ids))):
        return None
    same = before is not None and before.since.keys() == gone
    known = before.since if before is not None else {}
    since = {bare_id: known.get(bare_id, now) for bare_id in gone}
    looks, look = (before.looks, before.look) if same and before is not None else (0, "")
    if seen.look and seen.look != look:
        looks, look = looks + 1, seen.look
    return MissingResources(since, looks, look) if looks < LOOKS else None


def is_suspicious(was: int, found: int) -> bool:
    """Whether such a loss needs the confirmation of several looks."""
    return (found == 0 and was > 0) or (was >= MANY and found < was / 2)


QUOTA = 100_000
"""Default number of resources of one minion."""

REASONS_MAX = 20
"""Sentences about one registration; further ones are only counted."""

TYPES_MAX = 256
"""Resource types of one minion."""

TYPE_FUNCTIONS_MAX = 4096
"""Functions of one resource type."""

FUNCTIONS_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the texts of all functions in one registration: the master keeps them in memory."""

LOOK_MAX = 64
"""Characters of the name of a look."""

_FIELDS = frozenset({"resources", "grains", "stale", "functions", "look", "reports"})


@dataclass(frozen=True, slots=True)
class RegistrationRules:
    """The configuration of registrations."""

    conflict: Conflict = Conflict.REFUSE
    policy: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Glob of minions -> globs of SRNs that they may register; empty: every minion may register any."""
    quota: int = QUOTA
    """Resources of one minion."""
    events: bool = True
    """Whether each registration is an event."""


@dataclass(frozen=True, slots=True)
class RegistrationContext:
    """A valid registration that has no effect yet."""

    resources: Mapping[str, Sequence[str]]
    """Type -> unique bare ids."""
    grains: Mapping[TargetId, Mapping[str, Any]]
    stale: frozenset[TargetId]
    """Resources whose grains could not be collected now: the old ones stay."""
    functions: Mapping[str, Mapping[str, str]]
    """Type -> function -> its text of `saltlite.model.signature`."""
    reports: Mapping[str, TypeReport] = field(default_factory=dict)
    """The minion's report about each type that its pillar declares."""
    look: str = ""
    """The name of the minion's last look, for types without a report, which are gone."""

    def seen(self, kind: str) -> Seen:
        """The result of the last look at that type."""
        report = self.reports.get(kind)
        look = self.look if report is None else report.look if report.found is not None else ""
        return Seen(frozenset(self.resources.get(kind, ())), look)

    def srns(self) -> Iterator[TargetId]:
        for kind, ids in self.resources.items():
            for bare_id in ids:
                yield resource_index_srn_key(kind, bare_id)


def read_registration(document: Mapping[Any, Any], quota: int) -> RegistrationContext:
    """The registration in a document of a minion.

    Raises RefusedError, whose lines are at most REASONS_MAX sentences, one for each error.
    """
    reasons = list(islice(_problems(document, quota), REASONS_MAX + 1))
    if reasons:
        raise RefusedError("\n".join(shortened(reasons)))
    resources = {kind: list(ids) for kind, ids in document["resources"].items()}
    return RegistrationContext(
        resources=resources,
        grains=document.get("grains", {}),
        stale=frozenset(document.get("stale", ())),
        functions={kind: by_name(texts) for kind, texts in document.get("functions", {}).items()},
        reports={kind: read_report(one) for kind, one in document.get("reports", {}).items()},
        look=document.get("look", ""),
    )


def shortened(reasons: Sequence[str]) -> list[str]:
    """The first REASONS_MAX, and the number of the others."""
    more = len(reasons) - REASONS_MAX
    return [*reasons[:REASONS_MAX], *(["and more"] if more > 0 else [])]


def _problems(document: Mapping[Any, Any], quota: int) -> Iterator[str]:
    unknown = [name for name in document if name not in _FIELDS]
    if unknown:
        yield f"a registration has no field {str(unknown[0])[:40]!r}"
    resources = document.get("resources")
    if not isinstance(resources, dict) or not all(isinstance(ids, list) for ids in resources.values()):
        yield "a registration has `resources`: a map from types to lists of ids"
        return
    count = sum(len(ids) for ids in resources.values())
    if count > quota:
        yield f"it registers {count} resources, and resource_quota of the master allows {quota}"
        return
    if len(resources) > TYPES_MAX:
        yield f"it registers {len(resources)} resource types, and there may be {TYPES_MAX}"
        return
    for kind, ids in resources.items():
        yield from _bad_type(kind)
        yield from _bad_ids(ids)
    yield from _bad_rest(document, resources)
    yield from _bad_reports(document)


def _bad_type(kind: object) -> Iterator[str]:
    try:
        check_resource_type(kind)
    except UsageError as error:
        yield str(error)


def _bad_ids(ids: Sequence[object]) -> Iterator[str]:
    try:
        checked = check_resource_ids(ids)
    except UsageError:
        for bare_id in ids:
            try:
                check_resource_ids([bare_id])
            except UsageError as error:
                yield str(error)
        return
    if len(set(checked)) != len(checked):
        yield f"the id {Counter(checked).most_common(1)[0][0]!r} is there twice for one type"


def _bad_rest(document: Mapping[Any, Any], resources: Mapping[Any, Any]) -> Iterator[str]:
    grains = document.get("grains", {})
    if not isinstance(grains, dict) or not all(isinstance(one, dict) for one in grains.values()):
        yield "`grains` of a registration is a map from SRNs to maps"
    stale = document.get("stale", [])
    if not isinstance(stale, list) or not all(isinstance(srn, str) for srn in stale):
        yield "`stale` of a registration is a list of SRNs"
    functions = document.get("functions", {})
    if not isinstance(functions, dict) or not all(isinstance(texts, list) for texts in functions.values()):
        yield "`functions` of a registration is a map from types to lists of functions"
        return
    size = sum(len(str(text).encode(errors="replace")) for texts in functions.values() for text in texts)
    if size > FUNCTIONS_BYTES_MAX:
        yield f"its functions have {size} bytes, and there may be {FUNCTIONS_BYTES_MAX}"
        return
    for kind, texts in functions.items():
        if kind not in resources:
            yield f"it has functions of the type {str(kind)[:64]!r}, and no resources of it"
        elif len(texts) > TYPE_FUNCTIONS_MAX:
            yield f"the type {str(kind)[:64]!r} has {len(texts)} functions, and there may be {TYPE_FUNCTIONS_MAX}"
        else:
            yield from (
                f"{str(text)[:80]!r} is not a function of a resource type" for text in texts if not _is_text(text)
            )


def _bad_reports(document: Mapping[Any, Any]) -> Iterator[str]:
    look, reports = document.get("look", ""), document.get("reports", {})
    if not isinstance(look, str) or len(look) > LOOK_MAX:
        yield "`look` of a registration is the name of a look"
    if not isinstance(reports, dict) or len(reports) > TYPES_MAX:
        yield f"`reports` of a registration is a map from {TYPES_MAX} types at most"
        return
    for kind, one in reports.items():
        yield from _bad_type(kind)
        try:
            read_report(one)
        except ValueError as error:
            yield f"the report of the type {str(kind)[:64]!r} is invalid: {error}"


def _is_text(text: object) -> bool:
    try:
        return isinstance(text, str) and is_function_name(parse_signature(text)[0]) and not is_absent(text)
    except RemoteProtocolError:
        return False


@dataclass(frozen=True, slots=True)
class Admitted:
    """The admitted part of a registration, and a sentence about each withheld resource."""

    resources: dict[str, list[str]]
    refused: list[str]


def admit(
    registering: RegistrationContext,
    minion: MinionId,
    rules: RegistrationRules,
    *,
    is_minion: Callable[[Sequence[str]], Iterable[str]],
) -> Admitted:
    """Withhold resources that the policy forbids, or that have the name of a minion.

    `is_minion` returns those of some ids that belong to minions: two different things must never answer to one name.
    """
    allowed = _allowed(rules.policy, minion)
    taken = frozenset(is_minion([bare_id for ids in registering.resources.values() for bare_id in ids]))
    kept: dict[str, list[str]] = {}
    refused: list[str] = []
    for kind, ids in registering.resources.items():
        kept[kind] = []
        for bare_id in ids:
            if bare_id in taken:
                refused.append(f"{kind}:{bare_id} has the id of a minion: give the resource another id")
            elif allowed is not None and not allowed(f"{kind}:{bare_id}"):
                refused.append(f"{kind}:{bare_id} may not be registered by {minion}: resource_policy of the master")
            else:
                kept[kind].append(bare_id)
    return Admitted(kept, refused)


def _allowed(policy: Mapping[str, Sequence[str]], minion: MinionId) -> Callable[[str], object] | None:
    """Whether this minion may register an SRN; None: it may register any."""
    if not policy:
        return None
    globs = [glob for minions, globs in policy.items() if fnmatchcase(minion, minions) for glob in globs]
    # An empty set of globs matches nothing.
    return re.compile("|".join(map(translate, globs)) or r"(?!)").fullmatch
