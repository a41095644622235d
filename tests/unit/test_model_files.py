"""Which texts name a file of the file server, and which do not."""

from __future__ import annotations

import pytest

from saltlite.errors import UsageError
from saltlite.model.files import (
    ENV_MAX,
    NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    FileAddress,
    is_area,
    parse_address,
    parse_env,
    parse_path,
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", "a"),
        ("a/b", "a/b"),
        ("a//b/./c/", "a/b/c"),
        ("", ""),
        (".", ""),
        ("ä/…", "ä/…"),
        ("...", "..."),
        ("a..", "a.."),
    ],
)
def test_a_path_has_one_normal_form(text: str, path: str) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize(
    "text", ["..", "a/..", "../a", "a/../b", "/a", "//a", "a\0b", "\udc80", None, b"a", 7, "a" * (NAME_BYTES_MAX + 1)]
)
def test_what_could_lead_elsewhere_is_no_path(text: object) -> None:
    with pytest.raises(UsageError):
        parse_path(text)


def test_a_path_has_at_most_so_many_bytes() -> None:
    longest = "/".join(["d" * 63] * (PATH_BYTES_MAX // 64))
    assert parse_path(longest + "x") == longest + "x"
    with pytest.raises(UsageError, match="too long"):
        parse_path(longest + "xy")


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "-a", "a b", "a\n", "e" * (ENV_MAX + 1), None])
def test_what_is_no_name_of_an_environment(text: object) -> None:
    with pytest.raises(UsageError):
        parse_env(text)


def test_an_environment_may_be_called_as_people_call_them() -> None:
    assert [parse_env(name) for name in ("base", "dev-2", "v1.0", "e" * ENV_MAX)] == [
        "base",
        "dev-2",
        "v1.0",
        "e" * ENV_MAX,
    ]


def test_an_address_names_its_environment_or_takes_that_of_the_caller() -> None:
    assert parse_address("salt://a/b", "dev") == FileAddress("a/b", "dev")
    assert parse_address("salt://a/b?saltenv=prod", "dev") == FileAddress("a/b", "prod")
    assert parse_address("salt:///a") == FileAddress("a", "base")


@pytest.mark.parametrize("text", ["a", "http://a/b", "salt://../a", "salt://a?saltenv=..", None])
def test_what_is_no_address(text: object) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


def test_only_names_made_for_a_copy_are_areas() -> None:
    assert is_area("copy-" + "0" * 32)
    assert not any(map(is_area, ["copy-", "base", "copy-" + "0" * 31, "copy-" + "G" * 32, "copy-" + "0" * 32 + "\n"]))
