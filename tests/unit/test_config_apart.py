"""The configuration that a child process reads for the minion."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from saltlite.cli.daemon import DaemonLine
from saltlite.config import load
from saltlite.config.apart import begin_reading_master, begin_reading_minion
from saltlite.config.load import load_master, load_minion
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.opts import opts_of, shown_opts
from saltlite.errors import ConfigError, StartupError

TEXT = """
id: web1
master: ['m1:4000', '[::1]']
grains: {role: web, numbers: [1, 2.5, null, true], deep: {er: ['ä']}}
module_dirs: [mods]
run_timeout: 90
test.foo: {bar: [1]}
join_token_file: token
"""
MASTER_TEXT = """
port: 4600
file_roots: {base: [files, /srv/x]}
nodegroups: {web: 'L@a,b'}
publisher_acl: {'web*': [test.*, '@wheel'], daemon: [{'G@os:Debian': [pkg.*]}]}
external_auth: {file: {admin: ['.*']}}
ext_pillar: [{cmd_yaml: cat x}]
resource_policy: {'db*': [web1]}
hooks: {deploy: {event: 'app/*', as: root, job: {fun: test.ping, tgt: 'web*'}}}
returner_config: {local_cache: {password: hidden}}
keep_jobs: 2h
"""


def test_a_child_reads_for_a_master_what_it_would_have_read(tmp_path: Path) -> None:
    (tmp_path / "master").write_text(MASTER_TEXT)
    config = begin_reading_master(str(tmp_path))()
    expected = load_master(str(tmp_path)).config
    names = [field.name for field in fields(MasterConfig)]
    assert {name: getattr(config, name) for name in names} == {name: getattr(expected, name) for name in names}
    assert opts_of(config, "m_master") == opts_of(expected, "m_master")
    assert shown_opts(config, "m_master") == shown_opts(expected, "m_master")


def test_options_of_the_command_line_are_in_what_modules_see(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("log_level: info\n")
    changed = DaemonLine(str(tmp_path), options={"log_level": "debug"}).applied(begin_reading_master(str(tmp_path))())
    assert opts_of(changed, "m_master")["log_level"] == "debug"


def test_a_master_keeps_neither_the_parser_nor_the_descriptors_of_options() -> None:
    code = (
        "import importlib, sys; from saltlite.config import apart; from saltlite.master.processes import app;"
        "[importlib.import_module(name) for name in (*apart.MASTER_NEEDS, *app.MWORKER_MODULES)];"
        "print(*{'yaml', 'saltlite.config.options', 'saltlite.config.master'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_a_child_reads_what_this_process_would_have_read(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text(TEXT)
    config, opts = begin_reading_minion(str(tmp_path))()
    expected = load_minion(str(tmp_path)).config
    names = [field.name for field in fields(MinionConfig)]
    assert {name: getattr(config, name) for name in names} == {name: getattr(expected, name) for name in names}
    assert opts == opts_of(expected, "")


def test_problems_are_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text("colour: red\n")
    with pytest.raises(ConfigError) as expected:
        load_minion(str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        begin_reading_minion(str(tmp_path))()
    assert str(raised.value) == str(expected.value)


def test_a_defect_in_the_child_is_an_error_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_config_dir: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(load, "load_minion", broken)
    with pytest.raises(StartupError, match="could not be read: its process ended"):
        begin_reading_minion(str(tmp_path))()
