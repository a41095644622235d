"""Targeting: resolves a target to the minions and resources that it selects.

`expression` parses compound targets and nodegroups, `matchers` decides single terms, `evaluate` joins them, and
`patterns` runs globs and regular expressions within a `budget`. Ids, owners, grains and pillar come through the port
`fleet.Fleet`; `grain_index` answers questions about them on the master. Callers use `resolve` and `explain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.job import Target, TargetKind
from saltlite.targeting.evaluate import Explanation, TargetEvaluation, explain_one
from saltlite.targeting.expression import (
    Engine,
    Expression,
    Term,
    WordPosition,
    parse_compound,
    parse_nodegroup,
    terms_of,
)
from saltlite.targeting.fleet import Fleet, Selection
from saltlite.targeting.matchers import look_up
from saltlite.targeting.patterns import has_wildcard

_ENGINES = {
    TargetKind.GLOB: Engine.WORD,
    TargetKind.LIST: Engine.LIST,
    TargetKind.PCRE: Engine.PCRE,
    TargetKind.GRAIN: Engine.GRAIN,
    TargetKind.GRAIN_PCRE: Engine.GRAIN_PCRE,
    TargetKind.PILLAR: Engine.PILLAR,
    TargetKind.PILLAR_PCRE: Engine.PILLAR_PCRE,
    TargetKind.IPCIDR: Engine.IPCIDR,
}
_QUESTIONS = frozenset({TargetKind.GRAIN, TargetKind.GRAIN_PCRE, TargetKind.PILLAR, TargetKind.PILLAR_PCRE})


def resolve(target: Target, fleet: Fleet) -> Selection:
    """What the target selects. Raises UsageError, with the word and its position, for an invalid target.

    The resources are found at the first access to `Selection.resources`.
    """
    evaluation = _evaluation(target, fleet)
    named: set[TargetId] = set()
    id_collisions: list[frozenset[TargetId]] = []
    unknown: dict[str, None] = {}
    for name in evaluation.names():
        if name.minion is None and not name.rows:
            unknown[name.text] = None
        meant = {srn for srn, owner in name.rows if evaluation.selects(srn, owner)}
        if name.minion is not None and name.minion in evaluation.minions:
            meant.add(name.minion)
        if len(meant) > 1:
            id_collisions.append(frozenset(meant))
        else:
            named |= meant
    resources = _Resources(evaluation)
    return Selection(evaluation.minions, resources, frozenset(named), tuple(unknown), tuple(id_collisions))


def explain(target: Target, fleet: Fleet, name: str) -> Explanation:
    """Why the target selects a minion or resource, or does not. `name` is a minion id, an SRN or a bare id.

    Raises UsageError for an invalid target, and for an unknown or ambiguous name.
    """
    evaluation = _evaluation(target, fleet)
    minion = MinionId(name)
    if minion in fleet.minions():
        return explain_one(evaluation, minion, None)
    rows = look_up(fleet, name)
    if not rows:
        raise UsageError(f"{name[:80]!r} is neither an accepted minion nor a registered resource")
    if len(rows) > 1:
        srns = ", ".join(sorted(srn for srn, _owner in rows)[:5])
        raise UsageError(f"several resources have the id {name!r}: say which, as type:id; there are {srns}")
    return explain_one(evaluation, *rows[0])


def selects_alone(target: Target, fleet: Fleet, minion: MinionId, delimiter: str = ":") -> bool:
    """Whether the target selects this minion. The delimiter applies to targets of grains and pillar.

    Raises UsageError for an invalid target.
    """
    expression = _expression(target, fleet)
    if isinstance(expression, Term) and target.kind in _QUESTIONS:
        if not delimiter:
            raise UsageError("a delimiter is at least one character")
        expression = replace(expression, delimiter=delimiter)
    return minion in TargetEvaluation(expression, fleet, globs_take_resources=target.kind is TargetKind.GLOB).minions


def pillar_values(target: Target, fleet: Fleet) -> int:
    """How many complete pillar values the target compares, not counting nodegroups.

    Raises UsageError for an invalid target.
    """
    return len(_pillar_values(_expression(target, fleet)))


def wrong_pillar_values(target: Target, fleet: Fleet, explained: str = "") -> int:
    """How many of these values are wrong guesses: without them the target would select the same minions.

    A value that some other minion has is still wrong in `web1 and I@pin:1234`. When the target is explained for one
    minion, a value that this minion does not have is wrong, too. Raises UsageError, as `resolve` does.
    """
    evaluation, minion = _evaluation(target, fleet), MinionId(explained)
    is_known = minion in fleet.minions()
    wrong = 0
    for term in _pillar_values(evaluation.expression):
        not_of_it = is_known and not evaluation.is_true_of_minion(minion, term)
        wrong += not_of_it or evaluation.minions_without(term) == evaluation.minions
    return wrong


def pillar_pattern(target: Target, fleet: Fleet) -> str:
    """The first word that compares pillars with a pattern instead of a complete value; "" if there is none.

    Nodegroups do not count, as the configuration defines them. Raises UsageError for an invalid target.
    """
    for term, _positive in terms_of(_expression(target, fleet)):
        by_pattern = term.engine is Engine.PILLAR_PCRE or (term.engine is Engine.PILLAR and has_wildcard(term.pattern))
        if by_pattern and not term.place.group:
            return term.place.word
    return ""


def _pillar_values(expression: Expression) -> list[Term]:
    terms = (term for term, _positive in terms_of(expression) if term.engine is Engine.PILLAR)
    return [term for term in terms if not term.place.group and not has_wildcard(term.pattern)]


class _Resources(Mapping[TargetId, MinionId]):
    """The resources of a selection, found at the first access."""

    def __init__(self, evaluation: TargetEvaluation) -> None:
        self._evaluation = evaluation

    @cached_property
    def _found(self) -> dict[TargetId, MinionId]:
        return self._evaluation.resources()

    def __getitem__(self, srn: TargetId) -> MinionId:
        return self._found[srn]

    def __iter__(self) -> Iterator[TargetId]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _evaluation(target: Target, fleet: Fleet) -> TargetEvaluation:
    alone = target.kind is TargetKind.GLOB
    return TargetEvaluation(_expression(target, fleet), fleet, globs_take_resources=alone)


def _expression(target: Target, fleet: Fleet) -> Expression:
    if target.kind is TargetKind.COMPOUND:
        return parse_compound(target.expression, fleet.nodegroups())
    if target.kind is TargetKind.NODEGROUP:
        return parse_nodegroup(target.expression, fleet.nodegroups())
    engine = _ENGINES[target.kind]
    word = f"{engine}@{target.expression}" if engine else target.expression
    return Term(engine, target.expression, WordPosition(word, 0))
