"""What must not be said, wherever it stands."""

from __future__ import annotations

import base64
import json
import logging
import shlex
import urllib.parse

import pytest

from saltlite.cloud.program.program import ConcealingFilter
from saltlite.model.redaction import ALLOWED, HIDDEN, LINE_MIN, SECRET_MIN, Secrets, is_secret_name

SECRET = "pa'ss \"w\\rd/+ü"


@pytest.mark.parametrize(
    "name",
    [
        "password", "ssh_password", "rootPassword", "adminPasswd", "token", "api_token", "personal_access_token",
        "secret", "secret_key", "secretAccessKey", "AccessKey", "key", "keys", "private_key", "minion_pem",
        "pub_key", "userdata",
        "user_data", "UserData", "script_env", "Authorization", "X-Auth-Token", "passphrase", "client-secret",
        "credentials",
    ],
)  # fmt: skip
def test_a_key_that_names_a_secret_is_left_out_at_any_depth(name: str) -> None:
    assert is_secret_name(name)
    assert Secrets().value({"a": [{name: "x", "size": 1}]}) == {"a": [{"size": 1}]}


@pytest.mark.parametrize(
    "name",
    [
        "image",
        "size",
        "keyname",
        "key_name",
        "ssh_key_names",
        "private_ips",
        "token_id",
        "monkey",
        "compass",
        "auth_type",
    ],
)
def test_a_key_that_names_a_place_or_a_name_stays(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "form",
    [
        SECRET, json.dumps(SECRET), repr(SECRET), urllib.parse.quote(SECRET, safe=""), urllib.parse.quote_plus(SECRET),
        shlex.quote(SECRET), base64.b64encode(SECRET.encode()).decode(),
    ],
)  # fmt: skip
def test_a_known_secret_is_found_in_every_way_of_writing_it(form: str) -> None:
    secrets = Secrets()
    secrets.add_from({"deep": [{"ssh_password": SECRET}]})
    said = secrets.text(f"curl -u root:{form} failed")
    assert HIDDEN in said
    assert "rd" not in said.replace(HIDDEN, "")


def test_a_secret_is_found_in_keys_numbers_and_texts_that_only_have_it_inside() -> None:
    secrets = Secrets()
    secrets.add_from({"pin_secret": 123456})
    said = secrets.value({"url": "https://x/123456/y", "123456": 1, "count": 123456, "list": ("123456",)})
    assert said == {"url": "https://x/***/y", HIDDEN: 1, "count": HIDDEN, "list": [HIDDEN]}


def test_each_long_line_of_a_private_key_is_a_secret() -> None:
    secrets = Secrets()
    line = "Q" * LINE_MIN
    secrets.add(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{line}\n-----END OPENSSH PRIVATE KEY-----\n")
    assert secrets.text(f"cannot read {line}: bad") == "cannot read ***: bad"


def test_keys_and_join_tokens_are_found_without_being_known() -> None:
    secrets = Secrets()
    block = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@here"
    token = f"slj1.{'A' * 40}.abcdefgh.{'b' * 32}"
    assert secrets.text(f"{block}|{public}|{token}") == "***|*** me@here|***"


def test_the_path_of_a_key_is_no_secret() -> None:
    secrets = Secrets()
    secrets.add_from({"private_key": "/etc/saltlite/cloud.pem"})
    assert secrets.text("cannot read /etc/saltlite/cloud.pem") == "cannot read /etc/saltlite/cloud.pem"


def test_a_secret_that_only_looks_like_a_path_is_one() -> None:
    secrets = Secrets(is_there=lambda path: path == "/etc/saltlite/api.token")
    secrets.add_from({"password": "/planted/secret", "token": "/etc/saltlite/api.token", "private_key": "~/away.pem"})
    said = "/planted/secret /etc/saltlite/api.token ~/away.pem"
    assert secrets.text(said) == f"{HIDDEN} /etc/saltlite/api.token ~/away.pem"


def test_what_logs_in_in_an_address_is_hidden() -> None:
    said = "Looking in indexes: https://me:p%20w@index.example:8443/simple, ssh://root@web1/x, http://:pw@a"
    assert Secrets().text(said) == (
        f"Looking in indexes: https://{HIDDEN}@index.example:8443/simple, ssh://root@web1/x, http://{HIDDEN}@a"
    )


def test_a_secret_too_short_to_be_looked_for_is_hidden_by_its_name() -> None:
    secrets = Secrets()
    secrets.add_from({"password": "a" * (SECRET_MIN - 1)})
    assert secrets.text("a banana aaa") == "a banana aaa"
    assert secrets.value({"password": "aaa"}) == {}


@pytest.mark.parametrize("what", sorted(ALLOWED))
def test_an_event_with_a_list_of_fields_has_no_others(what: str) -> None:
    said = Secrets().event(what, {"name": "a", "note": "harmless", "kwargs": {"note": 1, "name": "a"}})
    assert said == {"name": "a", "kwargs": {"name": "a"}}


def test_a_field_that_is_allowed_by_the_configuration_is_still_no_secret() -> None:
    secrets = Secrets()
    said = secrets.event("creating", {"name": "a", "image": "i", "password": "x", "size": "s"}, {"image", "password"})
    assert said == {"name": "a", "image": "i"}


def test_a_request_is_told_without_what_is_secret_in_it() -> None:
    secrets = Secrets()
    secrets.add("hunter22")
    said = secrets.event("requesting", {"kwargs": {"image": "i", "tags": {"t": "hunter22"}, "admin_pass": "x"}})
    assert said == {"kwargs": {"image": "i", "tags": {"t": HIDDEN}}}


def test_log_lines_and_their_tracebacks_are_without_secrets() -> None:
    secrets = Secrets()
    secrets.add("hunter22")
    error = RuntimeError("with hunter22")
    record = logging.LogRecord("x", 20, "f", 1, "%s and %d", ("hunter22", 7), (RuntimeError, error, None))
    assert ConcealingFilter(secrets).filter(record)
    assert record.getMessage() == "*** and 7"
    assert (record.exc_info, record.exc_text) == (None, "RuntimeError: with ***")
