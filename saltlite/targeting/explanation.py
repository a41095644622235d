"""Why a target selects one minion or one resource, term by term."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.evaluate import Evaluation
from saltlite.targeting.expression import Engine, Place, Term, terms_of, written


@dataclass(frozen=True, slots=True)
class TermTruth:
    """What one term comes to."""

    place: Place
    true: bool
    why: str
    """What the term asks of it, `its id is 'web1'`, and whatever else is to be said."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a target comes to for one minion or resource."""

    id: TargetId
    owner: MinionId | None
    """The minion that manages it; None for a minion."""
    read_as: str
    """The target as it was read, a compound target with its nodegroups written out."""
    terms: tuple[TermTruth, ...]
    selected: bool
    verdict: str
    """One sentence."""


def explain_one(evaluation: Evaluation, target_id: TargetId, owner: MinionId | None) -> Explanation:
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


def _truths(evaluation: Evaluation, target_id: TargetId, owner: MinionId | None) -> Iterator[TermTruth]:
    for term, _positive in terms_of(evaluation.expression):
        matcher = evaluation.matchers[term]
        if owner is None:
            true = evaluation.is_true_of_minion(MinionId(target_id), term)
        else:
            true = matcher.of_resource(target_id, owner)
        why = matcher.asks(owner)
        if owner is not None and true and not matcher.names_resource(target_id, owner):
            why += "; this narrows, and selects no resource"
        yield TermTruth(term.place, true, why)


def _verdict(evaluation: Evaluation, srn: TargetId, owner: MinionId) -> str:
    if evaluation.selects(srn, owner):
        return f"selected, through its minion {owner!r}" if _through_owner(evaluation) else "selected"
    if not evaluation.is_true(srn, owner):
        return "not selected: the target is false for it"
    return (
        "not selected: the target is true for it, but nothing in it names resources, as T@, G@, P@, L@, E@ and its "
        "own id do; globs, M@, the name of its minion and what is under `not` only narrow"
    )


def _through_owner(evaluation: Evaluation) -> bool:
    expression = evaluation.expression
    return isinstance(expression, Term) and expression.engine is Engine.WORD and not any(evaluation.names())
