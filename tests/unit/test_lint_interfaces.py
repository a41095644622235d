"""`saltlite interface`: making an interface of sources, and comparing two."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from saltlite.errors import UsageError
from saltlite.interfaces import Interface
from saltlite.interfaces.smi.contract import contract_of
from saltlite.lint.interface import changes_between, generate, shared_signature, version_problem
from saltlite.lint.source import SourceInterface, SourceModule, read_interfaces, read_module

APT = '''
__virtualname__ = "pkg"
def __virtual__():
    if __grains__.get("os_family") != "Debian":
        return False
    return __virtualname__
def install(name: str | None = None, refresh=False, fromrepo=None, pkgs=None, **kwargs) -> dict[str, Change]:
    """
    Install packages. And more.

    Much more.
    """
def version(*names, **kwargs) -> str:
    """The version."""
def hold(name): ...
def _private(): ...
def list_(x): ...
__func_alias__ = {"list_": "list"}
'''
YUM = """
def __virtual__():
    return "pkg" if __grains__["os_family"] in ("RedHat", "Suse") else False
def install(name: str | None = None, refresh=False, pkgs=None, normalize=True, **kwargs): ...
def version(*names, **kwargs) -> str: ...
def hold(name, normalize=True): ...
def groupinstall(name, skip=()): ...
"""


def module(source: str, stem: str) -> SourceModule:
    return read_module(f"{stem}.py", stem, ast.parse(source))


def generated(*modules: SourceModule) -> Interface:
    space: dict[str, object] = {}
    exec(generate("pkg", modules, {}), space)  # noqa: S102 - what was generated is to be Python
    made = space["PkgInterface"]
    assert isinstance(made, type)
    assert issubclass(made, Interface)
    return made()


def test_what_all_modules_have_is_the_core_and_the_rest_is_supported_where_they_are_used() -> None:
    contract = contract_of(type(generated(module(APT, "aptpkg"), module(YUM, "yumpkg"))))
    supported = {fun: one.supported.wanted if one.supported else {} for fun, one in contract.functions.items()}
    assert supported == {
        "hold": {},
        "install": {},
        "version": {},
        "groupinstall": {"os_family": ["RedHat", "Suse"]},
        "list": {"os_family": ["Debian"]},
    }


def test_a_function_takes_what_all_of_its_modules_take() -> None:
    contract = contract_of(type(generated(module(APT, "aptpkg"), module(YUM, "yumpkg"))))
    shown = {fun: str(one.signature) for fun, one in contract.functions.items()}
    assert shown["install"] == "(name: 'str | None' = None, refresh=False, pkgs=None, **kwargs) -> 'Any'"
    assert shown["version"] == "(*names, **kwargs) -> 'str'"
    assert shown["hold"] == "(name) -> 'Any'"
    assert contract.functions["install"].doc == "Install packages."
    assert contract.functions["version"].default() == ""


def test_every_module_keeps_to_the_interface_that_is_made_of_it() -> None:
    made = type(generated(module(APT, "aptpkg")))
    assert {fun: str(one.signature) for fun, one in contract_of(made).functions.items()}.keys() == {
        "hold", "install", "list", "version",
    }  # fmt: skip


def test_a_platform_that_no_text_tells_is_asked_for() -> None:
    quiet = module("def only(): ...", "quiet")
    with pytest.raises(UsageError, match="name it with --platform quiet:os_family=Debian"):
        generate("pkg", [quiet, module(YUM, "yumpkg")], {})
    text = generate("pkg", [quiet, module(YUM, "yumpkg")], {"quiet": {"os": ["BeOS"]}})
    assert '@Interface.supported(os=["BeOS"])\n    def only(self)' in text


def test_a_parameter_that_one_needs_is_needed_and_the_usual_default_is_taken() -> None:
    def signature(text: str) -> inspect.Signature:
        return module(f"def f({text}): ...", "m").functions["f"].signature

    assert str(shared_signature([signature("a=1, b=2"), signature("a, b=2"), signature("b=3, a=1")])) == "(a, b=2)"
    assert str(shared_signature([signature("a, *, b=1"), signature("a, b=1")])) == "(a, *, b=1)"
    assert str(shared_signature([signature("a, x=now()"), signature("a, x=now()")])) == "(a, x=now())"


# --- comparing


def interface(body: str, version: str = "1.0") -> SourceInterface:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = f'class T(Interface):\n    __modulename__ = "t"\n    __version__ = "{version}"\n{lines}\n'
    return read_interfaces("t.py", ast.parse(source), {})[0]


def changes(before: str, after: str) -> list[str]:
    return [one.sentence() for one in changes_between(interface(before), interface(after))]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("def f(self, a): ...", "def f(self, a): ...", []),
        ("def f(self): ...", "def f(self): ...\ndef g(self): ...", ["additive    g: the function is new"]),
        ("def f(self): ...", "def f(self, a=1): ...", ["additive    f: a is taken"]),
        ("def f(self, a=1): ...", "def f(self): ...", ["breaking    f: a is gone"]),
        ("def f(self, a): ...", "def f(self, b): ...", ["breaking    f: b was called a"]),
        ("def f(self): ...", "def f(self, a): ...", ["breaking    f: a is required now"]),
        (
            "def f(self, a=1): ...",
            "def f(self, a=2): ...",
            ["breaking    f: the default of a changed: a=2 now, 1 before"],
        ),
        (
            "def f(self) -> str: ...",
            "def f(self) -> str | None: ...",
            ["breaking    f: it returns str | None, and returned str"],
        ),
        (
            "def f(self) -> str | None: ...",
            "def f(self) -> str: ...",
            ["compatible  f: it returns str, and returned str | None"],
        ),
        ("def f(self): ...", "def f(self) -> str: ...", ["compatible  f: it returns str, and returned anything"]),
        (
            "def f(self): ...",
            "@Interface.supported(os=['A'])\ndef f(self): ...",
            ["breaking    f: it is available where os=A only"],
        ),
        (
            "@Interface.supported(os=['A'])\ndef f(self): ...",
            "@Interface.supported(os=['B'])\ndef f(self): ...",
            ["breaking    f: it is no longer supported where os=A", "compatible  f: it is supported where os=B"],
        ),
        (
            "def f(self): ...",
            "@Interface.not_applicable(os=['A'])\ndef f(self): ...",
            ["breaking    f: it is not applicable where os=A"],
        ),
        ("def f(self): 'a'", "def f(self): 'b'", ["compatible  f: the documentation changed"]),
        (
            "def f(self): ...\ndef g(self): ...",
            "__reserved__ = ['g']\ndef f(self): ...",
            ["breaking    g: the function is gone"],
        ),
        (
            "__reserved__ = ['g']\ndef f(self): ...",
            "def f(self): ...\ndef g(self): ...",
            ["breaking    g: the function is new though it is reserved"],
        ),
    ],
)
def test_each_change_says_whom_it_breaks(before: str, after: str, expected: list[str]) -> None:
    assert changes(before, after) == expected


def test_a_function_that_goes_is_to_be_reserved() -> None:
    assert changes("def f(self): ...\ndef g(self): ...", "def f(self): ...") == [
        "breaking    g: the function is gone; add it to __reserved__, so that g never comes back"
    ]


@pytest.mark.parametrize(
    ("after", "version", "problem"),
    [
        ("def f(self, a): ...", "1.1", "breaking changes require version 2.0, and it has 1.1"),
        ("def f(self, a): ...", "2.0", ""),
        ("def f(self, a=1): ...", "1.0", "additions require a version above 1.0, and it has 1.0"),
        ("def f(self, a=1): ...", "1.10", ""),
        ("def f(self): 'other'", "1.0", ""),
    ],
)
def test_the_version_has_to_fit_the_changes(after: str, version: str, problem: str) -> None:
    old, new = interface("def f(self): ..."), interface(after, version)
    assert version_problem(old, new, changes_between(old, new)) == problem


def test_an_interface_is_read_with_what_it_inherits(tmp_path: Path) -> None:
    known = {"T": interface("def f(self): ...")}
    (found,) = read_interfaces("u.py", ast.parse('class U(T):\n    __extends__ = "t"\n    def g(self): ...'), known)
    assert (found.module, found.extends, sorted(found.functions)) == ("t", "t", ["f", "g"])
