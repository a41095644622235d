"""`pkg_resource`: what package modules of Salt call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import pkg_resource

INSTALLED = {"vim": ["8.2", "9.0"], "python3": ["3.11"], "python3-yaml": ["6"]}


def compared(first: str, second: str, ignore_epoch: bool = False) -> int | None:
    if "?" in first:
        return None
    one, other = (text.rpartition(":")[2] if ignore_epoch else text for text in (first, second))
    return (one > other) - (one < other)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pkg.list_pkgs": lambda versions_as_list: {name: list(found) for name, found in INSTALLED.items()},
    "pkg.normalize_name": lambda name: name.removesuffix(":amd64"),
    "pkg.parse_arch": lambda name: dict(zip(("name", "arch"), (*name.split(":"), None), strict=False)),
    "pkg.version_cmp": compared,
    "config.valid_fileproto": lambda place: "://" in place,
    "cp.cache_file": lambda place, _env: False if "gone" in place else "/cache/" + place.rpartition("/")[2],
}


@pytest.fixture(autouse=True)
def _salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pkg_resource, "__salt__", FUNCTIONS, raising=False)


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        ({}, (None, None)),
        ({"name": "vim,git:amd64"}, ({"vim": None, "git": None}, "repository")),
        ({"name": "vim", "version": "9"}, ({"vim": "9"}, "repository")),
        ({"pkgs": ["vim", {"git:amd64": 2}]}, ({"vim": None, "git": "2"}, "repository")),
        ({"pkgs": ["git:amd64"], "normalize": False}, ({"git:amd64": None}, "repository")),
        ({"sources": [{"a": "salt://x/a.deb"}, {"b": "/b.deb"}]}, (["/cache/a.deb", "/b.deb"], "file")),
        ({"sources": "[{a: salt://x/a.deb}]"}, (["/cache/a.deb"], "file")),
        ({"name": "vim", "advisory_ids": ["RHSA-1"]}, (["RHSA-1"], "advisory")),
        ({"name": "vim", "advisory_ids": []}, (["vim"], "advisory")),
    ],
)
def test_the_arguments_of_an_installation_are_read(given: dict[str, Any], targets: tuple[Any, Any]) -> None:
    assert pkg_resource.parse_targets(**given) == targets


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"pkgs": ["a"], "sources": [{"a": "/a"}]}, SaltInvocationError),
        ({"pkgs": ["a"], "advisory_ids": ["x"]}, SaltInvocationError),
        ({"sources": [{"a": "relative.deb"}]}, SaltInvocationError),
        ({"sources": [{"a": "/a", "b": "/b"}]}, SaltInvocationError),
        ({"sources": "a"}, SaltInvocationError),
        ({"sources": [{"a": "salt://gone"}]}, CommandExecutionError),
    ],
)
def test_what_cannot_be_installed_is_an_error(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        pkg_resource.parse_targets(**given)


def test_versions_of_one_of_several_and_of_none() -> None:
    assert pkg_resource.version("vim") == "8.2,9.0"
    assert pkg_resource.version("vim", versions_as_list=True) == ["8.2", "9.0"]
    assert pkg_resource.version("nosuch", __pub_jid="20260131235959123456") == ""
    assert pkg_resource.version("vim", "nosuch") == {"vim": "8.2,9.0", "nosuch": ""}
    assert pkg_resource.version("vi*") == {"vim": "8.2,9.0"}
    assert pkg_resource.version("python*") == {"python3": "3.11", "python3-yaml": "6"}
    assert pkg_resource.version() == {}


@pytest.mark.parametrize(
    ("one", "operator", "other", "result"),
    [("1", "<", "2", True), ("1", ">=", "2", False), ("2", "==", "2", True), ("2", "!=", "2", False)],
)
def test_versions_are_compared_as_the_system_does(one: str, operator: str, other: str, result: bool) -> None:
    assert pkg_resource.version_compare(one, operator, other) is result
    assert pkg_resource.version_compare("9:1", "==", "1", ignore_epoch=True) is True


def test_what_cannot_be_compared_is_an_error() -> None:
    with pytest.raises(SaltInvocationError, match="is not one of"):
        pkg_resource.version_compare("1", "=<", "2")
    with pytest.raises(CommandExecutionError, match="cannot be compared"):
        pkg_resource.version_compare("?", "==", "2")


def test_lists_of_packages_are_changed_in_place() -> None:
    packages: dict[str, Any] = {}
    for version in ("2", "1", "2"):
        pkg_resource.add_pkg(packages, "vim", version)
    pkg_resource.sort_pkglist(packages)
    assert packages == {"vim": ["1", "2"]}
    pkg_resource.stringify(packages)
    assert packages == {"vim": "1,2"}


def test_packages_are_listed_in_the_form_that_was_asked_for() -> None:
    row = {"epoch": "2", "version": "8", "release": "1", "arch": "amd64", "install_date": "x"}
    packages = {"vim:amd64": [row], "git": [{**row, "epoch": "", "release": "", "arch": "arm64"}]}
    assert pkg_resource.format_pkg_list(packages, False, None) == {"vim:amd64": "2:8-1", "git": "8"}
    assert pkg_resource.format_pkg_list(packages, True, None) == {"vim:amd64": ["2:8-1"], "git": ["8"]}
    assert pkg_resource.format_pkg_list(packages, True, ["epoch"]) == {
        "vim": [{"epoch": "2", "version": "8", "arch": "amd64"}],
        "git": [{"epoch": "", "version": "8", "arch": "arm64"}],
    }
    assert pkg_resource.format_pkg_list(packages, True, "all")["vim"] == [row]
    assert packages["vim:amd64"] == [row]
    mixed = pkg_resource.format_pkg_list({"vim:amd64": [{**row, "arch": "arm64"}, row]}, True, ["epoch"])
    assert {name: len(rows) for name, rows in mixed.items()} == {"vim": 2}


def test_functions_that_a_provider_may_lack_are_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (pkg_resource.version_clean("1~x"), pkg_resource.check_extra_requirements("vim", ">1")) == ("1~x", True)
    more = {"pkg.version_clean": lambda text: text[0], "pkg.check_extra_requirements": lambda *_args: False}
    monkeypatch.setattr(pkg_resource, "__salt__", {**FUNCTIONS, **more})
    assert (pkg_resource.version_clean("1~x"), pkg_resource.check_extra_requirements("vim", ">1")) == ("1", False)
