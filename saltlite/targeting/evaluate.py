"""Evaluates a target expression over a fleet, and explains the result for one minion or resource.

Minions are evaluated as sets. The parts of an `and` are evaluated one after the other, each on the minions that the
parts before it selected.

A resource is selected if the expression is true of it, and if a positive term names it. A term is positive under an
even number of `not`. T@, G@, P@, L@, E@ and a plain word that is the id of a resource name resources. Globs, M@ and the
name of the resource's minion do not: they only narrow the selection, as everything under `not` does.

A fleet may have a million resources, so the complete expression is not evaluated for each. The candidates come from
the terms that are expected to match the fewest resources, and the expression is evaluated for the candidates only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import TypeAlias

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.expression import (
    And,
    Engine,
    Expression,
    Not,
    Or,
    Term,
    WordPosition,
    located,
    terms_of,
    written,
)
from saltlite.targeting.fleet import Budget, BudgetError, DataQuery, Fleet
from saltlite.targeting.matchers import (
    GUESS_OF_ALL,
    GlobMatcher,
    GrainMatcher,
    ListMatcher,
    Matcher,
    MinionMatcher,
    Named,
    RegexMatcher,
    TypeMatcher,
    WordMatcher,
    address_matcher,
    as_set,
    parse_network,
    pillar_matcher,
)
from saltlite.targeting.patterns import has_wildcard
from saltlite.targeting.subdict import Subdict

ResourceTest: TypeAlias = Callable[[TargetId, MinionId], bool]
"""Whether something is true of the resource with this SRN and this owner."""

_MATCHES_NONE = MinionMatcher(frozenset, "nothing is true")
"""Takes the place of a term in `minions_without`."""

_EVALUATED_FIRST = (Engine.LIST, Engine.TYPE)
"""Cheap terms that match few minions: a list matches those that it names, and a type matches none."""

_STEPS_OF_A_PART = 20
"""Budget steps for evaluating a part of the expression on minions."""

_STEPS_OF_A_MEMBER = 1 / 4
"""Budget steps for each minion that a part is evaluated on."""

_UNBOUNDED = GUESS_OF_ALL**2
"""The estimate for a part that sets no upper bound. It is more than the sum of all others, so `resources` never chooses
such a part, whose list of matchers is empty."""


class TargetEvaluation:
    """Decides which minions and resources of a fleet an expression selects."""

    def __init__(self, expression: Expression, fleet: Fleet, *, globs_take_resources: bool = False) -> None:
        """`globs_take_resources`: globs also select the resources of matching minions.

        Raises UsageError for an invalid term. Later calls raise BudgetError only.
        """
        self.expression = expression
        self._fleet = fleet
        self._positive = [term for term, positive in terms_of(expression) if positive]
        self.matchers: dict[Term, Matcher] = {}
        for term, _positive in terms_of(expression):
            try:
                self.matchers[term] = _matcher(term, fleet, globs_take_resources=globs_take_resources)
            except BudgetError:
                raise
            except UsageError as error:
                raise UsageError(located(term.place, str(error))) from None

    def is_true_of_minion(self, minion: MinionId, term: Term) -> bool:
        """Whether one term of the expression is true of this minion."""
        return minion in self.matchers[term].minions({minion})

    @cached_property
    def minions(self) -> frozenset[MinionId]:
        """The minions that the expression is true of."""
        return frozenset(self._minions_among(self.expression, as_set(self._fleet.minions())))

    def minions_without(self, term: Term) -> Set[MinionId]:
        """The minions that would be selected if this term matched none."""
        # A second TargetEvaluation would make all matchers again, and the budget would be charged for them twice.
        matcher, self.matchers[term] = self.matchers[term], _MATCHES_NONE
        try:
            return self._minions_among(self.expression, as_set(self._fleet.minions()))
        finally:
            self.matchers[term] = matcher

    def resources(self) -> dict[TargetId, MinionId]:
        """The selected resources with their owners. Each call computes them again."""
        matchers = [self.matchers[term] for term in self._positive]
        if all(isinstance(part, Term) for part in _alternatives(self.expression)):
            # A term is true of every resource that it names, and one true term is enough here.
            return {srn: owner for matcher in matchers for srn, owner in matcher.naming_rows()}
        # Local names, because there may be a million candidates.
        is_true, is_named = self.is_true_of_resource, self.is_named
        estimate, bounding = self._upper_bound(self.expression)
        if estimate < sum(matcher.guess() for matcher in matchers):
            candidates = (row for matcher in bounding for row in matcher.rows())
            return {srn: owner for srn, owner in candidates if is_true(srn, owner) and is_named(srn, owner)}
        candidates = (row for matcher in matchers for row in matcher.naming_rows())
        return {srn: owner for srn, owner in candidates if is_true(srn, owner)}

    def selects(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether this resource is selected."""
        return self.is_true_of_resource(srn, owner) and self.is_named(srn, owner)

    def is_named(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether a positive term names this resource."""
        return any(names_resource(srn, owner) for names_resource in self._naming_tests)

    @cached_property
    def is_true_of_resource(self) -> ResourceTest:
        """Tests whether the expression is true of a resource, whether or not a term names it."""
        return self._resource_test(self.expression)

    def names(self) -> Iterator[Named]:
        """The names that positive terms contain. Patterns contain none."""
        for term in self._positive:
            yield from self.matchers[term].named()

    @cached_property
    def _naming_tests(self) -> list[ResourceTest]:
        return [self.matchers[term].names_resource for term in self._positive]

    def _minions_among(self, expression: Expression, among: Set[MinionId]) -> Set[MinionId]:
        """Those of these minions that this part of the expression is true of."""
        self._fleet.budget.spend(_STEPS_OF_A_PART + len(among) * _STEPS_OF_A_MEMBER)
        match expression:
            case Term():
                return self.matchers[expression].minions(among)
            case Not(one):
                return among - self._minions_among(one, among)
            case Or(parts):
                return frozenset().union(*(self._minions_among(part, among) for part in parts))
            case And(parts):
                for part in sorted(parts, key=_is_evaluated_later):
                    among = self._minions_among(part, among)
                return among

    def _resource_test(self, expression: Expression) -> ResourceTest:
        match expression:
            case Term():
                return self.matchers[expression].of_resource
            case Not(one):
                is_true = self._resource_test(one)
                return lambda srn, owner: not is_true(srn, owner)
            case Or(parts):
                return _any_of([self._resource_test(part) for part in parts])
            case And(parts):
                return _all_of([self._resource_test(part) for part in parts])

    def _upper_bound(self, expression: Expression) -> tuple[int, list[Matcher]]:
        """An estimate of how many resources this part can be true of, and the matchers that find them all.

        Every resource that the part is true of is in the `rows` of at least one of these matchers.
        """
        match expression:
            case Term():
                matcher = self.matchers[expression]
                return matcher.guess(), [matcher]
            case Not():
                return _UNBOUNDED, []
            case Or(parts):
                bounds = [self._upper_bound(part) for part in parts]
                matchers = [matcher for _estimate, found in bounds for matcher in found]
                return sum(estimate for estimate, _found in bounds), matchers
            case And(parts):
                return min((self._upper_bound(part) for part in parts), key=lambda bound: bound[0])


def _matcher(term: Term, fleet: Fleet, *, globs_take_resources: bool) -> Matcher:
    """The matcher of the term. Raises UsageError for an invalid term."""
    pattern = term.pattern
    match term.engine:
        case Engine.WORD if has_wildcard(pattern):
            return GlobMatcher(fleet, pattern, takes_resources=globs_take_resources)
        case Engine.WORD:
            return WordMatcher(fleet, pattern)
        case Engine.MANAGER:
            return GlobMatcher(fleet, pattern, takes_resources=False)
        case Engine.LIST:
            return ListMatcher(fleet, pattern)
        case Engine.PCRE:
            return RegexMatcher(fleet, pattern)
        case Engine.TYPE:
            return TypeMatcher(fleet, pattern)
        case Engine.IPCIDR:
            # Only checked here: the matcher reads it at its first use, which must not raise UsageError.
            parse_network(pattern)
            return address_matcher(fleet, pattern)
        case Engine.GRAIN | Engine.GRAIN_PCRE:
            return GrainMatcher(fleet, _query(term, fleet.budget))
        case Engine.PILLAR | Engine.PILLAR_PCRE:
            return pillar_matcher(fleet, _query(term, fleet.budget))
        case Engine.NODEGROUP | Engine.RANGE:
            raise AssertionError("the parser expands nodegroups and refuses ranges")


def _query(term: Term, budget: Budget) -> DataQuery:
    """The key and value that a term of grains or pillar asks for. Raises UsageError for an invalid term."""
    query = DataQuery(term.pattern, term.delimiter, term.engine in {Engine.GRAIN_PCRE, Engine.PILLAR_PCRE})
    key, delimiter, pattern = term.pattern.partition(term.delimiter)
    if not (key and delimiter):
        example = f"os{term.delimiter}Debian, or os{term.delimiter}* for all that have it"
        raise UsageError(
            f"{pattern or term.pattern!r} has no key and value with a {term.delimiter!r} between: {example}"
        )
    # Only checked here: the fleet reads it at its first use, which must not raise UsageError.
    Subdict(query, budget)
    return query


def _alternatives(expression: Expression) -> Iterable[Expression]:
    """The parts of an `or`, of which one true part is enough; any other expression alone."""
    return expression.any if isinstance(expression, Or) else (expression,)


def _is_evaluated_later(part: Expression) -> bool:
    """Whether a part of an `and` is evaluated after the terms that leave it few minions."""
    return not (isinstance(part, Term) and part.engine in _EVALUATED_FIRST)


def _any_of(tests: Sequence[ResourceTest]) -> ResourceTest:
    def is_true(srn: TargetId, owner: MinionId) -> bool:
        for test in tests:  # noqa: SIM110 - any() takes three times as long, and there may be a million resources
            if test(srn, owner):
                return True
        return False

    return is_true


def _all_of(tests: Sequence[ResourceTest]) -> ResourceTest:
    def is_true(srn: TargetId, owner: MinionId) -> bool:
        for test in tests:  # noqa: SIM110 - all() takes three times as long, too
            if not test(srn, owner):
                return False
        return True

    return is_true


@dataclass(frozen=True, slots=True)
class TermTruth:
    """Whether one term of a target is true of the explained minion or resource."""

    place: WordPosition
    """The word that is the term."""
    true: bool
    why: str
    """The condition of the term in words, such as `its id is 'web1'`. It ends with a note if the term is true and only
    narrows."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a target selects one minion or resource, and why."""

    id: TargetId
    owner: MinionId | None
    """The minion that manages it; None for a minion."""
    read_as: str
    """The target as it was understood, written as a compound target. Nodegroups are expanded."""
    terms: tuple[TermTruth, ...]
    selected: bool
    verdict: str
    """The result and its reason, in words."""


def explain_one(evaluation: TargetEvaluation, target_id: TargetId, owner: MinionId | None) -> Explanation:
    """The explanation for a minion if `owner` is None, and otherwise for a resource of that owner."""
    if owner is None:
        selected = target_id in evaluation.minions
        verdict = "selected" if selected else "not selected: the target is false for it"
    else:
        selected = evaluation.selects(target_id, owner)
        verdict = _verdict(evaluation, target_id, owner)
    return Explanation(
        id=target_id,
        owner=owner,
        read_as=written(evaluation.expression),
        terms=tuple(_term_truths(evaluation, target_id, owner)),
        selected=selected,
        verdict=verdict,
    )


def _term_truths(evaluation: TargetEvaluation, target_id: TargetId, owner: MinionId | None) -> Iterator[TermTruth]:
    for term, _positive in terms_of(evaluation.expression):
        matcher = evaluation.matchers[term]
        if owner is None:
            true = evaluation.is_true_of_minion(MinionId(target_id), term)
        else:
            true = matcher.of_resource(target_id, owner)
        why = matcher.condition(owner)
        if owner is not None and true and not matcher.names_resource(target_id, owner):
            why += "; this narrows, and selects no resource"
        yield TermTruth(term.place, true, why)


def _verdict(evaluation: TargetEvaluation, srn: TargetId, owner: MinionId) -> str:
    if evaluation.selects(srn, owner):
        return f"selected, through its minion {owner!r}" if _is_single_glob(evaluation) else "selected"
    if not evaluation.is_true_of_resource(srn, owner):
        return "not selected: the target is false for it"
    return (
        "not selected: the target is true for it, but nothing in it names resources, as T@, G@, P@, L@, E@ and its "
        "own id do; globs, M@, the name of its minion and what is under `not` only narrow"
    )


def _is_single_glob(evaluation: TargetEvaluation) -> bool:
    """Whether the target is one glob. Such a target selects resources through the minions that manage them."""
    expression = evaluation.expression
    # A plain word without wildcards would be a name.
    return isinstance(expression, Term) and expression.engine is Engine.WORD and not any(evaluation.names())
