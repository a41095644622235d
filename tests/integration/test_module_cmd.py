"""`cmd` against real processes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _programs

INDEX = build_index(search_layers({}))
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")


def typed(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call as an operator does."""
    return call(Loader(INDEX, {}, {}, {}), fun, args, kwargs, pub={"jid": "20260131235959123456"})


def crossed(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call as another module does."""
    return call(Loader(INDEX, {}, {}, {}), fun, args, kwargs)


def wait_for(condition: Any, bound_s: float = 10.0) -> bool:
    deadline = time.monotonic() + bound_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


def test_a_typed_command_goes_through_the_shell() -> None:
    assert typed("cmd.run", "echo one two | wc -w").value == "2"


def test_a_cross_call_uses_no_shell() -> None:
    assert crossed("cmd.run", "echo one | wc -w").value == "one | wc -w"


def test_without_shell_a_quoted_word_stays_one() -> None:
    assert typed("cmd.run", "printf '%s.' 'a b' '$HOME'", python_shell=False).value == "a b.$HOME."


def test_a_list_is_taken_word_by_word_also_through_the_shell() -> None:
    assert typed("cmd.run", ["echo", "a; echo b"]).value == "a; echo b"


def test_shell_goes_through_the_shell_for_modules_too() -> None:
    assert crossed("cmd.shell", "echo $((1 + 2))").value == "3"


def test_run_mixes_error_output_in_and_run_all_parts_it() -> None:
    command = "echo out; echo err >&2; exit 3"
    assert typed("cmd.run", command) == Outcome("out\nerr", 3)
    outcome = typed("cmd.run_all", command)
    assert {key: outcome.value[key] for key in ("stdout", "stderr", "retcode")} == {
        "stdout": "out",
        "stderr": "err",
        "retcode": 3,
    }
    assert outcome.value["pid"] > 1


def test_run_stdout_run_stderr_and_retcode_give_their_part() -> None:
    command = "echo out; echo err >&2; exit 3"
    values = [typed(f"cmd.{name}", command).value for name in ("run_stdout", "run_stderr", "retcode")]
    assert values == ["out", "err", 3]


def test_the_retcode_of_the_command_becomes_that_of_the_job() -> None:
    assert typed("cmd.run", "exit 42").retcode == 42


def test_ignore_retcode_keeps_the_job_at_0() -> None:
    outcome = typed("cmd.run_all", "exit 42", ignore_retcode=True)
    assert (outcome.retcode, outcome.value["retcode"]) == (0, 42)


def test_the_shell_is_the_one_of_whoever_started_the_minion(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"shell": "/bin/sh"}
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert typed("cmd.run", "echo $0").value == "/bin/bash"
    assert typed("cmd.run", "echo $0", **other).value == "/bin/sh"
    assert crossed("cmd.run", "[[ a == a ]]", python_shell=True).retcode == 0
    monkeypatch.setenv("SHELL", "/usr/sbin/nologin")
    assert typed("cmd.run", "echo $0").value == "/bin/sh"
    monkeypatch.delenv("SHELL")
    assert typed("cmd.run", "echo $0").value == "/bin/sh"


def test_shell_obeys_python_shell() -> None:
    assert typed("cmd.shell", "echo $HOME", python_shell=False).value == "$HOME"


def test_a_terminal_is_what_the_output_goes_to_with_use_vt() -> None:
    command = "test -t 1 && echo out; test -t 2 && printf 'a\\nb' >&2; exit 3"
    assert typed("cmd.run", command).value == ""
    outcome = typed("cmd.run_all", command, use_vt=True)
    assert (outcome.value["stdout"], outcome.value["stderr"], outcome.retcode) == ("out", "a\nb", 3)
    assert typed("cmd.run", command, use_vt=True).value == "out\na\nb"
    assert typed("cmd.run", "stty size </dev/stdout", use_vt=True, timeout=20).value == "24 80"
    assert "Timed out after 0.3 seconds" in typed("cmd.run", "echo begun; sleep 60", use_vt=True, timeout=0.3).value


def test_a_password_is_taken_and_not_needed() -> None:
    assert typed("cmd.run", "id -un", runas="nobody", password="any").value == "nobody"


def test_tty_writes_to_a_terminal() -> None:
    ours, theirs = os.openpty()
    name = os.ttyname(theirs).removeprefix("/dev/")
    assert typed("cmd.tty", name, "hello").value == {"Success": f"Message was successfully echoed to /dev/{name}"}
    assert os.read(ours, 100) == b"hello"
    assert typed("cmd.tty", name.replace("/", ""), "again").value["Success"]
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("device", "error"),
    [
        ("sda", "The specified device is not a valid TTY"),
        ("tty/../sda", "The specified device is not a valid TTY"),
        ("pts/../../etc/passwd", "The specified device is not a valid TTY"),
        ("ttyNONE9", "Echoing to /dev/ttyNONE9 returned error"),
        ("pts99999", "Echoing to /dev/pts/99999 returned error"),
    ],
)
def test_what_is_no_terminal_gets_nothing(device: str, error: str) -> None:
    assert typed("cmd.tty", device, "x").value == {"Error": error}


@pytest.mark.parametrize(
    "success",
    [
        {"success_retcodes": [7]}, {"success_retcodes": "6, 7"}, {"success_stdout": ["fine"]},
        {"success_stdout": "no,in"}, {"success_stdout": ["no", "in"]},
    ],
)  # fmt: skip
def test_a_failure_may_be_declared_a_success(success: dict[str, Any]) -> None:
    outcome = typed("cmd.run_all", "echo fine; exit 7", **success)
    assert (outcome.retcode, outcome.value["retcode"]) == (0, 0)


def test_success_stderr_looks_at_error_output() -> None:
    assert typed("cmd.run_all", "echo ok >&2; exit 7", success_stderr=["ok"]).retcode == 0


@pytest.mark.parametrize("texts", ["", ",", [""], ["wrong"], None])
def test_a_text_that_is_not_in_the_output_or_is_empty_changes_nothing(texts: Any) -> None:
    assert typed("cmd.run_all", "echo fine; exit 7", success_stdout=texts).retcode == 7


def test_raise_err_turns_a_failure_into_an_error() -> None:
    outcome = typed("cmd.run", "echo why; exit 2", raise_err=True)
    assert outcome == Outcome("ERROR: The command ended with return code 2: why", 1, "nested")


def test_a_signal_is_a_negative_retcode() -> None:
    assert typed("cmd.retcode", "kill -9 $$").value == -9


def test_output_that_is_no_utf8_is_readable() -> None:
    assert typed("cmd.run", r"printf 'a\377b'").value == "a\ufffdb"


def test_output_encoding_decodes() -> None:
    assert typed("cmd.run", r"printf '\344'", output_encoding="latin-1").value == "ä"


def test_rstrip_false_keeps_the_line_end() -> None:
    assert typed("cmd.run", "echo a", rstrip=False).value == "a\n"


def test_hide_output_hides_it() -> None:
    assert typed("cmd.run", "echo secret", hide_output=True).value == ""


def test_stdin_reaches_the_command() -> None:
    assert typed("cmd.run", "cat", stdin="hello").value == "hello"


def test_without_stdin_a_reader_sees_the_end_at_once() -> None:
    assert typed("cmd.run", "cat", timeout=20) == Outcome("", 0)


def test_cwd_is_where_the_command_runs(tmp_path: Path) -> None:
    assert typed("cmd.run", "pwd", cwd=str(tmp_path)).value == str(tmp_path)


@pytest.mark.parametrize("cwd", ["relative", "/nowhere/at/all"])
def test_a_cwd_that_is_no_absolute_folder_is_refused(cwd: str) -> None:
    text = f"ERROR: Specified cwd '{cwd}' either not absolute or does not exist"
    assert typed("cmd.run", "pwd", cwd=cwd).value == text


def test_env_adds_to_the_environment_and_clean_env_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "yes")
    assert typed("cmd.run", "echo $KEPT-$NEW", env={"NEW": 1}).value == "yes-1"
    assert typed("cmd.run", "echo $KEPT-$NEW", env=[{"NEW": "a"}, {"NEW": "b"}], clean_env=True).value == "-b"


def test_commands_run_in_the_c_locale_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert typed("cmd.run", "echo $LC_ALL").value == "C"
    assert typed("cmd.run", "echo $LC_ALL", reset_system_locale=False).value == "C.UTF-8"


def test_umask_applies() -> None:
    assert typed("cmd.run", "umask", umask="077").value == "0077"


def test_children_stay_in_the_process_group_of_the_job() -> None:
    assert typed("cmd.run", "ps -o pgid= -p $$").value.strip() == str(os.getpgrp())


def test_a_time_limit_kills_the_whole_tree_and_keeps_the_output(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    began = time.monotonic()
    outcome = typed("cmd.run", f"echo begun; sh -c 'echo $$ > {marker}; sleep 300'; true", timeout=2)
    assert time.monotonic() - began < 120
    assert outcome.retcode == 1
    assert outcome.value.startswith("begun\n")
    assert outcome.value.endswith(" : Timed out after 2 seconds")
    grandchild = marker.read_text().strip()
    assert wait_for(
        lambda: not Path(f"/proc/{grandchild}").exists() or "Z" in Path(f"/proc/{grandchild}/stat").read_text()
    )


def test_output_beyond_the_limit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_programs, "OUTPUT_BYTES_MAX", 1000)
    value = typed("cmd.run", "head -c 5000 /dev/zero | tr '\\0' x").value
    assert value.startswith("x" * 1000 + "\n[4000 more bytes of output were dropped")


def test_a_program_that_is_not_there_is_named() -> None:
    text = "ERROR: The command cannot be started: nosuchprog (there is no such program on this minion)."
    assert typed("cmd.run", "nosuchprog", python_shell=False).value == text


def test_a_shell_that_is_not_there_is_named() -> None:
    options = {"shell": "/bin/nosuch"}
    assert typed("cmd.run", "true", **options).value == "ERROR: The shell /bin/nosuch is not available."


@pytest.mark.parametrize(
    ("command", "kwargs", "text"),
    [
        ("  ", {}, "There is no command to run"),
        ("echo 'open", {"python_shell": False}, "cannot be split into words"),
        ("true", {"colour": 1}, "keyword arguments are not valid: colour"),
        ("true", {"timeout": "soon"}, "timeout is a number of seconds"),
        ("true", {"umask": "rwx"}, "umask is an octal number"),
        ("true", {"env": "A=1"}, "env is a dict"),
        ("true", {"output_encoding": "utf-99"}, "knows no encoding"),
    ],
)
def test_values_that_cannot_work_are_refused_before_anything_runs(
    command: str, kwargs: dict[str, Any], text: str
) -> None:
    outcome = typed("cmd.run", command, **kwargs)
    assert outcome.value.startswith("ERROR executing 'cmd.run': ")
    assert text in outcome.value


def test_an_unknown_user_or_group_is_named() -> None:
    assert typed("cmd.run", "id", runas="nosuchuser").value == "ERROR: User 'nosuchuser' is not available"
    assert typed("cmd.run", "id", group="nosuchgroup").value == "ERROR: There is no group 'nosuchgroup' on this minion."


@ROOT
def test_runas_changes_user_groups_and_home() -> None:
    assert typed("cmd.run", "id -un; id -Gn; echo $USER", runas="nobody").value == "nobody\nnogroup\nnobody"


@ROOT
def test_a_script_runs_as_another_user_who_cannot_read_the_original(tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.write_text('#!/bin/sh\nid -un; echo "$1"\n')
    script.chmod(0o600)
    outcome = typed("cmd.script", str(script), "'a b'", runas="nobody", cwd="/")
    assert outcome.value["stdout"] == "nobody\na b"


def test_a_script_runs_without_execute_bit_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    script = tmp_path / "check.sh"
    script.write_text("#!/bin/sh\necho $1; exit 4\n")
    outcome = typed("cmd.script", str(script), args=["x y"])
    assert (outcome.value["stdout"], outcome.retcode) == ("x y", 4)
    assert list(copies.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "code"), [({}, "echo $0 $1; exit 4\n"), ({"shell": "/bin/bash"}, "[[ $1 ]] && echo $0 $1; exit 4\n")]
)
def test_a_script_that_names_no_interpreter_is_run_by_a_shell(tmp_path: Path, shell: dict[str, str], code: str) -> None:
    script = tmp_path / "check.sh"
    script.write_text(code)
    outcome = typed("cmd.script", str(script), args=["x y"], **shell)
    assert (outcome.value["stdout"].partition(" ")[2], outcome.retcode) == ("x y", 4)


def test_a_program_runs_as_a_script_does(tmp_path: Path) -> None:
    outcome = typed("cmd.script", shutil.which("echo"), args=["x y"])
    assert (outcome.value["stdout"], outcome.retcode) == ("x y", 0)


@pytest.mark.parametrize(
    ("source", "why"),
    [("https://x/check.sh", "neither salt://path nor a path"), ("check.sh", "give the absolute path")],
)
def test_a_script_that_is_no_path_is_refused(source: str, why: str) -> None:
    assert why in typed("cmd.script", source).value


@pytest.mark.parametrize(("fun", "more"), [("cmd.run_bg", {}), ("cmd.run", {"bg": True})])
def test_a_command_in_the_background_is_not_waited_for(tmp_path: Path, fun: str, more: dict[str, Any]) -> None:
    gate, done = tmp_path / "gate", tmp_path / "done"
    os.mkfifo(gate)
    said = typed(fun, f"read x < {gate}; echo $x > {done}", **more)
    assert (said.retcode, done.exists()) == (0, False)
    gate.write_text("open\n")
    assert wait_for(lambda: done.exists() and done.read_text() == "open\n")


@pytest.mark.parametrize(("fun", "more"), [("cmd.run_bg", {"timeout": 3}), ("cmd.run", {"bg": True, "stdin": "x"})])
def test_what_cannot_be_done_in_the_background_is_refused(fun: str, more: dict[str, Any]) -> None:
    assert "background" in typed(fun, "true", **more).value


def test_programs_are_looked_for_in_prepended_folders_first(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "own").chmod(0o755)
    assert typed("cmd.run", "own && which sh > /dev/null", prepend_path=str(tmp_path)).value == "mine"


def test_a_command_may_be_a_template() -> None:
    assert typed("cmd.run", "echo {{ 1 + 1 }}", template="jinja").value == "2"
    assert "mako" in typed("cmd.run", "echo", template="mako").value


def test_shells_are_those_that_the_machine_lists() -> None:
    assert "/bin/sh" in typed("cmd.shells").value


@ROOT
def test_a_command_runs_in_another_root_and_its_mounts_are_gone(tmp_path: Path) -> None:
    root = tmp_path / "a root; x"
    for name in ("bin", "proc", "tmp", "usr", "lib", "lib64"):
        (root / name).mkdir(parents=True)
    binds = [path for path in ("/bin", "/usr", "/lib", "/lib64") if os.path.isdir(path)]
    before = Path("/proc/self/mounts").read_text()
    said = typed("cmd.run_chroot", str(root), "pwd; ls -d /proc/self; ls /; exit 3", cwd="/tmp", binds=binds)
    assert (said.retcode, said.value["stderr"]) == (3, "")
    assert said.value["stdout"].splitlines() == ["/tmp", "/proc/self", "bin", "lib", "lib64", "proc", "tmp", "usr"]
    assert Path("/proc/self/mounts").read_text() == before
    assert (
        typed("cmd.run_chroot", str(root), "id -u", runas="12345", group="12345", binds=binds).value["stdout"]
        == "12345"
    )


@pytest.mark.parametrize(("root", "more"), [("/no/such", {}), ("x", {}), ("/", {"binds": ["x"]})])
def test_a_root_or_a_folder_that_is_not_there_is_refused(root: str, more: dict[str, Any]) -> None:
    assert typed("cmd.run_chroot", root, "true", **more).retcode == 1


def test_code_runs_in_its_interpreter() -> None:
    code = "import sys; print(sys.argv[1])"
    assert typed("cmd.exec_code", "python3", code, args="hello").value == "hello"
    assert typed("cmd.exec_code_all", "sh", ["exit 5"]).value["retcode"] == 5


def test_programs_are_found() -> None:
    assert typed("cmd.which", "sh").value.endswith("/sh")
    assert typed("cmd.which_bin", ["nosuchprog", "sh"]).value.endswith("/sh")
    assert (typed("cmd.has_exec", "sh").value, typed("cmd.has_exec", "nosuchprog").value) == (True, False)
