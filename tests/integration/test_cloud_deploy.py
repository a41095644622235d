"""Deployment over a real sshd of loopback, with a stand-in for the minion that says at once that it has a session."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudPasswordError,
)
from saltlite.cloud.deploy import bootstrap as bootstrap_module
from saltlite.cloud.deploy.bootstrap import DeployError, bootstrap, retire
from saltlite.model.redaction import Secrets
from tests.support import sshd
from tests.support.cloud import DeployingProgram
from tests.support.deploy_target import MINION, TOKEN, Target
from tests.support.fleet import free_port, wait_until
from tests.support.sshd import PASSWORD, USER, start_sshd

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users need an sshd that was started by root")


# -- what a deployment does


def test_a_machine_becomes_a_minion_over_one_connection(target: Target, program: DeployingProgram) -> None:
    before = target.server.logins()
    done = bootstrap(target.vm(grains={"role": "web"}), program.opts)
    assert done == {"deployed": True, "deploy_host": "127.0.0.1", "started": "detached"}
    assert target.server.logins() - before == 1
    assert len(target.processes()) == 1
    config = (target.conf / "minion.d/90-cloud.conf").read_text()
    assert '"id": "web1"' in config
    assert '"role": "web"' in config
    assert f'"join_token_file": "{target.conf}/cloud/join_token"' in config
    assert TOKEN not in config
    assert (target.conf / "minion.d/90-cloud.conf").stat().st_mode & 0o777 == 0o600
    assert list((target.folder / "tmp").iterdir()) == []


def test_retiring_takes_everything_back(target: Target, program: DeployingProgram) -> None:
    before = target.left()
    bootstrap(target.vm(), program.opts)
    assert target.left() > before
    assert retire(target.vm(), program.opts) == ()
    assert target.left() == before
    assert target.processes() == []


def test_the_steps_of_the_user_run_in_their_order(target: Target, program: DeployingProgram, tmp_path: Path) -> None:
    out, files = target.folder / "order", tmp_path / "tree"
    (files / "sub").mkdir(parents=True)
    (files / "sub/a file").write_text("inside")
    own = Path(program.opts["config_dir"]) / "cloud.deploy.d/mine.sh"
    own.write_text(
        f'#!/bin/sh\n[ -f "$2/minion" ] && [ -f "$2/grains" ] && [ -f "$2/join_token" ] || exit 9\n'
        f'cat {target.folder}/copied/sub/a* >>{out}; shift 2; printf " %s %s %s" "$1" "$2" "$SECRET" >>{out}\n'
    )
    done = bootstrap(
        target.vm(
            script="mine",
            script_args="one 'two words'",
            script_env={"SECRET": "it's $HOME"},
            file_map={str(files): f"{target.folder}/copied"},
            preflight_cmds=[f"printf first >{out}", f"printf ' second ' >>{out}"],
            inline_script=[f"printf ' last' >>{out}"],
        ),
        program.opts,
    )
    assert out.read_text() == "first second inside one two words it's $HOME last"
    assert done["started"] == "script"


def test_inline_script_runs_without_a_deployment(target: Target, program: DeployingProgram) -> None:
    done = bootstrap(target.vm(deploy=False, inline_script=f"touch {target.folder}/there"), program.opts)
    assert done["deployed"] is False
    assert (target.folder / "there").exists()
    assert not target.conf.exists()


def test_the_event_and_the_command_lines_have_no_secrets(target: Target, program: DeployingProgram) -> None:
    watch = target.folder / "watch"
    done = bootstrap(
        target.vm(
            sudo_password=PASSWORD,
            script_env={"TOKEN": "planted-token"},
            preflight_cmds=[f"ps -ww -e -o args >{watch}; cat /proc/*/environ >>{watch} 2>/dev/null; true"],
        ),
        program.opts,
    )
    assert done["deployed"]
    said = watch.read_text(errors="replace") + repr(program.events)
    for secret in (PASSWORD, TOKEN, "planted-token"):
        assert secret not in said
    assert [tag for tag, _ in program.events] == ["salt/cloud/web1/deploying"]
    assert {PASSWORD, TOKEN} <= set(program.concealed)


@needs_root
def test_a_password_and_sudo_with_a_password_let_in(target: Target, program: DeployingProgram) -> None:
    sudoers = target.server.folder / "etc/sudoers"
    sudoers.write_text(f"Defaults !use_pty\nroot ALL=(ALL) NOPASSWD: ALL\n{USER} ALL=(root) ALL\n")
    vm_ = target.vm(ssh_username=USER, password=PASSWORD, key_filename=None, sudo=True)
    with pytest.raises(SaltCloudExecutionFailure, match="set sudo_password"):
        bootstrap(dict(vm_), program.opts)
    done = bootstrap({**vm_, "sudo_password": PASSWORD}, program.opts)
    assert done["deployed"]
    assert (target.conf / "minion.d/90-cloud.conf").stat().st_uid == 0
    with pytest.raises(SaltCloudExecutionFailure, match="does not let salty become root"):
        bootstrap({**vm_, "sudo_password": "wrong"}, program.opts)


@needs_root
def test_a_user_without_rights_gets_a_minion_of_its_own(target: Target, program: DeployingProgram) -> None:
    home = target.server.folder / "home"
    own = {name: str(home / name) for name in ("pki_dir", "data_dir", "cachedir")}
    vm_ = target.vm(ssh_username=USER, minion_dir=str(home / "etc"), minion={**own, "log_file": ""})
    before = set(home.rglob("*"))
    assert bootstrap(dict(vm_), program.opts)["started"] == "detached"
    assert (home / "etc/minion.d/90-cloud.conf").stat().st_uid == home.stat().st_uid
    assert retire(dict(vm_), program.opts) == ()
    assert set(home.rglob("*")) == before


# -- what goes wrong


@needs_root
def test_a_wrong_password_is_an_error_without_it(target: Target, program: DeployingProgram) -> None:
    vm_ = target.vm(ssh_username=USER, password="not-the-password", key_filename=None)
    with pytest.raises(SaltCloudPasswordError, match="permission denied: salty@127") as caught:
        bootstrap(vm_, program.opts)
    assert "not-the-password" not in str(caught.value)


def test_of_several_users_the_first_that_is_let_in_counts(target: Target, program: DeployingProgram) -> None:
    done = bootstrap(target.vm(ssh_username=["nobody-here", "root"], wait_for_passwd_maxtries=2), program.opts)
    assert done["deployed"]


def test_a_port_that_refuses_is_tried_until_the_time_is_up(target: Target, program: DeployingProgram) -> None:
    vm_ = target.vm(ssh_port=free_port(), ssh_timeout=1)
    with pytest.raises(SaltCloudExecutionTimeout, match=r"connection refused.*tried for 1 s"):
        bootstrap(vm_, program.opts)


def test_a_pinned_host_key_that_differs_ends_it(target: Target, program: DeployingProgram) -> None:
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    with pytest.raises(SaltCloudExecutionFailure, match="host key"):
        bootstrap(target.vm(ssh_host_key=other), program.opts)
    right = (target.server.folder / "host_key.pub").read_text().strip()
    assert bootstrap(target.vm(ssh_host_key=right), program.opts)["deployed"]


def test_a_remembered_host_key_that_changed_ends_it(target: Target, program: DeployingProgram, tmp_path: Path) -> None:
    known = tmp_path / "known"
    assert bootstrap(target.vm(ssh_known_hosts=str(known)), program.opts)["deployed"]
    retire(target.vm(ssh_known_hosts=str(known)), program.opts)
    sshd.make_key(tmp_path / "other")
    public = (tmp_path / "other.pub").read_text()
    known.write_text(f"[127.0.0.1]:{target.server.port} {public}")
    with pytest.raises(SaltCloudExecutionFailure, match="host key changed"):
        bootstrap(target.vm(ssh_known_hosts=str(known)), program.opts)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"preflight_cmds": ["echo oh dear >&2; exit 3"]}, r"command 1 of preflight_cmds.*oh dear \(exit code 3\)"),
        ({"inline_script": ["exit 4"]}, r"command 1 of inline_script.*exit code 4"),
        ({"install_dir": "/nowhere"}, "there is no /nowhere/bin/saltlite-minion"),
    ],
)
def test_a_step_that_fails_leaves_nothing(
    settings: dict[str, Any], reason: str, target: Target, program: DeployingProgram
) -> None:
    before = target.left()
    with pytest.raises(DeployError, match=reason) as caught:
        bootstrap(target.vm(**settings), program.opts)
    assert caught.value.left == ()
    assert target.left() == before
    assert target.processes() == []


def test_a_minion_that_ends_says_why_and_leaves_nothing(target: Target, program: DeployingProgram) -> None:
    target.put_minion(MINION.replace("mkdir -p", "echo 'saltlite-minion: no such fleet' >&2; exit 1; mkdir -p"))
    before = target.left()
    with pytest.raises(DeployError, match="the minion ended: saltlite-minion: no such fleet"):
        bootstrap(target.vm(), program.opts)
    assert target.left() == before


def test_a_minion_that_reaches_no_master_says_so_and_leaves_nothing(target: Target, program: DeployingProgram) -> None:
    target.put_minion(MINION.replace('"ready", "reason": ""', '"backoff", "reason": "no answer from 192.0.2.1"'))
    before = target.left()
    with pytest.raises(DeployError, match=r"has not reached its master within 1 s: no answer from 192.0.2.1"):
        bootstrap(target.vm(start_timeout=1), program.opts)
    assert target.left() == before
    assert target.processes() == []


def test_a_step_that_takes_too_long_is_ended(target: Target, program: DeployingProgram) -> None:
    before = target.left()
    with pytest.raises(DeployError, match="timed out after 1 s"):
        bootstrap(target.vm(preflight_cmds=["sleep 77"], deploy_timeout=1), program.opts)
    assert target.left() == before
    assert not any(b"77" in line.split(b"\0") for line in _command_lines())


def test_what_an_own_script_did_is_listed_as_left(target: Target, program: DeployingProgram, tmp_path: Path) -> None:
    own = Path(program.opts["config_dir"]) / "cloud.deploy.d/mine"
    own.write_text("#!/bin/sh\nexit 5\n")
    with pytest.raises(DeployError, match="exit code 5") as caught:
        bootstrap(target.vm(script="mine", ssh_known_hosts=str(tmp_path / "known")), program.opts)
    assert [line.startswith(f"what {own} did at root@127.0.0.1") for line in caught.value.left] == [True]


@needs_root
def test_a_full_disk_is_named_and_leaves_nothing(target: Target, program: DeployingProgram, tmp_path: Path) -> None:
    # The sshd has a mount namespace of its own, so the small disk is mounted in there.
    pid = str(target.server.process.pid)
    enter = ["nsenter", "--mount", "--target", pid]
    small = target.folder / "tmp"
    subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "small", small], check=True)
    try:
        large = tmp_path / "large"
        large.write_bytes(os.urandom(1 << 20))
        with pytest.raises(DeployError, match="its disk is full"):
            bootstrap(target.vm(file_map={str(large): "/dev/null"}), program.opts)
        left = subprocess.run([*enter, "ls", "-A", small], check=True, capture_output=True, text=True)
        assert left.stdout == ""
    finally:
        subprocess.run([*enter, "umount", small], check=True)
    assert not target.conf.exists()


def test_pinned_host_keys_leave_the_file_of_the_operator_alone(
    target: Target, program: DeployingProgram, tmp_path: Path
) -> None:
    known, right = tmp_path / "known", (target.server.folder / "host_key.pub").read_text().strip()
    known.write_text(f"192.0.2.9 {right}\n")
    assert bootstrap(target.vm(ssh_known_hosts=str(known), ssh_host_key=right), program.opts)["deployed"]
    assert known.read_text() == f"192.0.2.9 {right}\n"


def test_machines_of_one_name_at_two_providers_have_host_keys_of_their_own(
    target: Target, program: DeployingProgram, tmp_path: Path
) -> None:
    bootstrap(target.vm(), program.opts)
    with pytest.raises(DeployError, match="destroy that one first"):
        bootstrap(target.vm(provider="other:saltify"), program.opts)
    found = {str(path.relative_to(tmp_path)) for path in (tmp_path / "cache/known_hosts").rglob("web1")}
    assert found == {"cache/known_hosts/lab.saltify/web1", "cache/known_hosts/other.saltify/web1"}


def test_a_target_cannot_say_what_the_deployment_answers(target: Target, program: DeployingProgram) -> None:
    stub = target.folder / "bin/mkdir"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "deployed=no\ndeploy_host=evil\nstarted=detached"\nexec /bin/mkdir "$@"\n')
    stub.chmod(0o755)
    done = bootstrap(target.vm(script_env={"PATH": f"{stub.parent}:/usr/bin:/bin"}), program.opts)
    assert done == {"deployed": True, "deploy_host": "127.0.0.1", "started": "detached"}


def test_the_password_of_an_index_is_on_no_command_line_and_in_no_message(
    target: Target, program: DeployingProgram
) -> None:
    (target.folder / "venv/bin/saltlite-minion").unlink()
    python = target.folder / "venv/bin/python"
    said = target.folder / "tmp/said"
    python.write_text(
        f'#!/bin/sh\n[ "$1" != -c ] || exit 0\nprintf "%s\\n" "$0 $*" "env $PIP_INDEX_URL" >{said}\n'
        'echo "ERROR: $PIP_INDEX_URL is nowhere" >&2; exit 1\n'
    )
    python.chmod(0o755)
    vm_ = target.vm(install="index", install_index="https://me:planted%2Fpw@index.example/simple")
    with pytest.raises(DeployError, match="pip could not install saltlite: ERROR") as caught:
        bootstrap(vm_, program.opts)
    command, environment = said.read_text().splitlines()
    assert "planted" not in command
    assert environment == "env https://me:planted%2Fpw@index.example/simple"
    assert {"planted%2Fpw", "planted/pw"} <= set(program.concealed)
    assert "planted" not in Secrets().text(str(caught.value))


@needs_root
def test_what_could_not_be_removed_is_told_and_removed_later(target: Target, program: DeployingProgram) -> None:
    bootstrap(target.vm(), program.opts)
    # Something that is mounted cannot be removed; the sshd has a mount namespace of its own.
    enter = ["nsenter", "--mount", "--target", str(target.server.process.pid)]
    held = target.folder / "var/data"
    subprocess.run([*enter, "mount", "-t", "tmpfs", "held", held], check=True)
    try:
        for _attempt in range(2):
            assert retire(target.vm(), program.opts) == (f"{held} at root@127.0.0.1 port {target.server.port}",)
    finally:
        subprocess.run([*enter, "umount", held], check=True)
    assert target.processes() == []
    assert retire(target.vm(), program.opts) == ()
    assert target.left() == set()


def test_a_machine_without_a_list_of_what_was_made_is_clean_only_if_nothing_is_known_to_be_made(
    target: Target, program: DeployingProgram
) -> None:
    bootstrap(target.vm(), program.opts)
    elsewhere = target.vm(minion_dir=str(target.folder / "elsewhere"))
    (left,) = retire(elsewhere, program.opts)
    assert f"there is no list {target.folder}/elsewhere/cloud/made" in left
    assert retire({**elsewhere, "deployed": False}, program.opts) == ()
    assert retire({**elsewhere, "script": "mine"}, program.opts) == ()
    assert len(target.processes()) == 1


def test_a_folder_that_is_only_linked_to_is_not_taken_for_that_of_a_dead_command(
    target: Target, program: DeployingProgram, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    link = target.folder / "tmp/saltlite-cloud.web1.AAAAAAAA"
    link.symlink_to(tmp_path / "mine")
    retire({**target.vm(), "deployed": False}, program.opts)
    assert link.is_symlink()
    link.unlink()


def test_a_user_that_is_not_removed_stays_in_the_list(tmp_path: Path) -> None:
    conf, stubs = tmp_path / "conf", tmp_path / "bin"
    (conf / "cloud").mkdir(parents=True)
    stubs.mkdir()
    for name, code in (("userdel", 1), ("deluser", 1), ("id", 0)):
        (stubs / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (stubs / name).chmod(0o755)
    (tmp_path / "settings").write_text(f"CONFIG_DIR={conf}\nINSTALL_DIR={tmp_path}/venv\n")
    made = conf / "cloud/made"
    made.write_text(f"by /tmp/x\nfolder {conf}\nfolder {conf}/cloud\nuser some one\ntree {conf}/gone\n")
    script = Path(bootstrap_module.__file__).parent / "deploy.sh"
    said = subprocess.run(
        ["sh", script, "-c", tmp_path, "undo"],
        env={"PATH": f"{stubs}:/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "left=some one\n"
    assert made.read_text() == f"by /tmp/x\nfolder {conf}\nfolder {conf}/cloud\nuser some one\n"


def test_a_minion_that_has_not_said_its_number_yet_is_ended_too(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (conf / "cloud").mkdir(parents=True)
    (tmp_path / "settings").write_text(f"CONFIG_DIR={conf}\nINSTALL_DIR={tmp_path}/venv\n")
    (conf / "cloud/made").write_text(f"by /tmp/x\nprocess {conf}/cloud/pid\n")
    script = Path(bootstrap_module.__file__).parent / "deploy.sh"
    late = 'sleep 0.4; echo $$ >"$0"; while :; do sleep 0.1; done'
    with subprocess.Popen(["sh", "-c", late, conf / "cloud/pid", "saltlite-minion"]) as minion:
        subprocess.run(["sh", script, "-c", tmp_path, "undo"], check=True)
        ended = minion.poll() is not None
        minion.kill()
    assert ended


def test_a_rollback_removes_the_folders_after_the_last_process_of_the_minion_has_ended(tmp_path: Path) -> None:
    conf, data = tmp_path / "conf", tmp_path / "data"
    (conf / "cloud").mkdir(parents=True)
    (tmp_path / "settings").write_text(f"CONFIG_DIR={conf}\nINSTALL_DIR={tmp_path}/venv\n")
    (conf / "cloud/made").write_text(f"by /tmp/x\ntree {data}\nprocess {conf}/cloud/pid\n")
    script = Path(bootstrap_module.__file__).parent / "deploy.sh"
    # The first process ends at once, and another of its group still writes for a second.
    other = f"for i in 1 2 3 4 5 6 7 8 9 10; do mkdir -p {data}/index; sleep 0.1; done; touch {tmp_path}/ended"
    writes = f'({other}) & echo $$ >"$0"'
    subprocess.run(["setsid", "sh", "-c", writes, conf / "cloud/pid", "saltlite-minion"], check=True)
    subprocess.run(["sh", script, "-c", tmp_path, "undo"], check=True)
    assert (tmp_path / "ended").exists()
    assert not data.exists()


@pytest.mark.parametrize("known", ["known", "/nowhere/known", "/tmp"])
def test_a_file_of_host_keys_that_cannot_be_is_refused(target: Target, program: DeployingProgram, known: str) -> None:
    with pytest.raises(SaltCloudConfigError, match="ssh_known_hosts"):
        bootstrap(target.vm(ssh_known_hosts=known), program.opts)


def test_what_an_interrupted_deployment_left_is_removed_by_the_next(target: Target, program: DeployingProgram) -> None:
    bootstrap(target.vm(), program.opts)
    for pid in target.processes():
        os.kill(pid, 9)
    assert bootstrap(target.vm(), program.opts)["deployed"]
    retire(target.vm(), program.opts)
    assert target.left() == set()


def test_a_deployment_whose_command_died_holds_off_another_and_can_be_taken_back(
    target: Target, program: DeployingProgram
) -> None:
    target.put_minion(MINION.replace('"ready"', '"backoff"'))
    before = target.left()
    vm_ = target.vm(start_timeout=60)
    dying = os.fork()
    if dying == 0:
        bootstrap(dict(vm_), program.opts)
        os._exit(0)
    wait_until(lambda: bool(target.processes()), "the minion runs")
    os.kill(dying, signal.SIGKILL)
    os.waitpid(dying, 0)
    with pytest.raises(DeployError, match="another deployment to this machine is under way"):
        bootstrap(dict(vm_), program.opts)
    # A shell that is about to become the stand-in's next `sleep` looks like the stand-in.
    wait_until(lambda: len(target.processes()) == 1, "one minion runs")
    assert retire({**vm_, "deployed": False}, program.opts) == ()
    assert target.processes() == []
    assert target.left() == before


def test_settings_that_cannot_be_used_are_named_before_anything_is_done(
    target: Target, program: DeployingProgram
) -> None:
    before = target.server.logins()
    for settings, named in (
        ({"minion": {"mastr": "x"}}, "minion cannot be used: unknown option 'mastr'"),
        ({"script": "nowhere"}, "script names 'nowhere'"),
        ({"script_args": "-x"}, "script_args is for a script of yours"),
        ({"file_map": {"/no/such": "/x"}}, "file_map has '/no/such'"),
        ({"key_filename": "/no/key"}, "key_filename names '/no/key'"),
        ({"ssh_username": "a b"}, "ssh_username is 'a b'"),
        ({"ssh_port": 0}, "ssh_port is 0"),
        ({"install": "apt"}, "install is 'apt'"),
        ({"win_username": "Administrator"}, "no minion for Windows"),
    ):
        with pytest.raises(SaltCloudConfigError, match=named):
            bootstrap(target.vm(**settings), program.opts)
    assert target.server.logins() == before


def _command_lines() -> Iterator[bytes]:
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                yield Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue


def test_an_interrupt_takes_everything_back(target: Target, program: DeployingProgram) -> None:
    # The minion never gets a session, so the deployment waits for it when the interrupt comes.
    target.put_minion(MINION.replace('"ready"', '"backoff"'))
    before = target.left()
    seen: list[bool] = []

    def interrupt() -> None:
        wait_until(lambda: bool(target.processes()), "the minion runs")
        seen.append(bool(target.processes()))
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.get_ident()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        bootstrap(target.vm(start_timeout=30), program.opts)
    thread.join()
    assert seen == [True]
    assert target.processes() == []
    assert target.left() == before


@needs_root
def test_the_user_of_the_minion_is_made_and_removed(target: Target, program: DeployingProgram) -> None:
    users = target.server.folder / "etc/passwd"
    vm_ = target.vm(minion={**target.vm()["minion"], "user": "saltlite-cloudtest"})
    bootstrap(dict(vm_), program.opts)
    assert "saltlite-cloudtest:" in users.read_text()
    assert retire(dict(vm_), program.opts) == ()
    assert "saltlite-cloudtest:" not in users.read_text()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_runs_where_sh_is_bash(target: Target, program: DeployingProgram) -> None:
    programs = target.folder / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(shutil.which("bash") or "")
    server = start_sshd(target.folder / "sshd", settings=f"SetEnv PATH={programs}:/usr/bin:/bin:/usr/sbin:/sbin")
    there = Target(server, target.folder)
    try:
        assert bootstrap(there.vm(deploy_timeout=15), program.opts)["started"] == "detached"
        assert retire(there.vm(), program.opts) == ()
        there.put_minion(MINION.replace('"ready", "reason": ""', '"backoff", "reason": "no answer"'))
        with pytest.raises(DeployError, match="has not reached its master within 1 s: no answer"):
            bootstrap(there.vm(start_timeout=1, deploy_timeout=15), program.opts)
        assert there.processes() == []
        assert not there.conf.exists()
    finally:
        server.stop()


# Does of a systemd what a deployment sees: takes a unit, starts what it says, tells whether that runs.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$0.calls"
unit=/etc/systemd/system/saltlite-minion.service
case "$*" in
    cat*) [ -f "$unit" ] ;;
    restart*)
        setsid $(sed -n 's/^ExecStart=//p' "$unit") </dev/null >/dev/null 2>&1 &
        echo $! >"$0.pid" ;;
    is-active*) grep -q saltlite "/proc/$(cat "$0.pid")/cmdline" ;;
    disable*)
        pkill -s "$(cat "$0.pid")"
        while grep -q saltlite "/proc/$(cat "$0.pid")/cmdline"; do sleep 0.05; done ;;
esac
"""


@needs_root
def test_systemd_gets_a_unit_and_loses_it_again(target: Target, program: DeployingProgram, tmp_path: Path) -> None:
    folder = target.folder / "programs"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    settings = f"SetEnv PATH={folder}:/usr/bin:/bin:/usr/sbin:/sbin"
    server = start_sshd(target.folder / "sshd", settings=settings, systemd=True)
    try:
        there = Target(server, target.folder)
        done = bootstrap(there.vm(), program.opts)
        assert done["started"] == "systemd"
        unit = server.folder / "etc/systemd/system/saltlite-minion.service"
        assert f"ExecStart={target.folder}/venv/bin/saltlite-minion -c {target.conf}" in unit.read_text().splitlines()
        calls = [line.split()[0] for line in (folder / "systemctl.calls").read_text().splitlines()]
        assert calls == ["cat", "daemon-reload", "enable", "restart"]
        assert retire(there.vm(), program.opts) == ()
        assert not unit.exists()
        assert there.processes() == []
    finally:
        server.stop()
