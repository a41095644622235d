"""The configuration that a child process reads for the minion."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from saltlite.config import load
from saltlite.config.apart import begin_reading_minion
from saltlite.config.load import load_minion
from saltlite.config.minion import MinionConfig
from saltlite.config.options import opts_of
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
