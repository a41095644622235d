"""What the index says of a function's parameters, without running its file."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path

import pytest

from saltlite.loader.index import Index, build_index
from saltlite.loader.scan import parse_module, scan_module
from saltlite.loader.search_path import Layer
from saltlite.model.signature import function_of, parse_signature


def texts(source: str) -> list[str]:
    return list(scan_module(parse_module(textwrap.dedent(source).encode(), "mod.py"), "mod").texts)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ("", "f()"),
        ("a, b=1, *c, d, e='x', **k", "f(a,b=1,*c,d,e='x',**k)"),
        ("a, /, b, *, c", "f(a,/,b,*,c)"),
        ("a=-1, b=None, c=[], d={}, e=True", "f(a=-1,b=None,c=[],d={},e=True)"),
        ("a=(), b=[1], c=X, d=g(1), e='a,b'", "f(a=...,b=...,c=...,d=...,e=...)"),
        ("a: str, b: int = 1, *c: bool, **k: float", "f(a:str,b:int=1,*c:bool,**k:float)"),
        ("a: str | None = None", "f(a:str|None=None)"),
        ("a: 'str | None'", "f(a:str|None)"),
        ("a: Optional[str], b: typing.Union[int, str]", "f(a:str|None,b:int|str)"),
        ("a: list[str], b: dict[str, int], c: Sequence[int]", "f(a:list,b:dict,c:list)"),
        ("a: Any, b: str | Path, c: None, d: 'not python('", "f(a,b,c,d)"),
        ("a, __pub_jid=None", "f(a)"),
        ("a, *, __pub_jid=None, b=1", "f(a,*,b=1)"),
        ("a, __pub_jid=None, b=1", "f"),
        (", ".join(f"p{number}" for number in range(70)), "f"),
    ],
)
def test_parameters_are_read_from_the_text_of_the_file(parameters: str, text: str) -> None:
    assert texts(f"def f({parameters}): pass") == [text]


@pytest.mark.parametrize(
    "source",
    [
        "@decorated\ndef f(a): pass",
        "@which('git')\n@ignores_kwargs('b')\ndef f(a): pass",
        "@depends('git', fallback_function=g)\ndef f(a): pass",
        "@depends('git', **more)\ndef f(a): pass",
        "if x:\n  def f(a): pass\nelse:\n  def f(b): pass",
        "def f(a): pass\nf = wrap(f)",
    ],
)
def test_what_may_not_be_what_it_takes_is_not_said(source: str) -> None:
    assert texts(source) == ["f"]


@pytest.mark.parametrize("decorator", ["memoize", "depends('git')", "salt.utils.decorators.path.which('git')"])
def test_a_decorator_that_is_known_to_change_nothing_leaves_the_parameters(decorator: str) -> None:
    assert texts(f"@{decorator}\ndef f(a, b=1): pass") == ["f(a,b=1)"]


@pytest.mark.parametrize("value", ["f", "alias_function(f, 'g')", "salt.utils.functools.alias_function(f, 'g')"])
def test_a_second_name_of_a_function_is_a_function_that_takes_the_same(value: str) -> None:
    assert texts(f"def f(a): pass\ng = {value}") == ["f(a)", "g(a)"]


@pytest.mark.parametrize("decorator", ["same_parameters(f)", "decorators.same_parameters(f)"])
def test_a_function_may_have_the_parameters_of_one_above_it(decorator: str) -> None:
    source = f"def f(a: str, *, b=1): pass\n@{decorator}\n@depends('x')\ndef g(*args, **kwargs): pass"
    assert texts(source) == ["f(a:str,*,b=1)", "g(a:str,*,b=1)"]


def test_a_function_with_the_parameters_of_an_unknown_one_takes_what_nobody_knows() -> None:
    assert texts("@same_parameters(elsewhere)\ndef g(*args, **kwargs): pass") == ["g"]


def test_a_name_for_anything_else_is_no_function() -> None:
    assert texts("log = getLogger(__name__)\nlimit = 5\nother = elsewhere\ndef f(): pass") == ["f()"]


def test_two_definitions_that_take_the_same_are_one() -> None:
    assert texts("try:\n  def f(a): pass\nexcept E:\n  def f(a): return 1") == ["f(a)"]


def test_a_lambda_and_an_async_function_have_parameters_too() -> None:
    assert texts("f = lambda a, b=1: a\nasync def g(c): pass") == ["f(a,b=1)", "g(c)"]


TYPED = """
class Base(TypedDict, total=False):
    refresh: bool
class Options(Base, total=False):
    version: str | None
    size: Required[int]
    mode: typing.NotRequired[Any]
class Plain:
    x: int
