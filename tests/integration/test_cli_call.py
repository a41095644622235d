"""`saltlite call`: functions on this machine without master and daemon."""

from __future__ import annotations

import io
import json
import logging
import os
import pwd
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import main_call, run
from saltlite.platform import privileges
from tests.support.fleet import WAIT_S, wait_until

MODULE = '''
"""A module that tries things out."""

import os
import subprocess
import sys
import time

__outputter__ = {"lines": "txt"}


def lines():
    return "one\\ntwo"


def answer(number: int = 1, flag: bool = False):
    """The number, and whether the flag is set."""
    return [number, flag]


def seen(**kwargs):
    return {"id": __opts__["id"], "grain": __grains__["id"], "wood": __salt__["config.get"]("shop.wood"), **kwargs}


def noisy():
    print("printed by python")
    subprocess.run(["echo", "printed by a program"], check=True)
    return "the return"


def odd():
    return {(1, 2): {3}, "at": __import__("datetime").date(2026, 1, 31)}


def failing():
    __context__["retcode"] = 42
    return "did not work"


def breaking():
    raise ValueError("the wood is wet")


def sleeping(marker):
    with open(marker, "w") as stream:
        stream.write("in")
    time.sleep(60)


def after(marker):
    open(marker, "w").close()
'''


@pytest.fixture
def config_dir(tmp_path: Path) -> Iterator[Path]:
    """The configuration of a minion with one module of its own."""
    folder = tmp_path / "etc"
    (tmp_path / "ext/modules").mkdir(parents=True)
    (tmp_path / "ext/modules/shop.py").write_text(MODULE)
    folder.mkdir()
    (folder / "minion").write_text(
        f"root_dir: {tmp_path}/root\nid: web1\nextension_modules: {tmp_path}/ext\nshop.wood: oak\n"
    )
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield folder
    for handler in [one for one in logging.getLogger().handlers if one not in before[0]]:
        logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(before[1])


