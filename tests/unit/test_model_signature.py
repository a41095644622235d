"""The text of a function: what it means, and what it may not hold."""

from __future__ import annotations

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.model.signature import (
    DEFAULT_MAX,
    FUNCTION_NAME_MAX,
    FUNCTION_TEXT_MAX,
    OMITTED,
    PARAMETERS_MAX,
    RISK_MAX,
    Parameter,
    ParameterKind,
    Signature,
    absent_text,
    by_name,
    format_signature,
    is_absent,
    parse_signature,
    short_default,
    show_signature,
)


@pytest.mark.parametrize(
    "text",
    [
        "a.b", "a.b!remove", "a.b()", "a.b()!upgrade-all", "a.b(c)", "a.b(c=1)", "a.b(c:str)", "a.b(c:str|None=None)",
        "a.b(c,/)", "a.b(c,/,d)", "a.b(c,/,*,d)", "a.b(*,c)", "a.b(*c)", "a.b(*c:int,d,**e:str)", "a.b(c,*,d=1,e)",
        "a.b(c='x!y=z')", "a.b(c=[],d={})", "state.sls.x(y)", "a.b(\u00fc)",
    ],
)  # fmt: skip
def test_a_text_comes_back_as_it_was_read(text: str) -> None:
    assert format_signature(*parse_signature(text)) == text


def test_a_text_is_a_name_parameters_and_a_risk() -> None:
    found = parse_signature("pkg.install(name:str|None=None,/,refresh=False,*more:str,only:bool,**rest)!remove")
    assert found == (
        "pkg.install",
        Signature(
            [
                Parameter("name", ParameterKind.POSITIONAL_ONLY, ("str", "None"), "None"),
                Parameter("refresh", ParameterKind.EITHER, (), "False"),
                Parameter("more", ParameterKind.REST, ("str",)),
                Parameter("only", ParameterKind.KEYWORD_ONLY, ("bool",)),
                Parameter("rest", ParameterKind.KEYWORDS),
            ]
        ),
        "remove",
    )


def test_without_brackets_nothing_is_known_of_the_parameters() -> None:
    assert parse_signature("a.b!reboot") == ("a.b", None, "reboot")
    assert parse_signature("a.b()") == ("a.b", Signature(), "")


@pytest.mark.parametrize(
    "text",
    [
        "", "a", ".b", "a.", "a..b", "1a.b", "a.1b", "a.b-c", "a.\u00fc", "a b.c", "a.b(", "a.b)", "a.b((c))", "a.b(c",
        "a.b(c))", "a.b(c)d", "a.b!", "a.b()!", "a.b!A", "a.b!x y", "a.b(c)!x!y", "a.b(c,)", "a.b(,c)", "a.b(c,c)",
        "a.b(c:)", "a.b(c:object)", "a.b(c:str|)", "a.b(c:str|str)", "a.b(c=)", "a.b(c=(1))", "a.b(c d)", "a.b(1c)",
        "a.b(*)", "a.b(*,*c)", "a.b(*c,*d)", "a.b(*,**c)", "a.b(***c)", "a.b(**c,d)", "a.b(**c=1)", "a.b(*c=1)",
        "a.b(/)", "a.b(c,/,/)", "a.b(*,c,/)", "a.b(*c,/)", "a.b(c=1,d)", "a.b(c)\n", "a.b(c='\t')", "a.b(c, d)",
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="bad-signature"):
        parse_signature(text)


def long_text(length: int) -> str:
    return f"a.b({'c' * (length - 5)})"


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (long_text(FUNCTION_TEXT_MAX), long_text(FUNCTION_TEXT_MAX + 1)),
        (f"a.{'b' * (FUNCTION_NAME_MAX - 2)}", f"a.{'b' * (FUNCTION_NAME_MAX - 1)}"),
        (f"a.b!{'r' * RISK_MAX}", f"a.b!{'r' * (RISK_MAX + 1)}"),
        (f"a.b(c={'1' * DEFAULT_MAX})", f"a.b(c={'1' * (DEFAULT_MAX + 1)})"),
        (
            f"a.b({','.join(f'p{n}' for n in range(PARAMETERS_MAX))},/)",
            f"a.b({','.join(f'p{n}' for n in range(PARAMETERS_MAX + 1))})",
        ),
    ],
)
def test_each_limit_is_the_last_that_fits(fits: str, does_not: str) -> None:
    assert parse_signature(fits)
    with pytest.raises(RemoteProtocolError):
        parse_signature(does_not)


@pytest.mark.parametrize(
    ("default", "short"),
    [
        ("None", "None"),
        ("'/bin/sh'", "'/bin/sh'"),
        ("'a,b'", OMITTED),
        ("()", OMITTED),
        ("x" * 41, OMITTED),
        ("", OMITTED),
    ],
)
def test_a_default_that_the_grammar_does_not_take_is_only_said_to_be_there(default: str, short: str) -> None:
    assert short_default(default) == short


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "pkg.install(name:str|None=None,refresh:bool=False,**kwargs)!remove",
            "pkg.install(name: str | None = None, refresh: bool = False, **kwargs)",
        ),
        ("a.b(c=1,*d:int)", "a.b(c=1, *d: int)"),
        ("a.b(c,/,*,d)", "a.b(c, /, *, d)"),
    ],
)
def test_people_see_a_signature_as_python_writes_it(text: str, shown: str) -> None:
    function, signature, _risk = parse_signature(text)
    assert signature is not None
    assert show_signature(function, signature) == shown


def test_texts_are_found_by_the_name_of_their_function() -> None:
    texts = ["a.b(c)!x", "a.c!x", "a.d", "a.e?"]
    assert by_name(texts) == {"a.b": "a.b(c)!x", "a.c": "a.c!x", "a.d": "a.d", "a.e": "a.e?"}


def test_a_function_can_be_known_and_not_to_be_had() -> None:
    assert absent_text("a.b") == "a.b?"
    assert parse_signature("a.b?") == ("a.b", None, "")
    assert is_absent("a.b?")
    assert not is_absent("a.b(c=what?)")


@pytest.mark.parametrize("text", ["a.b()?", "a.b!x?", "a.b??", "?"])
def test_only_a_bare_name_can_be_absent(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_signature(text)
