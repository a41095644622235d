"""`saltlite lint`, `saltlite interface …` and `saltlite explain --local` on real files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from tests.support.modules import write

GOOD = '"""A module."""\n\n\ndef works(name):\n    """Do it."""\n'
BROKEN = '"""A module."""\n\n\ndef works(name:\n'
BESIDE = '"""A module."""\n\n\ndef works(name=[]):\n    """Do it."""\n'

OLD = """
from saltlite.interfaces import Interface

class T(Interface):
    __modulename__ = "t"
    def f(self, a=1):
        "Do it."
"""


def cli(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run(list(words), Console(None, out, err))
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(("source", "code"), [(GOOD, 0), (BESIDE, 0), (BROKEN, 4)])
def test_only_errors_fail_lint(tmp_path: Path, source: str, code: int) -> None:
    write(tmp_path, {"m": source})
    assert cli("lint", str(tmp_path))[0] == code
    assert cli("lint", str(tmp_path / "m.py"))[0] == code


def test_lint_prints_json_and_sarif(tmp_path: Path) -> None:
    write(tmp_path, {"m": BESIDE})
    assert json.loads(cli("lint", str(tmp_path), "--out", "json")[1])["warnings"] == 1
    sarif = json.loads(cli("lint", str(tmp_path), "--out", "sarif")[1])
    assert sarif["runs"][0]["results"][0]["ruleId"] == "SMI014"


def test_lint_lists_its_codes_in_its_help() -> None:
    code, out, _err = cli("lint", "--help")
    assert code == 0
    assert "SMI006  error    a call that is valid for the interface fails here" in out


@pytest.mark.parametrize("words", [["lint"], ["lint", "/nowhere"], ["lint", "--out", "xml", "."]])
def test_a_command_line_that_lint_does_not_understand_is_a_usage_error(words: list[str]) -> None:
    assert cli(*words)[0] == 2


def test_an_interface_that_ships_is_shown_with_signatures_and_platforms() -> None:
    code, out, _err = cli("interface", "show", "group")
    assert code == 0
    assert out.startswith("interface group 1.0, 9 functions\n")
    assert any(line.split() == ["add(name:", "str)", "bool", "everywhere"] for line in out.splitlines())
    shown = json.loads(cli("interface", "show", "group", "--out", "json")[1])
    assert shown["functions"]["list_groups"]["supported"] == {"os_family": ["Windows"]}


def test_an_interface_that_is_nowhere_is_named_with_those_that_are() -> None:
    code, _out, err = cli("interface", "show", "pgk")
    assert code == 2
    assert "name a file, or one of group, pkg, service, shadow, user" in err


def test_diff_tells_breaking_changes_and_wants_a_new_version(tmp_path: Path) -> None:
    write(tmp_path, {"old": OLD, "new": OLD.replace("self, a=1", "self")})
    old, new = str(tmp_path / "old.py"), str(tmp_path / "new.py")
    code, out, err = cli("interface", "diff", old, new)
    assert (code, out) == (4, "breaking    f: a is gone\n")
    assert "breaking changes require version 2.0, and it has 1.0" in err
    assert json.loads(cli("interface", "diff", new, old, "--out", "json")[1])["kind"] == "additive"
    assert cli("interface", "diff", old, old)[:2] == (0, "no change\n")


def test_diff_refuses_interfaces_of_two_modules() -> None:
    assert cli("interface", "diff", "pkg", "user")[0] == 2


def test_generate_prints_an_interface_that_can_be_shown_and_linted(tmp_path: Path) -> None:
    write(tmp_path, {"a": GOOD, "b": GOOD + '\n\ndef only(x):\n    """Do."""\n'})
    a, b = str(tmp_path / "a.py"), str(tmp_path / "b.py")
    code, out, _err = cli("interface", "generate", "thing", "--from", a, b, "--platform", "b:os_family=Debian,Suse")
    assert code == 0
    made = tmp_path / "made.py"
    made.write_text(out)
    shown = json.loads(cli("interface", "show", str(made), "--out", "json")[1])
    assert shown["interface"] == "thing"
    assert shown["functions"]["only"]["supported"] == {"os_family": ["Debian", "Suse"]}
    assert cli("lint", str(made))[0] == 0


def test_generate_says_what_it_needs(tmp_path: Path) -> None:
    assert cli("interface", "generate", "thing")[0] == 2
    assert cli("interface", "generate", "thing", "--from", str(tmp_path / "none.py"))[0] == 2
    assert cli("interface", "generate", "thing", "--platform", "x")[0] == 2


# --- explain


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    modules = {
        "ext/modules/good": GOOD.replace('"""A module."""', '"""A."""\n__virtualname__ = "thing"')
        + "\n\ndef __virtual__():\n    return __virtualname__\n",
        "ext/modules/poor": '__virtualname__ = "thing"\n\n\ndef __virtual__():\n    return False, "no thing"\n',
        "ext/interfaces/thing": OLD.replace('"t"', '"thing"'),
    }
    write(tmp_path, modules)
    text = f"id: me\nroot_dir: {tmp_path}/root\nextension_modules: {tmp_path}/ext\n"
    (tmp_path / "minion").write_text(text)
    return tmp_path


def test_explain_tells_winner_losers_and_the_interface(config_dir: Path) -> None:
    code, out, _err = cli("explain", "thing", "--local", "-c", str(config_dir))
    assert code == 0
    assert "good (extmods) provides it" in out
    assert "interface thing 1.0: 1 deprecated, 1 not implemented" in out
    assert "  not implemented: f" in out


def test_show_knows_the_interfaces_in_the_folders_of_plug_ins(config_dir: Path) -> None:
    code, out, _err = cli("interface", "show", "thing", "-c", str(config_dir))
    assert (code, out.splitlines()[0]) == (0, "interface thing 1.0, 1 functions")
    (config_dir / "srv/_interfaces").mkdir(parents=True)
    (config_dir / "srv/_interfaces/t.py").write_text(OLD)
    with open(config_dir / "minion", "a") as file:
        file.write(f"file_roots: {{base: [{config_dir}/srv]}}\n")
    code, out, _err = cli("interface", "show", "t", "-c", str(config_dir))
    assert (code, out.splitlines()[0]) == (0, "interface t 1.0, 1 functions")
    code, _out, err = cli("interface", "show", "nosuch", "-c", str(config_dir))
    assert code == 2
    assert "no interface with that name: name a file, or one of group, pkg, service, shadow, t, thing, user" in err


def test_explain_gives_the_reason_of_each_loser(config_dir: Path) -> None:
    (config_dir / "ext/modules/good.py").unlink()
    code, out, _err = cli("explain", "thing", "--local", "-c", str(config_dir), "--out", "json")
    (candidate,) = json.loads(out)["candidates"]
    assert code == 0
    assert (candidate["chosen"], candidate["reason"]) == (False, "'poor' __virtual__ returned False: no thing")


def test_explain_of_a_module_that_no_file_claims_matches_nothing(config_dir: Path) -> None:
    code, out, _err = cli("explain", "nosuch", "--local", "-c", str(config_dir))
    assert (code, out) == (3, "nosuch: no file of this machine could provide it\n")


@pytest.mark.parametrize("words", [["explain", "pkg"], ["explain", "pkg.install", "web1"], ["explain"]])
def test_explain_wants_a_module_and_a_minion(words: list[str]) -> None:
    assert cli(*words)[0] == 2
