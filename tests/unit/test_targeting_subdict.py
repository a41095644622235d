"""Questions to grains and pillar, `key:sub:value`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.targeting.fleet import DataQuery
from saltlite.targeting.patterns import PATTERN_MAX
from saltlite.targeting.subdict import PIECES_MAX, VALUE_MAX, Subdict

DATA: dict[Any, Any] = {
    "os": "Debian",
    "Release": 12.5,
    "cpus": 4,
    "virtual": True,
    "nothing": None,
    "empty": {},
    "none_of": [],
    "bytes": b"caf\xc3\xa9",
    "roles": ["Web", "db", ["cache", "edge"]],
    "time": "12:30",
    "a:b": {"c": "x", "c:d": "y"},
    "a": {"b": {"c": "z"}},
    "net": {"eth0": {"addr": ["10.0.0.1", "fe80::1"]}, "lo": {"addr": "127.0.0.1"}},
    "disks": [{"name": "sda", "size": 10}, {"name": "sdb", "parts": [{"fs": "ext4"}]}],
    7: {"seven": "x"},
}


@pytest.mark.parametrize(
    "expression",
    [
        "os:Debian",
        "os:debIAN",
        "os:deb*",
        "os:d?bia[mn]",
        "os:*",
        "Release:12.5",
        "cpus:4",
        "virtual:true",
        "nothing:none",
        "nothing:*",
        "empty:*",
        "none_of:*",
        "bytes:café",
        "roles:web",
        "roles:edg*",
        "roles:1:db",
        "time:12:30",
        "time:12:*",
        "a:b:c:x",
        "a:b:c:d:y",
        "a:b:c:z",
        "a:b:c:d",
        "a:b:c",
        "a:b:*",
        "net:eth0",
        "net:eth0:addr:10.*",
        "net:eth0:addr:fe80::1",
        "net:*:addr:127.0.0.1",
        "*:eth0:addr:*",
        "*:debian",
        "disks:name:sdb",
        "disks:0:name:sda",
        "disks:1:*",
        "disks:parts:fs:ext4",
        "disks:size",
        "7:seven:x",
        "*:seven:x",
    ],
)
def test_this_holds(expression: str) -> None:
    assert Subdict(DataQuery(expression)).match(DATA)


@pytest.mark.parametrize(
    "expression",
    [
        "os",
        "*",
        "OS:Debian",
        "os:Deb",
        "os:Debian:*",
        "os:[!d]*",
        "nosuch:*",
        "roles:web*x",
        "roles:7:*",
        "roles:0:db",
        "a:q",
        "net:eth9",
        "net:eth*:addr:10.0.0.1",
        "disks:2:*",
        "disks:0:name:sdb",
        "empty:x",
        "none_of:x",
        "time:12",
        "",
        ":",
        "8:*",
    ],
)
def test_this_does_not(expression: str) -> None:
    assert not Subdict(DataQuery(expression)).match(DATA)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("os:deb", True),
        ("os:eb", False),
        ("os:DEB.{3}$", True),
        (r"Release:\d+\.5", True),
        (r"os:\D+$", True),
        ("os:*", True),
        ("time:12:(30|45)", True),
        ("time:(12:30|never)", True),
        ("net:eth0:addr:f[e]80::", True),
        ("roles:(web|mail)$", True),
    ],
)
def test_regular_expressions_match_from_the_start_without_regard_to_case(expression: str, holds: bool) -> None:
    assert Subdict(DataQuery(expression, regex=True)).match(DATA) is holds


def test_another_delimiter_leaves_colons_alone() -> None:
    assert Subdict(DataQuery("net|eth0|addr|fe80::1", delimiter="|")).match(DATA)
    assert not Subdict(DataQuery("net:eth0", delimiter="|")).match(DATA)


def test_a_regular_expression_that_can_be_read_in_no_way_is_refused() -> None:
    with pytest.raises(UsageError, match=re.escape("'web(' is not a regular expression")):
        Subdict(DataQuery("roles:web(", regex=True)).match({})


def test_a_question_has_a_longest_length() -> None:
    fits = "os:".ljust(PATTERN_MAX, "x")
    assert not Subdict(DataQuery(fits)).match(DATA)
    with pytest.raises(UsageError, match="a question to grains or pillar has at most 1024 characters"):
        Subdict(DataQuery(fits + "x")).match(DATA)


def test_delimiters_after_the_last_piece_belong_to_it() -> None:
    deep: Any = "x:y:z"
    for _ in range(PIECES_MAX - 1):
        deep = {"k": deep}
    assert Subdict(DataQuery("k:" * (PIECES_MAX - 1) + "x:y:z")).match(deep)
    assert not Subdict(DataQuery("k:" * PIECES_MAX + "x:y:z")).match({"k": deep})


def test_hostile_data_costs_no_more_than_its_size() -> None:
    keys: Any = "end"
    lists: Any = "end"
    for _ in range(60):
        keys = {"*:*": keys, "*": "x"}
        lists = [lists]
    assert not Subdict(DataQuery("*:" * 60 + "nosuch")).match(keys)
    assert not Subdict(DataQuery("a:" + "0:" * 60 + "nosuch")).match({"a": lists})


def test_one_question_is_put_to_many() -> None:
    asked = Subdict(DataQuery("os:Debian"))
    assert [asked.match(data) for data in ({"os": "Debian"}, {"os": "RedHat"}, {"os": ["debian"]})] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        (DataQuery("a:x*"), [True, False]),
        (DataQuery("a:x+", regex=True), [True, False]),
        (DataQuery("a:*"), [True, True]),
        (DataQuery("a:*", regex=True), [True, True]),
    ],
)
def test_patterns_are_not_put_to_texts_beyond_a_length(query: DataQuery, holds: list[bool]) -> None:
    asked = Subdict(query)
    assert [asked.match({"a": ["x" * size]}) for size in (VALUE_MAX, VALUE_MAX + 1)] == holds
