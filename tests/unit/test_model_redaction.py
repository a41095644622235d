"""Which arguments are secrets, and how a call is shown that has some."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.model.redaction import HIDDEN, is_secret_argument, without_secrets
from saltlite.wire.job_body import FunctionCall

SECRET = [
    "password", "passwd", "https_pass", "root_password", "rootPassword", "rootpassword", "passphrase", "token",
    "api_key", "aws_secret_access_key", "shared_secret", "private_key", "connection_pass", "credentials",
    "Authorization", "Proxy-Authorization", "X-Api-Key", "X-Auth-Token", "Set-Cookie",
]  # fmt: skip
PLAIN = [
    "name", "key", "keys", "path", "user", "passive", "compass", "bypass_proxy", "password_file", "secret_name",
    "token_type", "public_key", "tokenize", "keyword", "pass_through_id", "author", "monkey", "cookie_jar",
    "Content-Type",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_it_is_a_secret(name: str) -> None:
    assert is_secret_argument(name)


@pytest.mark.parametrize("name", PLAIN)
def test_it_is_none(name: str) -> None:
    assert not is_secret_argument(name)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x", "user": "fred"}, {"password": HIDDEN, "user": "fred"}),
        (
            {"a": [{"token": 5}, {"b": {"passwd": ["x", {"y": 1}]}}]},
            {"a": [{"token": HIDDEN}, {"b": {"passwd": HIDDEN}}]},
        ),
        ({"password": None, "token": True, "secret": ""}, {"password": None, "token": True, "secret": HIDDEN}),
        (("a", 1), ["a", 1]),
        ({5: "x"}, {5: "x"}),
        ("password", "password"),
        ("https://fred:tea@db:8080/x?y=a@b", f"https://{HIDDEN}@db:8080/x?y=a@b"),
        ("git clone https://fred:te@a@db/ https://h/", f"git clone https://{HIDDEN}@db/ https://h/"),
        ("https://ghp_abc@db/x.git", f"https://{HIDDEN}@db/x.git"),
        ("https://db?x=a@b", "https://db?x=a@b"),
        ("ssh://git@example.org:22/x", "ssh://git@example.org:22/x"),
        ("https://example.org:8080/~fred@x", "https://example.org:8080/~fred@x"),
        (["Authorization: Bearer x", "Accept: text/plain"], [f"Authorization: {HIDDEN}", "Accept: text/plain"]),
        ({"header_dict": {"X-Api-Key": "x", "Accept": "*"}}, {"header_dict": {"X-Api-Key": HIDDEN, "Accept": "*"}}),
        ("token://x", "token://x"),
        (
            "a\n-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nb",
            f"a\n{HIDDEN}\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nabc", HIDDEN),
        ("-----BEGIN PUBLIC KEY-----\nabc", "-----BEGIN PUBLIC KEY-----\nabc"),
        ("cookie policy", "cookie policy"),
    ],
)
def test_what_stands_under_such_a_name_is_hidden_at_any_depth(value: Any, shown: Any) -> None:
    assert without_secrets(value) == shown


def test_a_call_is_shown_without_what_is_marked_or_named_so() -> None:
    call = FunctionCall("m.f", ["fred", "hunter2", {"token": "t"}], {"password": "x", "refresh": False}, [1])
    assert call.shown() == ["m.f", ["fred", HIDDEN, {"token": HIDDEN}], {"password": HIDDEN, "refresh": False}]
    assert call.args[1] == "hunter2"
