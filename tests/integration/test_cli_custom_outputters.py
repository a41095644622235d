"""Outputters of operators, and what a module asks for: found before anything runs, and never in the way of a return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The configuration of a minion with a module and outputters of its own."""
    for folder in ("output", "modules"):
        (tmp_path / "own" / folder).mkdir(parents=True)
    (tmp_path / "own/output/loud.py").write_text(
        "def output(data, **kwargs):\n    return str(data).upper() + __opts__['id'] + str(__opts__['color']) + '\\n'\n"
    )
    (tmp_path / "own/output/broken.py").write_text("def output(data, **kwargs):\n    raise ValueError('no way')\n")
    (tmp_path / "own/output/absent.py").write_text(
        "def __virtual__():\n    return False, 'needs a bell'\ndef output(data): pass\n"
    )
    (tmp_path / "own/modules/asking.py").write_text(
        "__outputter__ = {'one': 'txt', 'two': 'loud', 'three': 'gone'}\n"
        "def one(): return ['a']\ndef two(): return 'x'\ndef three(): return 'x'\n"
    )
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}/root\nid: m\nmodule_dirs: [{tmp_path}/own]\n")
    return tmp_path


def call(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "saltlite", "call", "-c", str(site), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_ones_own_outputter_prints_with_the_options(site: Path) -> None:
    assert call(site, "--out", "loud", "test.echo", "hello").stdout == "{'LOCAL': 'HELLO'}mFalse\n"
    assert call(site, "--out", "loud", "--force-color", "test.echo", "hello").stdout == "{'LOCAL': 'HELLO'}mTrue\n"


def test_one_that_returns_a_line_without_its_end_prints_a_line_all_the_same(site: Path) -> None:
    (site / "own/output/plain.py").write_text("def output(data, **kwargs):\n    return str(data).upper()\n")
    assert call(site, "--out", "plain", "test.echo", "hello").stdout == "{'LOCAL': 'HELLO'}\n"


def test_a_module_names_the_outputter_of_its_functions(site: Path) -> None:
    assert call(site, "asking.one").stdout == "local: ['a']\n"
    assert call(site, "asking.two").stdout == "{'LOCAL': 'X'}mFalse\n"
    assert call(site, "--out", "nested", "asking.two").stdout == "local:\n    x\n"


def test_an_outputter_that_is_not_there_keeps_no_return_from_anybody(site: Path) -> None:
    assert call(site, "asking.three").stdout == "local:\n    x\n"


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("lout", "there is no outputter 'lout'; did you mean loud?"),
        ("absent", "the outputter 'absent' cannot be used: 'absent' __virtual__ returned False: needs a bell"),
        ("../x", "'../x' cannot be the name of an outputter"),
        ("_paint", "'_paint' cannot be the name of an outputter"),
    ],
)
def test_one_that_cannot_be_used_is_refused_before_anything_runs(site: Path, out: str, sentence: str) -> None:
    said = call(site, "--out", out, "test.touch", str(site / "ran"))
    assert said.returncode == 2
    assert sentence in said.stderr
    assert not (site / "ran").exists()


def test_one_that_fails_says_so_without_a_traceback(site: Path) -> None:
    said = call(site, "--out", "broken", "test.ping")
    assert (said.returncode, said.stderr) == (1, "saltlite: the outputter 'broken' failed: ValueError: no way\n")


def test_folders_that_others_may_write_to_are_refused(site: Path) -> None:
    (site / "own").chmod(0o777)
    said = call(site, "--out", "loud", "test.ping")
    assert said.returncode != 0
    assert str(site / "own") in said.stderr


def test_output_is_put_behind_what_is_in_a_file(site: Path) -> None:
    log = site / "log"
    for number in ("1", "2"):
        said = call(
            site, "--out", "json", "--out-indent=-1", f"--out-file={log}", "--out-file-append", "test.echo", number
        )
        assert (said.returncode, said.stdout) == (0, "")
    assert log.read_text() == '{"local": 1}\n{"local": 2}\n'


def test_output_takes_the_place_of_what_was_in_a_file(site: Path) -> None:
    (site / "log").write_text("old")
    call(site, "--out", "txt", f"--out-file={site}/log", "test.echo", "new")
    assert (site / "log").read_text() == "local: new\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out-file-append"], "--out-file-append needs --out-file PATH"),
        (["--no-color", "--force-color"], "--no-color and --force-color exclude each other"),
        (["--out-indent", "many"], "--out-indent: say a number of spaces, -1 to 64, not 'many'"),
        (["--out-indent", "65"], "--out-indent: say a number of spaces, -1 to 64, not '65'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(site: Path, words: list[str], sentence: str) -> None:
    said = call(site, *words, "test.ping")
    assert said.returncode == 2
    assert sentence in said.stderr