def call(config_dir: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `saltlite call -c … words`."""
    out, err = io.StringIO(), io.StringIO()
    code = run(["call", "-c", str(config_dir), *words], Console(None, out, err))
    return code, out.getvalue(), err.getvalue()


def returned(config_dir: Path, *words: str) -> Any:
    """The return of a call that succeeds."""
    code, out, err = call(config_dir, *words, "--out", "json")
    assert (code, err) == (0, "")
    return json.loads(out)["local"]


def test_the_return_is_printed_under_local_as_salt_does(config_dir: Path) -> None:
    assert call(config_dir, "--local", "test.ping") == (0, "local:\n    True\n", "")


def test_saltlite_call_is_the_same_command(config_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main_call(["-c", str(config_dir), "test.ping", "--out", "txt"]) == 0
    assert capfd.readouterr().out == "local: True\n"


def test_a_function_sees_the_minion_of_the_configuration(config_dir: Path) -> None:
    seen = returned(config_dir, "shop.seen")
    assert (seen["id"], seen["grain"], seen["wood"]) == ("web1", "web1", "oak")
    assert seen["__pub_fun"] == "shop.seen"
    assert len(seen["__pub_jid"]) == 20


def test_another_id_reaches_options_and_grains(config_dir: Path) -> None:
    seen = returned(config_dir, "--id", "db7", "shop.seen")
    assert (seen["id"], seen["grain"]) == ("db7", "db7")


def test_priv_becomes_that_user_first(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []
    monkeypatch.setattr(privileges, "drop_to", became.append)
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert returned(config_dir, "--priv", me, "test.ping") is True
    assert became == []
    assert call(config_dir, "--priv", "nosuch", "test.ping")[0::2] == (
        2,
        "saltlite: --priv: there is no user 'nosuch'\n",
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    call(config_dir, "--priv", "nobody", "test.ping")
    assert became == ["nobody"]
    with monkeypatch.context() as unreadable:
        unreadable.setattr(os, "access", lambda *_args: False)
        code, _out, said = call(config_dir, "--priv", "nobody", "test.ping")
    assert (code, said.startswith("saltlite: --priv: nobody cannot read /")) == (2, True)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "only root can become another user" in call(config_dir, "--priv", "nobody", "test.ping")[2]


def test_an_id_that_is_none_is_refused(config_dir: Path) -> None:
    assert call(config_dir, "--id", "No Id", "test.ping")[0] == 2


def test_without_a_configured_id_the_one_of_the_first_start_counts(config_dir: Path, tmp_path: Path) -> None:
    (config_dir / "minion").write_text(f"root_dir: {tmp_path}/root\n")
    pki = tmp_path / "root/etc/saltlite/pki/minion"
    pki.mkdir(parents=True)
    (pki / "minion_id").write_text("kept1\n")
    (pki / "minion_id").chmod(0o600)
    assert returned(config_dir, "grains.get", "id") == "kept1"


def test_arguments_are_read_by_the_signature(config_dir: Path) -> None:
    assert returned(config_dir, "shop.answer", "7", "flag=yes") == [7, True]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("seven",), "argument 'number' takes int, not 'seven'"),
        (("flog=yes",), "has no argument 'flog' (did you mean 'flag'?)"),
        (("1", "no", "3"), "takes at most 2 positional arguments, not 3"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_signature(
    config_dir: Path, words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = call(config_dir, "shop.answer", *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "shop.answer(number: int = 1, flag: bool = False)" in err


def test_several_functions_run_in_order_in_one_call(config_dir: Path) -> None:
    assert returned(config_dir, "test.echo,test.ping,test.echo", "a", ",", ",b") == {
        "test.echo": "a",
        "test.ping": True,
        "test.echo (2)": "b",
    }


def test_a_folder_of_the_command_line_goes_before_the_others(config_dir: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "_modules").mkdir(parents=True)
        (tmp_path / name / "_modules/shop.py").write_text(f"def which():\n    return {name!r}\n")
    folders = ("-m", str(tmp_path / "one"), "-m", str(tmp_path / "two"))
    assert returned(config_dir, *folders, "shop.which") == "two"


def test_the_grains_are_printed_without_running_anything(config_dir: Path) -> None:
    grains = returned(config_dir, "-g")
    assert (grains["id"], grains["kernel"]) == ("web1", "Linux")


def test_the_documentation_of_a_function_is_printed(config_dir: Path) -> None:
    assert returned(config_dir, "-d", "shop.answer") == {"shop.answer": "The number, and whether the flag is set."}


def test_the_metadata_says_how_it_went(config_dir: Path) -> None:
    code, out, _ = call(config_dir, "--metadata", "--out", "json", "shop.failing")
    told = json.loads(out)["local"]
    assert code == 4
    assert (told["fun"], told["fun_args"], told["retcode"], told["success"]) == ("shop.failing", [], 42, False)
    assert told["return"] == "did not work"


@pytest.mark.parametrize(("switch", "code"), [((), 4), (("--retcode-passthrough",), 42)])
def test_a_return_code_fails_the_command(config_dir: Path, switch: tuple[str, ...], code: int) -> None:
    assert call(config_dir, *switch, "shop.failing")[0] == code


def test_an_exception_is_the_return_and_fails_the_command(config_dir: Path) -> None:
    code, out, _ = call(config_dir, "shop.breaking")
    assert code == 4
    assert "ValueError: the wood is wet" in out


def test_a_function_that_is_not_there_fails_with_the_near_name(config_dir: Path) -> None:
    code, out, err = call(config_dir, "shop.anser")
    assert (code, out) == (4, "local:\n    'shop.anser' is not available.\n")
    assert "Did you mean shop.answer" in err


def test_a_module_that_cannot_be_read_says_why(config_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "ext/modules/broken.py").write_text("def f(:\n")
    code, out, _ = call(config_dir, "broken.f")
    assert code == 4
    assert "'broken' could not be imported: SyntaxError" in out
    assert "(broken.py, line 1)" in out


def test_the_outputter_that_a_module_asks_for_is_used(config_dir: Path) -> None:
    assert call(config_dir, "shop.lines")[1] == "local: one\nlocal: two\n"
    assert call(config_dir, "shop.lines", "--out", "raw")[1] == "{'local': 'one\\ntwo'}\n"


def test_values_become_plain_data_as_on_their_way_from_a_minion(config_dir: Path) -> None:
    assert returned(config_dir, "shop.odd") == {"(1, 2)": [3], "at": "2026-01-31"}


def test_what_a_function_prints_is_not_part_of_the_output(config_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "saltlite", "call", "-c", config_dir, "shop.noisy", "--out", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"local": "the return"}
    assert "printed by python" in done.stderr
    assert "printed by a program" in done.stderr


def test_what_was_imported_is_not_searched_for_cycles_at_the_end_and_what_a_module_made_is(config_dir: Path) -> None:
    (config_dir.parent / "ext/modules/cycle.py").write_text(
        "import gc, os\n\nclass Circle:\n"
        "    def __init__(self, path):\n        self.me, self.write = self, os.write\n"
        "        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)\n"
        "    def __del__(self):\n        self.write(self.descriptor, b'ended')\n\n"
        "def make(path):\n    Circle(path)\n    return gc.get_freeze_count()\n"
    )
    path = config_dir.parent / "written"
    argv = [sys.executable, "-c", "import sys; from saltlite.cli.main import main_call; sys.exit(main_call())"]
    words = ["-c", str(config_dir), "--out", "json", "cycle.make", str(path)]
    done = subprocess.run([*argv, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["local"] > 10_000
    assert path.read_text() == "ended"


def test_a_plain_call_imports_no_part_of_a_daemon(config_dir: Path) -> None:
    program = (
        "import sys; from saltlite.cli.main import main_call; code = main_call(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    argv = [sys.executable, "-c", program, "-c", str(config_dir), "test.ping"]
    modules = subprocess.run(argv, capture_output=True, text=True, check=True).stderr.split()
    assert "saltlite.loader.loader" in modules
    daemons = ("saltlite.minion.jobs", "saltlite.minion.processes", "saltlite.minion.protocol", "saltlite.master")
    others = ("saltlite.minion.sync", "saltlite.pillar", "saltlite.targeting", "saltlite.wire.messages")
    slow = ("ctypes", "json", "subprocess", "tempfile", "yaml")
    assert [name for name in modules if name.startswith((*daemons, *others, *slow))] == []


def test_ctrl_c_ends_the_command_and_no_further_function_begins(config_dir: Path, tmp_path: Path) -> None:
    inside, second = tmp_path / "inside", tmp_path / "second"
    words = ["shop.sleeping,shop.after", str(inside), ",", str(second)]
    with subprocess.Popen([sys.executable, "-m", "saltlite", "call", "-c", config_dir, *words]) as process:
        wait_until(inside.exists, "the function began")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    assert not second.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say what to run"),
        (("ping",), "'ping' is not a function"),
        (("-g", "test.ping"), "--grains stands alone"),
        (("test.ping", "--out", "jsn"), "did you mean json?"),
        (("-l", "loud", "test.ping"), "'loud' is not known"),
    ],
)
def test_a_line_that_is_none_is_told_so(config_dir: Path, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = call(config_dir, *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_folder_without_a_configuration_is_told(tmp_path: Path) -> None:
    code, _, err = call(tmp_path, "test.ping")
    assert code == 2
    assert "there is no such file" in err


def test_the_log_goes_to_stderr_from_the_chosen_level_on(config_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "ext/modules/logging_.py").write_text(
        textwrap.dedent(
            """
            import logging

            log = logging.getLogger(__name__)

            def f():
                log.info("told")
                return True
            """
        )
    )
    argv = [sys.executable, "-m", "saltlite", "call", "-c", str(config_dir), "logging_.f"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def told(*more: str) -> bool:
        done = subprocess.run([*argv, *more], capture_output=True, text=True, check=True, env=environment)
        return "told" in done.stderr

    assert (told(), told("-l", "info")) == (False, True)


def test_grains_of_ones_own_are_there(config_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "ext/grains").mkdir()
    (tmp_path / "ext/grains/rack.py").write_text("def rack(grains):\n    return {'rack': grains['id'] + '-r4'}\n")
    assert returned(config_dir, "grains.get", "rack") == "web1-r4"


def test_functions_that_need_files_get_those_of_file_roots(config_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/motd").write_text("hello")
    code, out, _ = call(config_dir, "cp.get_file_str", "salt://motd")
    assert (code, out) == (4, "local:\n    ERROR: This call has no file server behind it.\n")
    with (config_dir / "minion").open("a") as config:
        config.write(f"file_roots: {{base: [{tmp_path}/srv]}}\n")
    assert returned(config_dir, "cp.get_file_str", "salt://motd") == "hello"


def test_the_list_of_modules_for_jobs_does_not_bind_who_is_on_the_machine(config_dir: Path) -> None:
    with (config_dir / "minion").open("a") as config:
        config.write("whitelist_modules: [grains]\n")
    assert returned(config_dir, "test.ping") is True


def test_what_the_index_says_is_remembered_where_the_minion_does(config_dir: Path, tmp_path: Path) -> None:
    cachedir = tmp_path / "root/var/cache/saltlite/minion"
    cachedir.mkdir(parents=True)
    returned(config_dir, "-m", str(tmp_path), "test.ping")
    assert list(cachedir.iterdir()) == []
    returned(config_dir, "test.ping")
    assert (cachedir / "index/modules").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_nothing_is_written_to_a_folder_of_another_user(config_dir: Path, tmp_path: Path) -> None:
    cachedir = tmp_path / "root/var/cache/saltlite/minion"
    cachedir.mkdir(parents=True)
    os.chown(cachedir, 65534, 65534)
    returned(config_dir, "test.ping")
    assert list(cachedir.iterdir()) == []
