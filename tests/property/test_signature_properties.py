"""Texts of functions: whatever was written is read back, and nothing that is read does harm."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import RemoteProtocolError
from saltlite.model.signature import (
    TYPES,
    Parameter,
    ParameterKind,
    Signature,
    bind,
    format_signature,
    parse_signature,
    short_default,
)

NAMES = [f"p{number}" for number in range(6)]
ORDER = [
    ParameterKind.POSITIONAL_ONLY,
    ParameterKind.EITHER,
    ParameterKind.REST,
    ParameterKind.KEYWORD_ONLY,
    ParameterKind.KEYWORDS,
]
defaults = st.text(max_size=45).map(short_default)
types = st.lists(st.sampled_from(TYPES), max_size=3, unique=True)


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    kinds = sorted(draw(st.lists(st.sampled_from(ORDER), max_size=6)), key=ORDER.index)
    parameters: list[Parameter] = []
    optional = False
    for name, kind in zip(NAMES, kinds, strict=False):
        if kind in (ParameterKind.REST, ParameterKind.KEYWORDS):
            if all(one.kind is not kind for one in parameters):
                parameters.append(Parameter(name, kind, draw(types)))
            continue
        by_place = kind is not ParameterKind.KEYWORD_ONLY
        default = draw(defaults if optional and by_place else st.none() | defaults)
        optional = optional or (by_place and default is not None)
        parameters.append(Parameter(name, kind, draw(types), default))
    return Signature(parameters)


@given(signatures(), st.sampled_from(["", "remove", "upgrade-all"]))
def test_a_signature_survives_being_written(signature: Signature, risk: str) -> None:
    assert parse_signature(format_signature("mod.fun", signature, risk)) == ("mod.fun", signature, risk)


@given(st.text() | st.text("ab.(),*=:|!/ str1-", max_size=40).map(lambda text: "a.b(" + text))
def test_reading_ends_in_a_signature_or_in_a_refusal(text: str) -> None:
    try:
        function, signature, risk = parse_signature(text)
    except RemoteProtocolError:
        return
    again = format_signature(function, signature, risk)
    assert parse_signature(again) == (function, signature, risk)


@given(st.text())
def test_what_is_cut_and_mended_from_a_real_text_is_read_or_refused(noise: str) -> None:
    text = "pkg.install(name:str|None=None,/,refresh:bool=False,*names,only=1,**kwargs)!remove"
    at = random.Random(noise).randrange(len(text))
    for damaged in (text[:at] + noise + text[at:], text[:at] + noise + text[at + 3 :]):
        try:
            assert parse_signature(damaged)[0]
        except RemoteProtocolError:
            continue


@given(
    signatures(),
    st.lists(st.integers(0, 9), max_size=5),
    st.dictionaries(st.sampled_from([*NAMES, "other"]), st.integers(0, 9), max_size=4),
)
def test_a_call_is_refused_exactly_when_python_refuses_it(
    signature: Signature, args: list[int], kwargs: dict[str, int]
) -> None:
    plain = Signature(
        Parameter(one.name, one.kind, (), None if one.default is None else "0") for one in signature.parameters
    )
    parameters = format_signature("f", plain).removeprefix("f(").removesuffix(")")
    function = eval(f"lambda {parameters}: 0")  # noqa: S307 - Python itself is the measure, and the text is ours
    try:
        function(*args, **kwargs)
        fits = True
    except TypeError:
        fits = False
    assert (bind("mod.fun", signature, args, kwargs) == "") is fits
