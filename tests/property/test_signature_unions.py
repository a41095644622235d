"""The signature of a function that several files may provide takes what one of them takes."""

from __future__ import annotations

import inspect

from hypothesis import given
from hypothesis import strategies as st

from saltlite.loader.index import united
from saltlite.model.signature import Parameter, ParameterKind, Signature, format_signature, parse_signature

NAMES = st.lists(st.sampled_from("abcdef"), max_size=4, unique=True)
TYPES = st.sampled_from([(), ("str",), ("int", "None"), ("list",)])


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    placed = draw(NAMES)
    needed = draw(st.integers(0, len(placed)))
    made = [
        Parameter(name, ParameterKind.EITHER, draw(TYPES), None if place < needed else "1")
        for place, name in enumerate(placed)
    ]
    if draw(st.booleans()):
        made.append(Parameter("args", ParameterKind.REST, draw(TYPES)))
    for name in draw(st.lists(st.sampled_from("uvw"), max_size=2, unique=True)):
        made.append(Parameter(name, ParameterKind.KEYWORD_ONLY, draw(TYPES), draw(st.sampled_from([None, "2"]))))
    if draw(st.booleans()):
        made.append(Parameter("kwargs", ParameterKind.KEYWORDS))
    return Signature(made)


def callable_as(signature: Signature) -> inspect.Signature:
    """The same for Python, which knows what a call needs."""
    kinds = {
        ParameterKind.EITHER: inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ParameterKind.KEYWORD_ONLY: inspect.Parameter.KEYWORD_ONLY,
        ParameterKind.REST: inspect.Parameter.VAR_POSITIONAL,
        ParameterKind.KEYWORDS: inspect.Parameter.VAR_KEYWORD,
    }
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(one.name, kinds[one.kind], default=empty if one.default is None else one.default)
            for one in signature.parameters
        ]
    )


@given(
    st.lists(signatures(), min_size=1, max_size=4),
    st.integers(0, 5),
    st.lists(st.sampled_from("abcdefuvwz"), max_size=4, unique=True),
)
def test_a_call_that_one_of_them_takes_is_taken(found: list[Signature], places: int, words: list[str]) -> None:
    whole = united(found)
    assert whole is not None
    args, kwargs = [0] * places, dict.fromkeys(words, 0)
    for one in found:
        try:
            callable_as(one).bind(*args, **kwargs)
        except TypeError:
            continue
        callable_as(whole).bind(*args, **kwargs)


@given(st.lists(signatures(), min_size=1, max_size=4))
def test_what_comes_of_it_is_within_the_grammar(found: list[Signature]) -> None:
    whole = united(found)
    assert parse_signature(format_signature("m.f", whole)) == ("m.f", whole, "")


@given(signatures())
def test_one_signature_stays_as_it_is(one: Signature) -> None:
    assert united([one, one]) == one


def test_where_not_all_have_a_dry_run_the_union_has_none_and_test_is_any_other_word() -> None:
    installs = [parse_signature(f"pkg.install({text})")[1] for text in ("name,test=False", "name,version=None")]
    whole = united(installs)
    assert whole is not None
    assert whole.named("test") is None  # so `--test` is refused, and with a reason
    for words in ({"test": True}, {"version": "1"}):
        callable_as(whole).bind("vim", **words)


def test_where_all_have_a_dry_run_the_union_has_it() -> None:
    installs = [parse_signature(f"pkg.install({text})")[1] for text in ("name,test=False", "name,a=1,test=False")]
    whole = united(installs)
    assert whole is not None
    assert whole.named("test") is not None
