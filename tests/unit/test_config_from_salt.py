"""Salt's configuration, converted: every option has an answer, and the files that come out are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.cli.main import main
from saltlite.config import from_salt
from saltlite.config.from_salt import ALL_GROUPS, MISFIT_GROUP, OWN_GROUP, READ_GROUP, UNKNOWN_GROUP, Converted, convert
from saltlite.config.load import load_master, load_minion
from saltlite.errors import ConfigError, UsageError
from saltlite.model.salt_features import NOT_YET_GROUP, RENAMED_GROUP
from tests.unit.test_model_salt_features import SALTS

MASTER = """
interface: 10.0.0.1
publish_port: 4505
user: salt
pki_dir: /etc/salt/pki/master
keep_jobs: 48
timeout: 12
file_roots:
  base: [/srv/salt, /srv/formulas]
external_auth:
  pam:
    fred: [test.*]
auto_accept: yes
file_recv: on
failhard: True
gitfs_remotes: [https://git.example/states]
worker_threads: many
event_return: rawfile_json
include: more/*.conf
"""
MINION = """
master: salt.example
id: web1
process_count_max: 4
mysql.host: db.example
rack: 7
test: no
jinja_env: {trim_blocks: true}
"""


@pytest.fixture
def salt(tmp_path: Path) -> Path:
    folder = tmp_path / "salt"
    for name, text in {
        "master": MASTER,
        "minion": MINION,
        "more/auth.conf": "external_auth: {pam: {ada: ['@runner']}}\n",
        "master.d/late.conf": "timeout: 20\n",
        "minion.d/_schedule.conf": "schedule: {}\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def of(sides: list[Converted], side: str) -> dict[str, tuple[str, str]]:
    (found,) = [one for one in sides if one.side == side]
    return {answer.option: (answer.group, answer.instead) for answer in found.answers}


def test_each_option_has_its_answer(salt: Path) -> None:
    sides = convert(str(salt))
    master, minion = of(sides, "master"), of(sides, "minion")
    groups = {name: group for name, (group, _) in master.items()}
    assert groups == {
        **dict.fromkeys(
            ("interface", "keep_jobs", "timeout", "file_roots", "external_auth", "file_recv", "event_return"),
            READ_GROUP,
        ),
        **dict.fromkeys(("publish_port", "auto_accept", "failhard"), RENAMED_GROUP),
        **dict.fromkeys(("user", "pki_dir"), OWN_GROUP),
        "gitfs_remotes": NOT_YET_GROUP,
        "worker_threads": MISFIT_GROUP,
    }
    assert master["auto_accept"][1] == "`saltlite key token create`"
    assert master["worker_threads"][1].startswith("it takes a whole number")
    assert minion["process_count_max"] == (RENAMED_GROUP, "jobs_max")
    assert minion["schedule"][0] == READ_GROUP
    assert minion["rack"][1] == "declared in own_options"


def test_places_are_those_of_salts_files(salt: Path) -> None:
    places = {answer.option: answer.place for one in convert(str(salt)) for answer in one.answers}
    assert places["interface"] == f"{salt}/master:2"
    assert places["timeout"] == f"{salt}/master.d/late.conf:1"


def test_the_files_that_are_written_have_the_values(salt: Path, tmp_path: Path) -> None:
    assert main(["config", "from-salt", str(salt), "--write", str(tmp_path / "ours")]) == 0
    master, minion = load_master(str(tmp_path / "ours")).config, load_minion(str(tmp_path / "ours")).config
    assert (master.interface, master.keep_jobs, master.timeout, master.port) == ("10.0.0.1", 48 * 3600, 20, 4515)
    assert master.file_roots == {"base": ["/srv/salt", "/srv/formulas"]}
    assert master.external_auth == {"pam": {"fred": ["test.*"], "ada": ["@runner"]}}
    assert (master.file_recv, master.event_return) == (True, ["rawfile_json"])
    assert (minion.master, minion.id, minion.jobs_max) == (["salt.example"], "web1", 4)
    assert minion.state_options == {"test": False, "jinja_env": {"trim_blocks": True}}
    assert (minion.module_config, minion.own_options) == ({"mysql.host": "db.example", "rack": 7}, ["rack"])
    assert (tmp_path / "ours" / "master").stat().st_mode & 0o777 == 0o600
    assert "#   gitfs_remotes: not there yet" in (tmp_path / "ours" / "master").read_text()


def test_nothing_is_written_without_a_folder_and_nothing_is_overwritten(
    salt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert main(["config", "from-salt", str(salt)]) == 0
    said = capsys.readouterr()
    assert "read as is:\n    interface, keep_jobs" in said.out
    assert "failhard (master:15): state_options of the minion" in said.out
    assert "nothing was written" in said.err
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "master").write_text("port: 1\n")
    assert main(["config", "from-salt", str(salt), "--write", str(tmp_path / "ours")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "ours" / "master").read_text() == "port: 1\n"


@pytest.mark.parametrize("side", ["master", "minion"])
def test_every_option_of_salt_has_an_answer_that_is_known(side: str, tmp_path: Path) -> None:
    (tmp_path / side).write_text("".join(f"{name}: true\n" for name in SALTS))
    (found,) = convert(str(tmp_path))
    assert {one.group for one in found.answers} <= set(ALL_GROUPS) - {UNKNOWN_GROUP}
    assert [one for one in found.answers if one.instead == "declared in own_options"] == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "there is neither a file master nor a file minion"),
        ({"master": "a: [\n"}, "master:2:1: this is not YAML"),
        ({"master": "include: nowhere/*\n"}, "includes nowhere/*, and there is no such file"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises((UsageError, ConfigError)) as raised:
        convert(str(tmp_path))
    assert words in str(raised.value)


def test_files_that_include_each_other_are_read_once_and_their_number_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "master").write_text("include: ['*.conf', master]\n")
    (tmp_path / "a.conf").write_text("include: b.conf\n")
    (tmp_path / "b.conf").write_text("include: a.conf\ntimeout: 3\n")
    (found,) = convert(str(tmp_path))
    assert [Path(path).name for path in found.files] == ["master", "a.conf", "b.conf"]
    monkeypatch.setattr(from_salt, "INCLUDES_MAX", 1)
    with pytest.raises(UsageError, match="includes more than 1 files"):
        convert(str(tmp_path))
