"""Bodies of the API: what is read, what is refused, what is written."""

from __future__ import annotations

import json

import pytest
import yaml

from saltlite.api.formats import (
    DEPTH_MAX,
    FIELDS_MAX,
    YAML_MAX,
    BodyError,
    answer_type,
    parsed,
    rendered,
    rendered_error,
)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/x-yaml", "application/x-yaml"),
        ("application/json;q=0.1, text/yaml", "text/yaml"),
        ("text/html, */*;q=0.1", "text/html"),
        ("image/png", None),
        ("application/json;q=0", None),
        ("application/json;q=nonsense", None),
    ],
)
def test_the_format_of_an_answer_is_the_best_that_is_accepted(accept: str, kind: str | None) -> None:
    assert answer_type(accept) == kind


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        (b'{"fun": "test.ping"}', "application/json", {"fun": "test.ping"}),
        (b'{"fun": "test.ping"}', "text/plain", {"fun": "test.ping"}),
        (b'["a"]', "", ["a"]),
        (b"- fun: test.ping\n  arg: [1]\n", "application/x-yaml", [{"fun": "test.ping", "arg": [1]}]),
        (b"day: 2026-01-31\n", "text/yaml", {"day": "2026-01-31"}),
        (
            b"fun=test.arg&arg=1&arg=b%3D2",
            "application/x-www-form-urlencoded",
            {"fun": "test.arg", "arg": ["1", "b=2"]},
        ),
        (b"", "application/json", None),
    ],
)
def test_a_body_is_read_by_its_content_type(body: bytes, kind: str, value: object) -> None:
    assert parsed(body, kind) == value


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b'"\\ud800"', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"\xff", "application/x-yaml", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"a&b", "application/x-www-form-urlencoded", 400),
        (b"99999999999999999999999", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "application/json", 400),
        (b"&".join(b"a=1" for _ in range(FIELDS_MAX + 1)), "application/x-www-form-urlencoded", 400),
        (b"a: &x [1]\nb: *x\n", "application/x-yaml", 400),
        (b"!!python/object:os.system x", "application/x-yaml", 400),
        (b" " * (YAML_MAX + 1), "application/x-yaml", 413),
        (b"x", "image/png", 415),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(BodyError) as refused:
        parsed(body, kind)
    assert refused.value.status == status


def test_whatever_minions_return_can_be_written_in_both_formats() -> None:
    value = {"a": b"\xff", 1: float("nan"), None: [True], ("x",): 1.5}
    assert json.loads(rendered(value, "application/json"))["null"] == [True]
    assert yaml.safe_load(rendered(value, "text/yaml"))["1"] == "nan"


def test_a_value_that_stands_twice_is_written_twice_in_yaml() -> None:
    same = [1]
    assert b"&" not in rendered({"a": same, "b": same}, "application/x-yaml")


def test_a_page_of_an_error_holds_no_markup_of_its_sentence() -> None:
    body, kind = rendered_error("<script>", 400, "text/html")
    assert b"<script>" not in body
    assert kind == "text/html; charset=utf-8"
