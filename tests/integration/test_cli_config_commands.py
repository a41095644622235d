"""`saltlite config check` and `config show` on real files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from saltlite.cli.console import Console
from saltlite.cli.main import run
from saltlite.config.load import load_master
from saltlite.config.render import samples
from saltlite.errors import ConfigError

TOKEN = f"slj1.{'A' * 40}.abcdefgh.{'b' * 32}"


def config(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `saltlite config … -c folder`, without the folder in them."""
    out, err = io.StringIO(), io.StringIO()
    code = run(["config", *words, "-c", str(folder)], Console(None, out, err))
    return code, out.getvalue().replace(f"{folder}/", ""), err.getvalue().replace(str(folder), "DIR")


def shown(folder: Path, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(config(folder, "show", *words, "--out", "json")[1])
    return document


def test_files_without_a_mistake_are_counted(tmp_path: Path) -> None:
    for name, text in samples().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "minion.d").mkdir()
    (tmp_path / "minion.d/a.conf").write_text("jobs_max: 3\n")
    assert config(tmp_path, "check") == (0, "5 files, no problem\n", "")
    assert config(tmp_path, "check", "master") == (0, "1 file, no problem\n", "")


def test_every_mistake_of_both_sides_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("prot: 1\nport: 70000\nport: 5\n")
    (tmp_path / "minion").write_text("run_timeout: soon\nmaster: [a, 'b:x']\n")
    code, out, err = config(tmp_path, "check")
    assert (code, err) == (2, "")
    assert [line.split(" ")[0] for line in out.splitlines()] == [
        "master:3:1:", "master:1:1:", "master:2:7:", "minion:1:14:", "minion:2:13:"
    ]  # fmt: skip
    assert "(did you mean 'port'?)" in out


def test_a_folder_of_modules_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "minion").write_text(f"id: a\nmodule_dirs: [{tmp_path}/there, {tmp_path}/here]\n")
    code, out, _ = config(tmp_path, "check", "minion")
    assert code == 2
    assert out == "minion:2:1: 'module_dirs' names here, which does not exist: create it, or correct the path\n"


def test_the_files_of_clouds_are_looked_at_where_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "cloud.providers").write_text("lab: {driver: local}\nlib:\n  drivr: local\n")
    (tmp_path / "cloud.profiles").write_text("small: {provider: lab}\n")
    for words in ([], ["cloud"], ["all"]):
        code, out, _ = config(tmp_path, "check", *words)
        assert code == 2
        assert out.startswith("cloud.providers:2:")
    (tmp_path / "cloud.providers").write_text("lab: {driver: local}\n")
    assert config(tmp_path, "check") == (0, "2 files, no problem\n", "")
    (tmp_path / "master").touch()
    assert config(tmp_path, "check") == (0, "3 files, no problem\n", "")
    assert config(tmp_path, "check", "master") == (0, "1 file, no problem\n", "")


def test_clouds_that_are_asked_for_and_not_configured_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "master").touch()
    assert config(tmp_path, "check", "cloud")[0] == 2


def test_check_answers_programs_with_one_document(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("prot: 1\n")
    code, out, _ = config(tmp_path, "check", "--out", "json")
    assert code == 2
    answer = json.loads(out)
    assert (answer["files"], len(answer["problems"])) == (["master"], 1)


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_folder_without_configuration_is_an_error(command: str, tmp_path: Path) -> None:
    code, out, err = config(tmp_path, command)
    assert (code, out) == (2, "")
    assert err.startswith("saltlite: DIR has neither a file 'master' nor a file 'minion'")


@pytest.mark.parametrize("words", [["server"], ["master", "minion"]])
def test_other_words_are_an_error(words: list[str], tmp_path: Path) -> None:
    assert config(tmp_path, "check", *words)[0] == 2


def test_show_prints_what_a_daemon_would_have_as_a_file_that_gives_it_again(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("root_dir: /srv\nport: 4600\ntimeout: 90\nlog_file: x.log\n")
    code, out, _ = config(tmp_path, "show")
    assert code == 0
    again = tmp_path / "again"
    again.mkdir()
    (again / "master").write_text(out)
    assert load_master(str(again)).config == load_master(str(tmp_path)).config


def test_show_refuses_what_a_daemon_refuses(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("prot: 1\n")
    code, out, err = config(tmp_path, "show")
    assert (code, out) == (2, "")
    assert "master:1:1: unknown option" in err


def test_origins_are_the_file_and_line_that_won(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("# a\nport: 1\ntimeout: 3\n")
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d/x.conf").write_text("\n\nport: 2\n")
    document = shown(tmp_path, "--origin")["master"]
    assert document["port"] == {"value": 2, "origin": "master.d/x.conf:3"}
    assert document["timeout"] == {"value": 3.0, "origin": "master:3"}
    assert document["user"] == {"value": "saltlite", "origin": "default"}
    lines = config(tmp_path, "show", "--origin")[1].splitlines()
    assert next(line.split() for line in lines if line.startswith("port:")) == ["port:", "2", "#", "master.d/x.conf:3"]


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text(
        f"join_token: {TOKEN}\nmysql.pass: hunter2\ngit.remotes: {{api_key: hunter2, url: here}}\nx.tokens: [hunter2]\n"
    )
    for words in ([], ["--origin"], ["--out", "json"], ["--origin", "--out", "json"]):
        _, out, _ = config(tmp_path, "show", *words)
        assert "hunter2" not in out
        assert TOKEN not in out
    document = shown(tmp_path)["minion"]
    assert (document["join_token"], document["mysql.pass"]) == ("***", "***")
    assert document["git.remotes"] == {"api_key": "***", "url": "here"}


def test_a_secret_that_is_not_set_is_not_made_to_look_as_if_it_were(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text("")
    assert shown(tmp_path)["minion"]["join_token"] == ""


def test_both_sides_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("")
    (tmp_path / "minion").write_text("")
    assert set(shown(tmp_path)) == {"master", "minion"}
    assert set(shown(tmp_path, "minion")) == {"minion"}
    out = config(tmp_path, "show")[1]
    assert [line for line in out.splitlines() if line.startswith("#")] == ["# master", "# minion"]
    assert isinstance(yaml.safe_load(out.partition("# minion")[2]), dict)


def test_the_file_of_the_api_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "api").write_text("port: 8001\n")
    assert config(tmp_path, "check") == (0, "1 file, no problem\n", "")
    (tmp_path / "master").write_text("")
    assert config(tmp_path, "check") == (0, "2 files, no problem\n", "")
    (tmp_path / "api").write_text("prot: 8001\n")
    for words in ((), ("api",), ("all",)):
        code, out, _ = config(tmp_path, "check", *words)
        assert (code, out) == (2, "api:1:1: unknown option 'prot' (did you mean 'port'?)\n")
    assert config(tmp_path, "check", "master")[0] == 0


def test_a_nodegroup_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "master").write_text('nodegroups: {web: "web1,web2", broken: "L@a and ("}\n')
    code, out, _ = config(tmp_path, "check")
    assert code == 2
    assert out.startswith("master:1:1: 'nodegroups': ")
    assert len(out.splitlines()) == 1
    assert "broken" in out


def test_a_file_in_the_place_of_its_folder_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("")
    with pytest.raises(ConfigError, match=rf"/master: this is a file, but its folder is needed: -c {tmp_path}$"):
        load_master(str(tmp_path / "master"))
