"""Evaluates an expression over a fleet, and explains the result for one minion or resource.

Minions are evaluated as sets; each part of an `and` sees only what the parts before it left. A resource is selected
if the expression is true of it and a positive term *names* it: T@, G@, P@, L@, E@, or a word that is its id. Globs,
M@, its minion's name and everything under `not` only narrow the selection. Resources are therefore found through the
terms that match the fewest, and the complete expression is evaluated for these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from saltlite.errors import UsageError
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

_MATCHES_NONE = MinionMatcher(frozenset, "nothing is true")

Truth: TypeAlias = Callable[[TargetId, MinionId], bool]
"""A predicate of a resource and its owner."""


class TargetEvaluation:
    """One expression over one fleet."""

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
        return frozenset(self._minions(self.expression, as_set(self._fleet.minions())))

    def minions_without(self, term: Term) -> Set[MinionId]:
        """The minions that would be selected if this term matched none."""
        matcher, self.matchers[term] = self.matchers[term], _MATCHES_NONE
        try:
            return self._minions(self.expression, as_set(self._fleet.minions()))
        finally:
            self.matchers[term] = matcher

    def resources(self) -> dict[TargetId, MinionId]:
        """The selected resources with their owners. Each call walks the fleet."""
        if all(isinstance(part, Term) for part in _alternatives(self.expression)):
            return {srn: owner for term in self._positive for srn, owner in self.matchers[term].naming_rows()}
        is_true, is_named = self.is_true, self.is_named
        naming = [self.matchers[term] for term in self._positive]
        guess, bounding = self._bound(self.expression)
        if guess < sum(matcher.guess() for matcher in naming):
            rows = (row for matcher in bounding for row in matcher.rows())
            return {srn: owner for srn, owner in rows if is_true(srn, owner) and is_named(srn, owner)}
        rows = (row for matcher in naming for row in matcher.naming_rows())
        return {srn: owner for srn, owner in rows if is_true(srn, owner)}

    def selects(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether this resource is selected."""
        return self.is_true(srn, owner) and self.is_named(srn, owner)

    def is_named(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether a positive term names this resource."""
        return any(names(srn, owner) for names in self._naming)

    @cached_property
    def is_true(self) -> Truth:
        """Whether the expression is true of a resource."""
        return self._truth(self.expression)

    def names(self) -> Iterator[Named]:
        """The single names in positive terms."""
        for term in self._positive:
            yield from self.matchers[term].named()

    @cached_property
    def _naming(self) -> list[Truth]:
        return [self.matchers[term].names_resource for term in self._positive]

    def _minions(self, expression: Expression, among: Set[MinionId]) -> Set[MinionId]:
        self._fleet.budget.spend(_STEPS_OF_A_PART + len(among) * _STEPS_OF_A_MEMBER)
        match expression:
            case Term():
                return self.matchers[expression].minions(among)
            case Not(one):
                return among - self._minions(one, among)
            case Or(parts):
                return frozenset().union(*(self._minions(part, among) for part in parts))
            case And(parts):
                for part in sorted(parts, key=_takes_long):
                    among = self._minions(part, among)
                return among

    def _truth(self, expression: Expression) -> Truth:
        match expression:
            case Term():
                return self.matchers[expression].of_resource
            case Not(one):
                truth = self._truth(one)
                return lambda srn, owner: not truth(srn, owner)
            case Or(parts):
                return _one_of([self._truth(part) for part in parts])
            case And(parts):
                return _all_of([self._truth(part) for part in parts])

    def _bound(self, expression: Expression) -> tuple[int, list[Matcher]]:
        """Terms of which one matches every resource that the expression matches, and about how many they match."""
        match expression:
            case Term():
                matcher = self.matchers[expression]
                return matcher.guess(), [matcher]
            case Not():
                return _UNBOUND, []
            case Or(parts):
                bounds = [self._bound(part) for part in parts]
                return sum(guess for guess, _terms in bounds), [term for _guess, terms in bounds for term in terms]
            case And(parts):
                return min((self._bound(part) for part in parts), key=lambda bound: bound[0])


_STEPS_OF_A_PART = 20
"""Budget steps for a part of the expression."""

_STEPS_OF_A_MEMBER = 1 / 4
"""Budget steps for each minion in the sets of a part."""

_UNBOUND = GUESS_OF_ALL**2
"""More than the sum of all other estimates."""


def _one_of(truths: Sequence[Truth]) -> Truth:
    def is_true(srn: TargetId, owner: MinionId) -> bool:
        for truth in truths:  # noqa: SIM110 - any() costs three times as much, for up to a million resources
            if truth(srn, owner):
                return True
        return False

    return is_true


def _all_of(truths: Sequence[Truth]) -> Truth:
    def is_true(srn: TargetId, owner: MinionId) -> bool:
        for truth in truths:  # noqa: SIM110 - as above
            if not truth(srn, owner):
                return False
        return True

    return is_true


def _alternatives(expression: Expression) -> Iterable[Expression]:
    return expression.any if isinstance(expression, Or) else (expression,)


def _takes_long(expression: Expression) -> bool:
    """Whether the term is evaluated after those that name minions, on fewer minions."""
    return not (isinstance(expression, Term) and expression.engine in _NAMING_MINIONS)


_NAMING_MINIONS = (Engine.LIST, Engine.TYPE)


def _matcher(term: Term, fleet: Fleet, *, globs_take_resources: bool) -> Matcher:
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
            parse_network(pattern)
            return address_matcher(fleet, pattern)
        case Engine.GRAIN | Engine.GRAIN_PCRE:
            return GrainMatcher(fleet, _query(term, fleet.budget))
        case Engine.PILLAR | Engine.PILLAR_PCRE:
            return pillar_matcher(fleet, _query(term, fleet.budget))
        case Engine.NODEGROUP | Engine.RANGE:
            raise AssertionError("the parser expands nodegroups and refuses ranges")


def _query(term: Term, budget: Budget) -> DataQuery:
    """The query of the term. Raises UsageError for an invalid one."""
    query = DataQuery(term.pattern, term.delimiter, term.engine in {Engine.GRAIN_PCRE, Engine.PILLAR_PCRE})
    key, delimiter, pattern = term.pattern.partition(term.delimiter)
    if not (key and delimiter):
        example = f"os{term.delimiter}Debian, or os{term.delimiter}* for all that have it"
        raise UsageError(
            f"{pattern or term.pattern!r} has no key and value with a {term.delimiter!r} between: {example}"
        )
    Subdict(query, budget)
    return query


@dataclass(frozen=True, slots=True)
class TermTruth:
    """The truth of one term."""

    place: WordPosition
    true: bool
    why: str
    """The condition of the term, `its id is 'web1'`, with notes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a target selects one minion or resource, and why."""

    id: TargetId
    owner: MinionId | None
    """The minion that manages it; None for a minion."""
    read_as: str
    """The parsed target as a compound target, with expanded nodegroups."""
    terms: tuple[TermTruth, ...]
    selected: bool
    verdict: str
    """One sentence."""


def explain_one(evaluation: TargetEvaluation, target_id: TargetId, owner: MinionId | None) -> Explanation:
    """The explanation for this minion, or for this resource of that owner."""
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
        terms=tuple(_truths(evaluation, target_id, owner)),
        selected=selected,
        verdict=verdict,
    )


def _truths(evaluation: TargetEvaluation, target_id: TargetId, owner: MinionId | None) -> Iterator[TermTruth]:
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
        return f"selected, through its minion {owner!r}" if _through_owner(evaluation) else "selected"
    if not evaluation.is_true(srn, owner):
        return "not selected: the target is false for it"
    return (
        "not selected: the target is true for it, but nothing in it names resources, as T@, G@, P@, L@, E@ and its "
        "own id do; globs, M@, the name of its minion and what is under `not` only narrow"
    )


def _through_owner(evaluation: TargetEvaluation) -> bool:
    expression = evaluation.expression
    return isinstance(expression, Term) and expression.engine is Engine.WORD and not any(evaluation.names())
