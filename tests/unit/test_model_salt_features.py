"""What is said about functions and options of Salt that do not exist here."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import options_of
from saltlite.model.salt_features import (
    FEATURES,
    GROUPS,
    MEANINGLESS_GROUP,
    NOT_YET_GROUP,
    RENAMED_GROUP,
    missing_feature,
    missing_module,
    option_of_salt,
)

ROOT = Path(__file__).parents[2]
OURS = {*options_of(MasterConfig), *options_of(MinionConfig)}
SALTS = [
    line
    for line in (ROOT / "tests" / "data" / "salt_options.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_every_option_of_salt_is_read_or_has_a_group() -> None:
    assert len(SALTS) > 400
    assert [name for name in SALTS if name not in OURS and option_of_salt(name)[0] not in GROUPS] == []


def test_no_option_of_ours_is_taken_for_one_of_salt_that_is_missing() -> None:
    assert {name for name in OURS if option_of_salt(name)[0]} == set()


@pytest.mark.parametrize("typo", ["pillar_root", "auth_fil", "proxy_hosst", "fileserver_mx", "nosuch"])
def test_a_mistyped_option_of_ours_is_no_option_of_salt(typo: str) -> None:
    assert option_of_salt(typo) == ("", "")


@pytest.mark.parametrize(
    ("name", "group", "words"),
    [
        ("publish_port", RENAMED_GROUP, "port"),
        ("master_finger", RENAMED_GROUP, "fleet"),
        ("hash_type", MEANINGLESS_GROUP, ""),
        ("pillar_opts", NOT_YET_GROUP, ""),
        ("gitfs_remotes", NOT_YET_GROUP, "file_roots"),
        ("syndic_master", NOT_YET_GROUP, "list of its masters"),
        ("git_pillar_base", NOT_YET_GROUP, "pillar_roots"),
        ("master_job_cache", NOT_YET_GROUP, "event_return"),
        ("reactor", NOT_YET_GROUP, "hooks"),
    ],
)
def test_an_option_of_salt_has_its_group_and_the_way_out(name: str, group: str, words: str) -> None:
    found, instead = option_of_salt(name)
    assert (found, words in instead) == (group, True)


@pytest.mark.parametrize(
    ("function", "runner", "words"),
    [
        ("state.highstate", False, "saltlite has no states without Salt installed beside"),
        ("sys.list_state_modules", False, "saltlite has no states without Salt installed beside"),
        ("saltutil.runner", False, "no rights on its master"),
        ("gitfs.update", False, "file_roots"),
        ("saltutil.find_cached_job", False, "the master's store keeps the jobs"),
        ("sys.returner_doc", False, "returners run on the master"),
        ("cmd.powershell", False, "no minions for Windows"),
        ("status.proxy_reconnect", False, "no proxy minions"),
        ("state.orchestrate", True, "no orchestration"),
        ("reactor.list", True, "no reactor"),
        ("git_pillar.update", True, "pillar_roots"),
        ("ssh.cmd", True, "salt-ssh"),
        ("x509.create_certificate_ssh", False, "salt-ssh"),
        ("disk.smart_attributes", False, "smartctl"),
        ("pillar.file_exists", False, "on the master"),
        ("test.module_report", False, "sys.list_functions"),
        ("test.tty", False, "cmd.tty"),
    ],
)
def test_a_function_of_salt_has_a_sentence_with_the_way_out(function: str, runner: bool, words: str) -> None:
    sentence = missing_feature(function, runner=runner)
    assert words in sentence
    assert sentence.endswith("see `saltlite help from-salt`")


def test_modules_of_salt_that_do_not_ship_are_named() -> None:
    for function in ("alternatives.auto", "data.get", "slsutil.merge", "virtualenv.create"):
        assert "loads where Salt is installed beside" in missing_module(function)
        assert missing_feature(function) == ""
    assert missing_module("mine.get") == missing_module("nosuch.get") == ""


@pytest.mark.parametrize("function", ["test.ping", "pkg.install", "statex.y", "status.all"])
def test_other_functions_have_none(function: str) -> None:
    assert missing_feature(function) == ""


def test_the_page_from_salt_has_a_row_for_each_feature() -> None:
    page = (ROOT / "saltlite" / "docs" / "from-salt.md").read_text()
    rows = page.split("## What is not there")[1].split("\n## ")[0].splitlines()
    assert [row for row in rows if row.startswith("| ") and "---" not in row][1:] == [
        f"| {one.name} | {one.instead} |" for one in FEATURES
    ]
