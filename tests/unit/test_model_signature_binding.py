"""What is said of a call that does not fit; that it is right, see test_signature_properties."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.model.signature import bind, parse_signature


@pytest.mark.parametrize(
    ("parameters", "args", "kwargs", "problem"),
    [
        ("a,b=1", [1], {}, ""),
        ("", [1], {}, "m.f takes no positional argument: m.f()"),
        ("a", [1, 2], {}, "m.f takes at most 1 positional argument, not 2: m.f(a)"),
        ("a,b=1", [1, 2, 3], {}, "m.f takes at most 2 positional arguments, not 3: m.f(a, b=1)"),
        ("a,b", [], {"b": 1}, "m.f needs 'a': m.f(a, b)"),
        ("a,*,b", [], {}, "m.f needs 'a', 'b': m.f(a, *, b)"),
        ("a", [1], {"a": 1}, "m.f is given 'a' twice, by its place and by its name: m.f(a)"),
        ("name:str", [], {"nmae": 1}, "m.f has no argument 'nmae' (did you mean 'name'?): m.f(name: str)"),
        ("name", [], {"zzz": 1}, "m.f has no argument 'zzz': m.f(name)"),
    ],
)
def test_a_misfit_is_one_sentence_with_the_signature(
    parameters: str, args: list[Any], kwargs: dict[str, Any], problem: str
) -> None:
    signature = parse_signature(f"m.f({parameters})")[1]
    assert signature is not None
    assert bind("m.f", signature, args, kwargs) == problem
