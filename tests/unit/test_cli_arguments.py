"""Words of the command line as values."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.cli.options import DURATION_MAX_S, format_duration, parse_duration
from saltlite.client.arguments import parse_arguments, parse_value, split_calls
from saltlite.errors import UsageError


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("[1, a, true]", [1, "a", True]),
        ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
        ('{"a": "1"}', {"a": "1"}),
    ],
)
def test_a_word_that_plainly_is_a_value_becomes_it(word: str, value: object) -> None:
    parsed = parse_value(word)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    "word",
    [
        "", "-", "a: b", "1_000", "yes", "no", "on", "0644", "0x1f", "1e5", "1.", ".5", "+1", "1.2.3", "nan",
        "inf", "~", "web1", "x==y", "\u0661", "tab\there", "1\n", "[1,\n2]", "{{ name }}",
        "[ -f /x ] && echo y", "{a: b]", "20260131235959123456",
        "9" * 5000, "-" + "9" * 30, '"plain"', "'", '"" or ""', "'" * 5000,
    ],
)  # fmt: skip
def test_a_word_that_would_lose_something_stays_text(word: str) -> None:
    assert parse_value(word) == word


@pytest.mark.parametrize(
    ("word", "text"), [('"5"', "5"), ("'1.10'", "1.10"), ('"true"', "true"), ("'{a: 1}'", "{a: 1}")]
)
def test_quotes_make_text_of_what_would_be_a_value(word: str, text: str) -> None:
    assert parse_value(word) == text


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("name=nginx", "name", "nginx"),
        ("n=1", "n", 1),
        ("e=", "e", ""),
        ("s=a=b", "s", "a=b"),
        ("t=a\nb", "t", "a\nb"),
    ],
)
def test_name_equals_value_is_a_keyword_argument(word: str, name: str, value: Any) -> None:
    assert parse_arguments([word]) == ([], {name: value})


@pytest.mark.parametrize("word", ["x==y", "=1", "1a=2", "a-b=1", "--opt=1", "dd if=x", "a.b=1"])
def test_what_is_not_an_identifier_before_an_equals_sign_is_positional(word: str) -> None:
    assert parse_arguments([word]) == ([word], {})


@pytest.mark.parametrize(
    ("signature", "words", "expected"),
    [
        ("disk.tune(device:str,**kwargs)", ["/dev/sda1", "read-ahead=1024"], (["/dev/sda1"], {"read-ahead": 1024})),
        ("disk.tune(device:str,**kwargs)", ["device=/dev/sda1", "a.b=x"], ([], {"device": "/dev/sda1", "a.b": "x"})),
        ("disk.tune(device:str,**kwargs)", ["read-ahead=1024"], (["read-ahead=1024"], {})),
        ("disk.tune(device:str,**kwargs)", ["/dev/sda1", "-a=1"], (["/dev/sda1", "-a=1"], {})),
        ("pkg.install(name:str=None,**kwargs)", ["foo-bar=1.2"], (["foo-bar=1.2"], {})),
        ("test.arg(*args,**kwargs)", ["foo-bar=1.2"], (["foo-bar=1.2"], {})),
        ("cmd.run(cmd:str)", ["ls", "foo-bar=1.2"], (["ls", "foo-bar=1.2"], {})),
    ],
)
def test_a_name_with_a_hyphen_is_a_keyword_where_it_can_be_nothing_else(
    signature: str, words: list[str], expected: tuple[list[Any], dict[str, Any]]
) -> None:
    assert parse_arguments(words, [signature]) == expected
    assert parse_arguments(words, [signature, signature.replace(",**kwargs", "")])[1].keys() <= {"device"}


def test_a_keyword_that_stands_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'a' is given twice"):
        parse_arguments(["a=1", "a=2"])


def test_a_key_that_stands_twice_in_a_map_is_refused() -> None:
    with pytest.raises(UsageError, match="'a' occurs twice"):
        parse_value("{a: 1, a: 2}")


def value_for(annotation: str, word: str) -> object:
    """What a parameter with that annotation is given for the word."""
    return parse_arguments([word], [f"m.f(x:{annotation})"])[0][0]


@pytest.mark.parametrize(
    "word", ["1.10", "true", "0644", "None", "[a]", "{a: 1, a: 2}", "1_000", "5", "", "yes", '"plain"', "'{{"]
)
def test_a_parameter_of_text_gets_the_word_as_it_is(word: str) -> None:
    assert value_for("str", word) == word


@pytest.mark.parametrize(
    ("annotation", "word", "value"),
    [
        ("int", "5", 5),
        ("int", "-5", -5),
        ("float", "5", 5.0),
        ("float", ".5", 0.5),
        ("float", "1e3", 1000.0),
        ("float", "+2.", 2.0),
        ("bool", "yes", True),
        ("bool", "Off", False),
        ("bool", "TRUE", True),
        ("bool", "0", False),
        ("list", "[a, 1]", ["a", 1]),
        ("list", "a,1.10", ["a", "1.10"]),
        ("list", "a", ["a"]),
        ("list", "", []),
        ("dict", "{a: 1}", {"a": 1}),
        ("dict", '{"a": "1"}', {"a": "1"}),
        ("str|None", "None", None),
        ("str|None", "null", None),
        ("str|None", "1.10", "1.10"),
        ("bool|None", "None", None),
        ("bool|None", "", None),
        ("dict|None", "", None),
        ("list|None", "", []),
        ("str|None", "", ""),
        ("str", '"None"', "None"),
        ("str|None", '"None"', "None"),
        ("str", '"1.10"', "1.10"),
        ("str|int", "5", 5),
        ("str|int", "1.10", "1.10"),
        ("str|int", "true", "true"),
        ("str|float", "5", 5.0),
        ("str|list", "[a]", ["a"]),
        ("str|list", "a,b", "a,b"),
        ("int|bool", "1", 1),
        ("int|bool", "true", True),
        ("dict|list", "{a: 1}", {"a": 1}),
        ("dict|list", "a,b", ["a", "b"]),
    ],
)
def test_the_annotation_decides_what_a_word_becomes(annotation: str, word: str, value: object) -> None:
    found = value_for(annotation, word)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        ("int", "0644"), ("int", "1.5"), ("int", "x"), ("int", "1_000"), ("int", "true"), ("int", ""),
        ("int", "9" * 30),
        ("float", "x"), ("float", "nan"), ("float", "inf"), ("float", "1_0"), ("float", "1e999"), ("float", "\u0661"),
        ("float", "-"), ("bool", "maybe"), ("bool", "2"), ("bool", "None"), ("list", "{a: 1}"), ("list", "[a"),
        ("dict", "a"), ("dict", "[a]"), ("dict", "{a"), ("int|None", "x"),
    ],
)  # fmt: skip
def test_a_word_that_is_not_of_its_type_is_refused(annotation: str, word: str) -> None:
    with pytest.raises(UsageError, match=r"m\.f: argument 'x' takes "):
        value_for(annotation, word)


def test_the_refusal_names_the_argument_its_type_and_the_signature() -> None:
    text = "pkg.install(name:str|None=None,refresh:bool=False,**kwargs)"
    with pytest.raises(UsageError) as caught:
        parse_arguments(["vim", "refresh=maybe"], [text])
    assert str(caught.value) == (
        "pkg.install: argument 'refresh' takes bool, not 'maybe'; "
        "pkg.install(name: str | None = None, refresh: bool = False, **kwargs)"
    )


@pytest.mark.parametrize(
    ("signature", "words", "parsed"),
    [
        ("m.f(a:str,b:int)", ["1", "2"], (["1", 2], {})),
        ("m.f(a:str,b:int)", ["b=2", "1"], (["1"], {"b": 2})),
        ("m.f(*a:str)", ["1", "2"], (["1", "2"], {})),
        ("m.f(a,*b:str)", ["1", "2"], ([1, "2"], {})),
        ("m.f(*,a:str)", ["a=1"], ([], {"a": "1"})),
        ("m.f(**k:str)", ["a=1"], ([], {"a": "1"})),
        ("m.f(a:str,/,**k)", ["a=1"], ([], {"a": 1})),
        ("m.f(a:str)", ["1", "2", "b=3"], (["1", 2], {"b": 3})),
        ("m.f!risk", ["1"], ([1], {})),
    ],
)
def test_each_word_is_read_for_the_parameter_that_it_goes_to(
    signature: str, words: list[str], parsed: tuple[list[Any], dict[str, Any]]
) -> None:
    assert parse_arguments(words, [signature]) == parsed


@pytest.mark.parametrize(
    ("signatures", "value"),
    [
        (["m.f(x:str)", "m.f(y:str,z=1)"], "1"),
        (["m.f(x:str)", "m.f!risk"], "1"),
        (["m.f(x:str)", "m.f(x:int)"], 1),
        (["m.f(x:str)", "m.f(x)"], 1),
        (["m.f(x:str)", "m.f()"], 1),
    ],
)
def test_minions_that_disagree_on_a_parameter_leave_it_without_a_type(signatures: list[str], value: object) -> None:
    assert parse_arguments(["1"], signatures) == ([value], {})


@pytest.mark.parametrize(
    ("function", "words", "calls"),
    [
        ("a.b", [",", ",x", "y"], [("a.b", [",", ",x", "y"])]),
        ("a.b,c.d", [], [("a.b", []), ("c.d", [])]),
        ("a.b,c.d", ["x", "y"], [("a.b", ["x", "y"]), ("c.d", [])]),
        ("a.b,c.d", ["x", ",", "y"], [("a.b", ["x"]), ("c.d", ["y"])]),
        ("a.b,c.d", ["x", ",y", "z"], [("a.b", ["x"]), ("c.d", ["y", "z"])]),
        ("a.b,c.d,a.b", [",", ",x"], [("a.b", []), ("c.d", []), ("a.b", ["x"])]),
    ],
)
def test_a_comma_begins_the_arguments_of_the_next_function(
    function: str, words: list[str], calls: list[tuple[str, list[str]]]
) -> None:
    assert split_calls(function, words) == calls


@pytest.mark.parametrize(("function", "words"), [("a.b,c.d", [",", ","]), ("a.b,", []), (",a.b", []), ("a.b,,c.d", [])])
def test_a_comma_without_a_function_is_refused(function: str, words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"comma|arguments for more than the 2 functions"):
        split_calls(function, words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("250ms", 0.25), ("0", 0)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1w", "1h30m", "ms", "1 h", "nan", "1e3", "\u0665s", "1..2", "hd"])
def test_what_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="write 250ms, 30s, 5m, 1h or 2d"):
        parse_duration(text)


def test_the_longest_duration_is_taken_and_a_longer_one_is_not() -> None:
    assert parse_duration(f"{DURATION_MAX_S:.0f}") == DURATION_MAX_S
    with pytest.raises(UsageError, match="at most 365d"):
        parse_duration(f"{DURATION_MAX_S + 1:.0f}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.34, "0.3s"),
        (0.00004, "0s"),
        (5.9, "5s"),
        (240, "4m"),
        (3599, "59m"),
        (7300, "2h"),
        (200000, "2d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("signature", "word", "value"),
    [
        ("m.f(x=True)", "x=off", False),
        ("m.f(x=False)", "x=Yes", True),
        ("m.f(x=False)", "on", True),
        ("m.f(x=False)", "x=1", 1),
        ("m.f(x=False)", "x='on'", "on"),
        ("m.f(x=False)", "x=only", "only"),
        ("m.f(x=None)", "x=off", "off"),
        ("m.f(x='on')", "x=off", "off"),
        ("m.f(x)", "no", "no"),
        ("m.f(x:str=True)", "x=off", "off"),
        ("m.f(**x)", "x=off", "off"),
    ],
)
def test_a_switch_is_read_where_the_default_of_a_parameter_is_one(signature: str, word: str, value: object) -> None:
    positional, keywords = parse_arguments([word], [signature])
    assert [*positional, *keywords.values()] == [value]
    assert type([*positional, *keywords.values()][0]) is type(value)


def test_a_switch_stays_text_where_minions_differ_in_the_default() -> None:
    assert parse_arguments(["x=off"], ["m.f(x=True)", "m.f(x=None)"])[1] == {"x": "off"}
    assert parse_arguments(["x=off"], ["m.f(x=True)", "m.f(x=False)"])[1] == {"x": False}
