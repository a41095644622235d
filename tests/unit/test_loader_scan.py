"""What the index learns from the text of a module file, without running it."""

from __future__ import annotations

import textwrap

import pytest

from saltlite.loader.scan import MODULE_BYTES_MAX, Scan, parse_module, scan_module


def scan(source: str, stem: str = "mod") -> Scan:
    return scan_module(parse_module(textwrap.dedent(source).encode(), f"{stem}.py"), stem)


def test_public_functions_are_those_without_underscore_under_their_alias() -> None:
    found = scan("""
        import os
        __func_alias__ = {"list_": "list"}
        CONSTANT = 1
        def list_(): pass
        def _private(): pass
        async def later(): pass
        short = lambda x: x
        class Thing:
            def method(self): pass
        """)
    assert found.functions == ("later", "list", "short")


def test_functions_inside_conditions_and_try_blocks_are_found() -> None:
    found = scan("""
        try:
            import nothing
        except ImportError:
            def fallback(): pass
        else:
            def normal(): pass
        if True:
            def a(): pass
        else:
            def b(): pass
        """)
    assert found.functions == ("a", "b", "fallback", "normal")


def test_type_checking_blocks_offer_nothing() -> None:
    found = scan("""
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            def only_for_types(): pass
        """)
    assert found.functions == ()


@pytest.mark.parametrize("name", ["__all__", "__load__"])
def test_a_list_of_names_limits_the_functions(name: str) -> None:
    assert scan(f"{name} = ['a']\ndef a(): pass\ndef b(): pass\n").functions == ("a",)


@pytest.mark.parametrize(
    ("source", "claims"),
    [
        ("", ("mod",)),
        ("__virtualname__ = 'x'", ("mod",)),
        ("def __virtual__(): return True", ("mod",)),
        ("def __virtual__(): return 'x'", ("x",)),
        ("def __virtual__(): return False", ("mod",)),
        ("def __virtual__(): return (False, 'no')", ("mod",)),
        ("__virtualname__ = 'x'\ndef __virtual__(): return __virtualname__", ("x",)),
        ("__virtualname__ = 'y'\ndef __virtual__(): return 'x'", ("y",)),
        ("__virtualname__ = 'x'\ndef __virtual__(): return compute()", ("x",)),
        ("def __virtual__(): return 'x' if a else 'y'", ("x", "y")),
        ("def __virtual__(): return 'x' if a else (False, 'no')", ("x",)),
        ("def __virtual__(): return a == b", ("mod",)),
        ("__virtual_aliases__ = ('b', 'c')", ("b", "c", "mod")),
    ],
)
def test_claimed_names(source: str, claims: tuple[str, ...]) -> None:
    found = scan(source)
    assert (found.claims, found.undetermined) == (claims, False)


@pytest.mark.parametrize(
    "source",
    [
        "def __virtual__(): return NAME",
        "def __virtual__(): return compute()",
        "from other import __virtual__",
        "if x:\n    __virtualname__ = 'a'\ndef __virtual__(): return True",
        "__virtualname__ = compute()\ndef __virtual__(): return __virtualname__",
    ],
)
def test_a_computed_name_is_undetermined(source: str) -> None:
    assert scan(source).undetermined


def test_a_return_of_a_nested_function_is_no_answer_of_virtual() -> None:
    found = scan("def __virtual__():\n    def inner(): return 'wrong'\n    return 'right'\n")
    assert found.claims == ("right",)


@pytest.mark.parametrize(
    ("source", "checked"),
    [
        ("def f(): pass", False),
        ("def __virtual__(): return True", False),
        ("def __virtual__(): return 'pkg'", False),
        ("__virtualname__ = 'pkg'\ndef __virtual__():\n    'Text.'\n    return __virtualname__", False),
        ("def __virtual__(): return False", True),
        ("def __virtual__(): return ''", True),
        ("def __virtual__(): return True if __grains__ else False", True),
        ("@gate\ndef __virtual__(): return True", True),
        ("def __virtual__():\n    look()\n    return True", True),
    ],
)
def test_a_file_is_checked_whose_virtual_may_refuse(source: str, checked: bool) -> None:
    assert scan(source).checked is checked


def test_replace_is_read() -> None:
    assert scan("__replace__ = True").replaces


@pytest.mark.parametrize(
    "source",
    [b"def broken(:\n", b"x = '\xff\xfe'\n", b"a = 1\x00\n", b"x = " + b"-" * 100_000 + b"1\n"],
    ids=["syntax", "encoding", "null byte", "nesting"],
)
def test_what_python_cannot_parse_is_a_syntax_error(source: bytes) -> None:
    with pytest.raises(SyntaxError):
        parse_module(source, "mod.py")


def test_a_file_beyond_the_limit_is_refused() -> None:
    with pytest.raises(SyntaxError, match="larger than a module may be"):
        parse_module(b"#" * (MODULE_BYTES_MAX + 1), "mod.py")


def test_invalid_escapes_of_an_author_do_not_warn() -> None:
    assert scan(r"def f(): return '\d'").functions == ("f",)
