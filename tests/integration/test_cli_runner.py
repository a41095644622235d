"""`saltlite runner` against a master that a test plays."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import main_run, run
from tests.integration.fakemaster import DROP, FakeMaster, Step, returned
from tests.support.fleet import WAIT_S, wait_until

JID = "20260131235959123456"
ROW = {"id": "web1", "state": "up", "last_seen": 1.0, "address": "", "version": "0.1"}
OWN = '''
import os
import time


def where():
    """Where runners of one's own come from."""
    return [__opts__["id"], __grains__["kernel"], __salt__["stock.number"](), __execution__["ours.number"]()]


def number(least: int = 1):
    return least


def tabled(name="txt"):
    return {"outputter": name, "data": ["one", "two"]}


def almost():
    return {"outputter": "txt", "data": ["one"], "more": 1}


def failing():
    __context__["retcode"] = 9
    return "bad"


def sleeping(marker):
    with open(marker, "w") as stream:
        stream.write("in")
    time.sleep(60)
'''


def answers(request: dict[str, Any]) -> Iterable[Step]:
    """Of a master with one minion."""
    match request["verb"]:
        case "minions":
            return [{"ok": True, "minions": [ROW]}]
        case "runner_event":
            return [{"ok": True}]
        case "job_show":
            return [{"ok": True, "job": {"targets": [], "calls": [["test.arg", [], {}]]}}]
    return [{"ok": False, "exit": 2, "error": "not known"}]


def refusing(_request: dict[str, Any]) -> Iterable[Step]:
    """Of a master that does not take the caller for an operator."""
    return [{"ok": False, "exit": 6, "error": "mallory may not report calls of runners"}]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a master's configuration; the log goes back to where it was."""
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield tmp_path
    for handler in [one for one in logging.getLogger().handlers if one not in before[0]]:
        logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(before[1])


def configure(folder: Path, more: str = "") -> None:
    """Runners and modules of one's own, and paths below the folder."""
    for path, text in (("ext/runners/stock.py", OWN), ("ext/modules/ours.py", "def number():\n    return 7\n")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for made in (folder / "ext", folder / "ext/runners", folder / "ext/modules"):
        made.chmod(0o755)
    config = f"root_dir: {folder}\nsock_dir: {folder}\nmaster_name: here\nextension_modules: {folder}/ext\n{more}"
    (folder / "master").write_text(config)


def runner(folder: Path, *words: str, more: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `saltlite runner -c … words`; `more` is added to the configuration."""
    configure(folder, more)
    out, err = io.StringIO(), io.StringIO()
    code = run(["runner", "-c", str(folder), *words], Console(None, out, err))
    return code, out.getvalue(), err.getvalue()


def test_the_result_is_printed_without_a_minion_around_it(folder: Path) -> None:
    with FakeMaster(folder, answers):
        assert runner(folder, "manage.up") == (0, "- web1\n", "")
        assert runner(folder, "manage.up", "--out", "json") == (0, '[\n    "web1"\n]\n', "")


def test_saltlite_run_is_the_same_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    configure(folder)
    with FakeMaster(folder, answers):
        configure(folder)
        assert main_run(["-c", str(folder), "manage.up", "--out", "txt"]) == 0
    assert capfd.readouterr().out == "web1\n"


def test_the_master_notes_that_it_began_and_how_it_ended(folder: Path) -> None:
    with FakeMaster(folder, answers) as master:
        runner(folder, "stock.number,stock.failing", "3")
    begun, ended = master.requests
    assert (begun["verb"], begun["funs"]) == ("runner_event", ["stock.number", "stock.failing"])
    assert len(begun["jid"]) == 20
    assert (ended["jid"], ended["retcode"]) == (begun["jid"], 9)


def test_runners_of_ones_own_have_options_grains_runners_and_modules(folder: Path) -> None:
    with FakeMaster(folder, answers):
        code, out, _ = runner(folder, "stock.where", "--out", "json")
    assert (code, json.loads(out)) == (0, ["here_master", "Linux", 1, 7])


def test_arguments_are_read_by_the_signature_and_misfits_are_refused_before_anything_is_asked(folder: Path) -> None:
    with FakeMaster(folder, answers) as master:
        assert runner(folder, "stock.number", "least=5")[:2] == (0, "5\n")
        master.requests.clear()
        code, out, err = runner(folder, "stock.number", "few")
        assert (code, out, master.requests) == (2, "", [])
    assert "argument 'least' takes int, not 'few'" in err


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (("stock.failing",), 4, "bad\n"),
        (("stock.nothing",), 4, "'stock.nothing' is not available.\n"),
        (("salt.cmd", "test.retcode", "3"), 4, "True\n"),
        (("salt.cmd", "nosuch.f"), 4, "ERROR: 'nosuch.f' is not available.\n"),
        (("jobs.list_jobs",), 4, "ERROR: not known\n"),
    ],
)
def test_what_fails_fails_the_command(folder: Path, words: tuple[str, ...], code: int, out: str) -> None:
    with FakeMaster(folder, answers):
        assert runner(folder, *words)[:2] == (code, out)


def test_salt_cmd_gives_modules_the_pillar_of_this_machine_if_asked(folder: Path) -> None:
    (folder / "pillar").mkdir()
    (folder / "pillar/top.sls").write_text("base: {'*': [role]}\n")
    (folder / "pillar/role.sls").write_text("role: {{ grains['id'] }}\n")
    more = f"pillar_roots: {{base: [{folder}/pillar]}}\n"
    with FakeMaster(folder, answers):
        assert runner(folder, "salt.cmd", "pillar.get", "role", more=more)[:2] == (0, "")
        asked = runner(folder, "salt.cmd", "pillar.get", "role", "with_pillar=True", more=more)
        assert asked[:2] == (0, "here_master\n")


@pytest.mark.parametrize("kind", ["zip", "pyx"])
def test_archives_and_cython_are_runners_where_they_are_enabled(folder: Path, kind: str) -> None:
    (folder / "ext/runners").mkdir(parents=True)
    (folder / "ext/.cache").mkdir()
    if kind == "zip":
        with zipfile.ZipFile(folder / "ext/runners/packed.zip", "w") as archive:
            archive.writestr("packed/__init__.py", "def f(): return 'packed'\n")
    else:
        (folder / "ext/runners/packed.pyx").write_text("cdef str text = 'packed'\ndef f(): return text\n")
    with FakeMaster(folder, answers):
        assert runner(folder, "packed.f")[0] == 4
        more = "enable_zip_modules: true\ncython_enable: true\n"
        assert runner(folder, "packed.f", more=more)[:2] == (0, "packed\n")


def test_without_a_master_a_runner_that_needs_none_runs_and_it_is_said_that_nobody_knows(folder: Path) -> None:
    code, out, err = runner(folder, "salt.cmd", "test.ping")
    assert (code, out) == (0, "True\n")
    assert "no event reports this runner" in err


def test_without_a_master_a_runner_that_needs_it_says_so(folder: Path) -> None:
    code, out, _ = runner(folder, "manage.up", "-q")
    assert code == 7
    assert "is saltlite-master running?" in out


def test_who_is_no_operator_runs_nothing(folder: Path, tmp_path: Path) -> None:
    with FakeMaster(folder, refusing):
        code, out, err = runner(folder, "stock.sleeping", str(tmp_path / "marker"))
    assert (code, out) == (6, "")
    assert "mallory may not" in err
    assert not (tmp_path / "marker").exists()


def test_a_master_that_goes_away_does_not_take_the_result_along(folder: Path) -> None:
    def going(request: dict[str, Any]) -> Iterable[Step]:
        return [DROP] if "retcode" in request else answers(request)

    with FakeMaster(folder, going):
        code, out, err = runner(folder, "stock.number")
    assert (code, out) == (0, "1\n")
    assert "did not learn that the runner has ended" in err


def test_code_from_a_folder_that_others_may_write_to_is_not_run(folder: Path) -> None:
    configure(folder)
    (folder / "ext/runners").chmod(0o777)
    out, err = io.StringIO(), io.StringIO()
    assert run(["runner", "-c", str(folder), "stock.number"], Console(None, out, err)) == 6
    assert "could make you run any code" in err.getvalue()


def test_the_returns_of_a_job_are_read_from_the_store(folder: Path) -> None:
    with FakeMaster(folder, answers) as master:
        master.unsaid = [returned(1, "web1", {"a": 1}), returned(2, "web2", None)]
        code, out, _ = runner(folder, "jobs.lookup_jid", JID, "--out", "json")
    assert (code, json.loads(out)) == (0, {"web1": {"a": 1}, "web2": None})


def test_documentation_needs_no_master(folder: Path) -> None:
    code, out, err = runner(folder, "-d", "stock", "--out", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["stock.where"] == "Where runners of one's own come from."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say what to run"),
        (("manage",), "'manage' is not a function"),
        (("-d", "nosuch"), "there is no runner 'nosuch'"),
        (("state.event", "pretty=True"), "there is no runner state.event here: `saltlite events`"),
    ],
)
def test_a_line_that_is_none_is_told_so(folder: Path, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = runner(folder, *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_ctrl_c_ends_a_runner_and_the_master_is_told(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "inside"
    with FakeMaster(folder, answers) as master:
        configure(folder)
        argv = [sys.executable, "-m", "saltlite", "runner", "-c", str(folder), "stock.sleeping", str(marker)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with subprocess.Popen(argv, env=environment) as process:
            wait_until(marker.exists, "the runner began")
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 130
        assert [request.get("retcode") for request in master.requests] == [None, 130]


def test_plug_ins_of_file_roots_are_synced_and_then_run(folder: Path) -> None:
    put = {
        "_runners/tour.py": "def start():\n    return __execution__['ours.number']() + __grains__['steps']\n",
        "_modules/ours.py": "def number():\n    return 30\n",
        "_grains/steps.py": "def steps():\n    print('said on the way')\n    return {'steps': 9}\n",
    }
    for path, text in put.items():
        (folder / "srv" / path).parent.mkdir(parents=True)
        (folder / "srv" / path).write_text(text)
    config = f"root_dir: {folder}\nsock_dir: {folder}\nfile_roots: {{base: [{folder}/srv]}}\n"

    def run_it(*words: str) -> Any:
        (folder / "master").write_text(config)
        out = io.StringIO()
        assert run(["runner", "-q", "-c", str(folder), *words, "--out", "json"], Console(None, out, None)) == 0
        return json.loads(out.getvalue())

    assert run_it("saltutil.sync_runners") == ["runners.tour"]
    all_of_them = {
        "clouds": [],
        "grains": ["grains.steps"],
        "interfaces": [],
        "modules": ["modules.ours"],
        "output": [],
        "pillar": [],
        "returners": [],
        "runners": [],
        "utils": [],
    }
    assert run_it("saltutil.sync_all") == all_of_them
    assert run_it("saltutil.sync_all") == {kind: [] for kind in all_of_them}
    assert run_it("tour.start") == 39
    (folder / "srv/_runners/tour.py").unlink()
    assert run_it("saltutil.sync_runners") == []
    assert not (folder / "var/cache/saltlite/extmods/runners/tour.py").exists()
    # The master's own folder is none that an operator, who is mostly root, writes to.
    assert not (folder / "var/cache/saltlite/master").exists()


def test_lists_of_the_master_that_leave_out_everything_remove_nothing(folder: Path) -> None:
    extmods = folder / "var/cache/saltlite/extmods/runners"
    (folder / "master").write_text(f"root_dir: {folder}\nsock_dir: {folder}\nfile_roots: {{base: [{folder}/srv]}}\n")
    served = folder / "srv/_runners"
    served.mkdir(parents=True)
    for name in ("tour", "town"):
        (served / f"{name}.py").write_text("def start():\n    return 39\n")

    def run_it(*words: str) -> tuple[int, str]:
        out = io.StringIO()
        code = run(["runner", "-q", "-c", str(folder), *words, "--out", "json"], Console(None, out, None))
        return code, out.getvalue()

    def there() -> list[str]:
        return sorted(os.listdir(extmods))

    assert run_it("saltutil.sync_runners")[0] == 0
    for wrong, why in (
        ("extmod_whitelist={runners: [tuor]}", "would remove all that are here (runners.tour, runners.town)"),
        ("extmod_whitelist={runers: [tour]}", "did you mean runners?"),
        ("extmod_blacklist=[5]", "a list of texts"),
    ):
        code, out = run_it("saltutil.sync_runners", wrong)
        assert code != 0
        assert why in out
        assert there() == ["tour.py", "town.py"]
    assert run_it("saltutil.sync_all", "extmod_whitelist={runners: [tuor]}")[0] != 0
    assert there() == ["tour.py", "town.py"]
    assert run_it("saltutil.sync_runners", "extmod_whitelist={runners: ['*r']}") == (0, "[]\n")
    assert there() == ["tour.py"]
    assert run_it("saltutil.sync_runners", "extmod_blacklist=t*", "extmod_empty=True") == (0, "[]\n")
    assert there() == []


@pytest.mark.parametrize("kind", ["runners", "modules", "all"])
def test_a_sync_takes_refresh_and_no_saltenv_as_in_salt(folder: Path, kind: str) -> None:
    with FakeMaster(folder, answers):
        assert runner(folder, f"saltutil.sync_{kind}", "saltenv=null", "refresh=False")[0] == 0


def test_a_sync_of_what_masters_do_not_have_says_so_and_is_no_failure(folder: Path) -> None:
    with FakeMaster(folder, answers):
        words = ("saltutil.sync_states", "saltenv=base", "refresh=False", "--out", "json")
        code, out, err = runner(folder, *words)
    assert (code, json.loads(out), "Nothing was synced. States run on minions: each run" in err) == (0, [], True)


def test_a_sync_without_a_place_for_plug_ins_is_refused(folder: Path) -> None:
    (folder / "master").write_text(f"root_dir: {folder}\nsock_dir: {folder}\nextension_modules: ''\n")
    out = io.StringIO()
    assert run(["runner", "-q", "-c", str(folder), "saltutil.sync_all"], Console(None, out, None)) == 4
    assert out.getvalue() == "ERROR: There is no place for plug-ins: set extension_modules of the master.\n"


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("stock.tabled",), "one\ntwo\n"),
        (("stock.tabled", "raw"), "['one', 'two']\n"),
        (("stock.tabled", "nosuch"), "- one\n- two\n"),
        (("stock.tabled", "--out", "json", "--out-indent=-1"), '["one", "two"]\n'),
        (("stock.almost", "--out", "json", "--out-indent=-1"), '{"data": ["one"], "more": 1, "outputter": "txt"}\n'),
    ],
)
def test_a_runner_may_name_the_outputter_of_what_it_returns(folder: Path, words: tuple[str, ...], out: str) -> None:
    with FakeMaster(folder, answers):
        assert runner(folder, *words)[:2] == (0, out)


def test_options_are_the_masters_own_and_secrets_inside_of_them_are_hidden(folder: Path) -> None:
    secrets = (
        f"cachedir: {folder}/of-the-master\n"
        "hooks: {told: {event: 'app/*', as: root, runner: {fun: event.send, kwarg: {password: hunter2}}}}\n"
        "returner_config: {http: {token: abc, url: 'https://x'}}\n"
    )
    configure(folder)
    with FakeMaster(folder, answers):
        (folder / "master").write_text((folder / "master").read_text() + secrets)
        said = {}
        for fun, *more in (("test.get_opts",), ("config.get", "cachedir"), ("config.get", "hooks:told:runner:kwarg")):
            out = io.StringIO()
            assert run(["runner", "-c", str(folder), fun, *more, "--out", "json"], Console(None, out, out)) == 0
            assert "hunter2" not in out.getvalue()
            said[fun, *more] = json.loads(out.getvalue())
    assert said["config.get", "cachedir"] == f"{folder}/of-the-master"
    assert said["config.get", "hooks:told:runner:kwarg"] == {"password": "***"}
    assert said["test.get_opts",]["returner_config"] == {"http": {"token": "***", "url": "https://x"}}


@pytest.mark.parametrize("words", [("nosuch.f",), ("test.nosuch",)])
def test_a_runner_that_is_not_there_is_a_failure(folder: Path, words: tuple[str, ...]) -> None:
    with FakeMaster(folder, answers):
        assert runner(folder, *words)[0] == 4
