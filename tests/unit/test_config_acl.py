"""Rules in the configuration: a mistake stops the master with its line, and secrets are shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.config.load import load_master
from saltlite.errors import ConfigError

GOOD = """
publisher_acl:
  fred: [test.*, {'web*': [pkg.*, {cmd.run: {args: [ls], kwargs: {cwd: /tmp}}}]}, '@jobs']
  dev%: ['.*']
publisher_acl_blacklist: {users: [eve], modules: [cmd.*]}
external_auth:
  file: {'*': [test.ping]}
  pam: {gina: [{'@runner': [manage.*]}]}
token_expire: 1h
"""


def write(folder: Path, text: str) -> str:
    (folder / "master").write_text(text)
    (folder / "master").chmod(0o600)
    return str(folder)


def test_rules_are_read_as_they_are_written(tmp_path: Path) -> None:
    config = load_master(write(tmp_path, GOOD)).config
    assert config.publisher_acl["fred"][1]["web*"][1] == {"cmd.run": {"args": ["ls"], "kwargs": {"cwd": "/tmp"}}}
    assert config.external_auth["pam"] == {"gina": [{"@runner": ["manage.*"]}]}
    assert config.token_expire == 3600.0


def test_the_shared_secret_does_not_stand_in_a_file_that_users_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'sharedsecret' \(did you mean 'sharedsecret_file'\?\)"):
        load_master(write(tmp_path, "sharedsecret: hush\n"))


@pytest.mark.parametrize(
    "text",
    [
        "publisher_acl: [fred]",
        "publisher_acl: {fred: test.ping}",
        "publisher_acl:\n  fred: ['test.(']",
        "publisher_acl:\n  fred: [{'web*': test.ping}]",
        "publisher_acl_blacklist: {modules: cmd.run}",
        "publisher_acl_blacklist: {functions: [cmd.run]}",
        "external_auth: [pam]",
        "external_auth: {pam: [fred]}",
        "external_auth:\n  pam:\n    fred: [1]",
    ],
)
def test_what_is_no_rule_stops_the_master_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"master:\d+:\d+: "):
        load_master(write(tmp_path, text))