def f(name: str, **options: {annotation}): pass
"""


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("Unpack[Options]", "f(name:str,*,refresh:bool=...,version:str|None=...,size:int,mode=...)"),
        ("typing.Unpack[Base]", "f(name:str,*,refresh:bool=...)"),
        ("Unpack[Plain]", "f(name:str,**options)"),
        ("Unpack[Elsewhere]", "f(name:str,**options)"),
        ("int", "f(name:str,**options:int)"),
    ],
)
def test_keywords_that_a_typed_dict_of_the_file_names_are_all_that_is_taken(annotation: str, text: str) -> None:
    assert texts(TYPED.replace("{annotation}", annotation)) == [text]


@pytest.mark.parametrize("key", ["remove_", "remove"])
def test_a_declared_risk_stands_behind_the_parameters(key: str) -> None:
    source = f"__func_alias__ = {{'remove_': 'remove'}}\n__risk__ = {{'{key}': 'remove'}}\ndef remove_(name): pass"
    assert texts(source) == ["remove(name)!remove"]


def test_a_risk_that_is_no_word_still_counts() -> None:
    assert texts("__risk__ = {'f': 'Very bad'}\ndef f(): pass") == ["f()!risky"]


@pytest.mark.parametrize("declared", ["['f']", "make()", "'f'", "None"])
def test_a_declaration_that_is_no_literal_dict_declares_nothing(declared: str) -> None:
    assert texts(f"__risk__ = {declared}\ndef f(): pass") == ["f()"]


def index_of(*folders: Path) -> Index:
    return build_index([Layer(f"l{number}", str(folder)) for number, folder in enumerate(folders)])


def write(folder: Path, **sources: str) -> Path:
    folder.mkdir(exist_ok=True)
    for stem, source in sources.items():
        (folder / f"{stem}.py").write_text(source)
    return folder


MAYBE = "def __virtual__(): return 'pkg' if __grains__ else False\n"
ALWAYS = "def __virtual__(): return 'pkg'\n"


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        ({"pkg": "def f(a): pass"}, {"pkg2": f"{MAYBE}def f(b): pass"}, ["pkg.f(a)"]),
        ({"pkg": "def f(a): pass"}, {"pkg2": f"{MAYBE}def g(b): pass"}, ["pkg.f(a)", "pkg.g(b)"]),
        ({"apt": f"{MAYBE}def f(a): pass"}, {"yum": f"{MAYBE}def f(b): pass"}, ["pkg.f(*args,a=...,b=...)"]),
        ({"apt": f"{MAYBE}def f(a): pass"}, {"yum": f"{MAYBE}def f(a): pass"}, ["pkg.f(a)"]),
        ({"apt": f"{MAYBE}def f(a, b=1): pass", "yum": f"{MAYBE}def f(a): pass"}, {}, ["pkg.f(a,*args,b=1)"]),
        ({"apt": f"{MAYBE}def f(test=False): pass", "yum": f"{MAYBE}def f(): pass"}, {}, ["pkg.f(*args,**kwargs)"]),
        (
            {"apt": f"{MAYBE}__risk__ = {{'f': 'remove'}}\ndef f(a): pass"},
            {"yum": f"{MAYBE}def f(b): pass"},
            ["pkg.f(*args,a=...,b=...)!remove"],
        ),
        ({"own": f"{ALWAYS}def f(a): pass"}, {"yum": f"{MAYBE}def f(test=False): pass"}, ["pkg.f(a)"]),
        ({"pkg": "def __virtual__(): return True\ndef f(a): pass"}, {"yum": f"{MAYBE}def f(b): pass"}, ["pkg.f(a)"]),
        ({"pkg": "__replace__ = True\ndef f(a): pass"}, {"yum": f"{MAYBE}def g(b): pass"}, ["pkg.f(a)"]),
    ],
)
def test_a_text_is_told_where_it_is_certain_which_file_provides_the_function(
    tmp_path: Path, high: dict[str, str], low: dict[str, str], expected: list[str]
) -> None:
    index = index_of(write(tmp_path / "high", **high), write(tmp_path / "low", **low))
    assert [text for text in index.function_texts({}) if text.startswith("pkg.")] == expected


def test_the_provider_that_the_configuration_names_is_the_one_that_is_described(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, pkg="def f(a): pass", other="def f(b): pass"))
    assert index.function_texts({"pkg": "other", "new": "other", "x": "nosuch"}) == [
        "new.f(b)",
        "other.f(b)",
        "pkg.f(b)",
    ]


def test_every_text_of_the_shipped_modules_is_within_the_grammar_and_complete() -> None:
    from saltlite.loader.search_path import search_layers

    for text in build_index(search_layers({})).function_texts({}):
        assert parse_signature(text)[1] is not None, text


def test_the_text_of_one_function_is_the_one_among_all(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, pkg="def f(a): pass", other=f"{MAYBE}def f(b): pass", yum=f"{MAYBE}def g(): pass"))
    for providers in ({}, {"pkg": "other", "new": "other", "x": "nosuch"}):
        for text in index.function_texts(providers):
            assert index.function_text(function_of(text), providers) == text
    assert index.function_text("pkg.nosuch", {}) is None
    assert index.function_text("nosuch.f", {}) is None
    assert index.function_text("pkg", {}) is None


def test_texts_survive_pickling(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, a="def f(b): pass"))
    copy: Index = pickle.loads(pickle.dumps(index))  # noqa: S301 - our own bytes
    assert copy.function_texts({}) == ["a.f(b)"]
