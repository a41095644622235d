"""SRNs: how they are taken apart, and what a type and an id may be."""

from __future__ import annotations

import pytest

from saltlite.errors import UsageError
from saltlite.model.ids import (
    RESOURCE_ID_MAX,
    RESOURCE_TYPE_MAX,
    Srn,
    check_resource_id,
    check_resource_ids,
    check_resource_type,
    parse_srn,
    resource_index_srn_key,
)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("x", Srn("x", None)),
        ("x:y", Srn("x", "y")),
        ("x:", Srn("x", None)),
        (":y", Srn(None, "y")),
        ("x:y:z", Srn("x", "y:z")),
        ("", Srn(None, None)),
        (None, Srn(None, None)),
        (5, Srn(None, None)),
    ],
)
def test_an_srn_splits_at_its_first_colon(pattern: object, expected: Srn) -> None:
    assert parse_srn(pattern) == expected


def test_a_key_of_the_registry_is_taken_apart_into_what_it_was_made_of() -> None:
    assert parse_srn(resource_index_srn_key("ssh", "fe80::1")) == Srn("ssh", "fe80::1")


@pytest.mark.parametrize("text", ["a", "web-01", "fe80::1", "größe", "a(b)", "x" * RESOURCE_ID_MAX, "andy"])
def test_what_an_operator_calls_a_thing_is_a_resource_id(text: str) -> None:
    assert check_resource_id(text) == text


BAD_IDS = [
    "", ".", "..", "and", "or", "not", "(", ")", "a b", " a", "a,b", "a/b", "a\\b", "*", "a?", "[a]", "a\nb", "a\0",
    "\x7f", "a\u2028b", "\ud800", "web\u200b1", "\u202ebew", "a\u00ad", "a\ue000", "a\U000e0041", "a\ufdd0", "a\u00a0",
    "a\u3000", "x" * (RESOURCE_ID_MAX + 1), "é" * (RESOURCE_ID_MAX // 2 + 1), 5, None, b"a", ["a"],
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_IDS, ids=repr)
def test_what_would_break_a_target_or_a_file_name_is_no_resource_id(text: object) -> None:
    with pytest.raises(UsageError, match="is not a resource id"):
        check_resource_id(text)


@pytest.mark.parametrize("text", BAD_IDS, ids=repr)
def test_one_bad_id_among_many_is_found_wherever_it_stands(text: object) -> None:
    for place in range(3):
        many: list[object] = ["a", "b"]
        many.insert(place, text)
        with pytest.raises(UsageError, match="is not a resource id"):
            check_resource_ids(many)


def test_many_ids_come_back_as_they_are() -> None:
    assert check_resource_ids([]) == []
    assert check_resource_ids(["a", "größe", "fe80::1"]) == ["a", "größe", "fe80::1"]
    assert check_resource_ids(iter(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("text", ["dummy", "vcf_host", "A1", "x" * RESOURCE_TYPE_MAX])
def test_the_name_of_a_package_is_a_resource_type(text: str) -> None:
    assert check_resource_type(text) == text


@pytest.mark.parametrize(
    "text", ["", "1a", "_a", "a-b", "a:b", "ä", "a b", "a\n", "x" * (RESOURCE_TYPE_MAX + 1), 5, None]
)
def test_what_is_no_name_of_a_package_is_no_resource_type(text: object) -> None:
    with pytest.raises(UsageError, match="is not a resource type"):
        check_resource_type(text)
