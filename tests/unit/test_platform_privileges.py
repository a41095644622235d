"""Users, private folders and secret files on the real file system."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.config.master import MasterConfig
from saltlite.errors import StartupError
from saltlite.master.processes.app import accounts_of
from saltlite.platform.privileges import SECRET_MAX, account_of, drop_to, private_dir, read_secret, write_secret

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving up root takes root")
NOBODY = pwd.getpwnam("nobody")
ME = (os.geteuid(), os.getegid())


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def in_child(work: Callable[[], object]) -> str:
    """What `work` returned or raised, as text, in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(work())
        except (StartupError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@as_root
def test_a_daemon_that_dropped_root_has_only_the_rights_of_its_user() -> None:
    def work() -> object:
        drop_to("nobody")
        return os.getresuid(), os.getresgid(), 0 in os.getgroups()

    uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
    assert in_child(work) == str(((uid,) * 3, (gid,) * 3, False))


@as_root
def test_a_daemon_that_dropped_root_cannot_get_it_back() -> None:
    def work() -> object:
        drop_to("nobody")
        os.setuid(0)
        return "root again"

    assert in_child(work).startswith("PermissionError")


@as_root
def test_a_daemon_that_dropped_root_starts_no_program_with_more_rights_and_hides_its_memory() -> None:
    def work() -> object:
        drop_to("nobody")
        status = Path("/proc/self/status").read_text()
        return "NoNewPrivs:\t1" in status, Path("/proc/self/environ").stat().st_uid

    assert in_child(work) == "(True, 0)"


@as_root
def test_a_daemon_is_never_its_user_with_a_way_to_more_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> object:
        change, before = os.setresuid, []

        def checked(*ids: int) -> None:
            before.append("NoNewPrivs:\t1" in Path("/proc/self/status").read_text())
            change(*ids)

        monkeypatch.setattr(os, "setresuid", checked)
        drop_to("nobody")
        return before

    assert in_child(work) == "[True]"


@as_root
def test_staying_root_changes_nothing() -> None:
    assert in_child(lambda: (drop_to("root").uid, os.geteuid())) == "(0, 0)"


@as_root
def test_an_unknown_user_is_a_sentence_with_both_ways_out() -> None:
    with pytest.raises(StartupError, match=r"no user 'no-such-user'.*useradd .*no-such-user.*`user: root`"):
        drop_to("no-such-user")


@as_root
def test_a_process_that_could_be_root_again_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> object:
        monkeypatch.setattr(os, "setresuid", lambda _real, _effective, _saved: None)
        return drop_to("nobody")

    assert "could become root again" in in_child(work)


@as_root
def test_started_as_somebody_else_the_configured_user_does_not_matter() -> None:
    def work() -> object:
        os.setgid(NOBODY.pw_gid)
        os.setuid(NOBODY.pw_uid)
        return drop_to("no-such-user").name, account_of("no-such-user").uid

    assert in_child(work) == str(("nobody", NOBODY.pw_uid))


def test_a_private_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    private_dir(str(tmp_path / "var" / "lib" / "pki"), *ME)
    assert mode_of(tmp_path / "var" / "lib" / "pki") == 0o700
    assert mode_of(tmp_path / "var") == 0o755


def test_a_private_folder_that_is_too_open_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    folder.chmod(0o777)
    private_dir(str(folder), *ME)
    assert mode_of(folder) == 0o700


def test_a_folder_that_is_narrower_than_asked_for_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "sock"
    folder.mkdir(mode=0o700)
    private_dir(str(folder), *ME, 0o755)
    assert mode_of(folder) == 0o700


@as_root
def test_a_new_folder_made_by_root_belongs_to_the_user_of_the_daemon(tmp_path: Path) -> None:
    private_dir(str(tmp_path / "data"), NOBODY.pw_uid, NOBODY.pw_gid)
    found = (tmp_path / "data").stat()
    assert (found.st_uid, found.st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid)


@as_root
def test_a_folder_of_another_user_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 12345, 12345)
    with pytest.raises(StartupError, match=rf"belongs to user 12345.*`chown -R {NOBODY.pw_uid}:"):
        private_dir(str(tmp_path / "data"), NOBODY.pw_uid, NOBODY.pw_gid)


@as_root
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_nothing_private_is_kept_below_a_strangers_open_folder(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    os.chown(tmp_path / "open", 12345, 12345)
    (tmp_path / "open").chmod(mode)
    with pytest.raises(StartupError, match="others may write to it"):
        private_dir(str(tmp_path / "open" / "pki"), *ME)
    assert not (tmp_path / "open" / "pki").exists()


def test_a_private_folder_is_never_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "pki").symlink_to(tmp_path / "real")
    with pytest.raises(StartupError, match="symbolic link"):
        private_dir(str(tmp_path / "pki"), *ME)


def test_a_parent_may_be_a_link_of_a_trusted_user(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "var").symlink_to(tmp_path / "real")
    private_dir(str(tmp_path / "var" / "pki"), *ME)
    assert mode_of(tmp_path / "real" / "pki") == 0o700


@as_root
def test_a_parent_that_is_a_strangers_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "var").symlink_to(tmp_path / "real")
    os.chown(tmp_path / "var", 12345, 12345, follow_symlinks=False)
    with pytest.raises(StartupError, match="symbolic link"):
        private_dir(str(tmp_path / "var" / "pki"), *ME)
    assert not (tmp_path / "real" / "pki").exists()


@as_root
def test_a_folder_that_may_not_be_made_names_root_dir() -> None:
    def work() -> object:
        os.setuid(NOBODY.pw_uid)
        private_dir("/etc/saltlite-test/pki", NOBODY.pw_uid, NOBODY.pw_gid)
        return "made"

    said = in_child(work)
    assert said == (
        "StartupError: cannot write in /etc/saltlite-test/pki: run as root or set `root_dir` to a folder of yours"
    )


def test_a_file_in_the_way_of_a_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match="is not a folder"):
        private_dir(str(tmp_path / "file" / "pki"), *ME)


def test_a_secret_comes_back_and_is_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "minion.key"
    write_secret(str(path), b"\0secret\n")
    assert read_secret(str(path)) == b"\0secret\n"
    assert mode_of(path) == 0o600


def test_a_secret_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_secret(str(tmp_path / "missing")) is None


def test_a_new_secret_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "minion.key"
    write_secret(str(path), b"old")
    path.chmod(0o644)
    write_secret(str(path), b"new")
    assert read_secret(str(path)) == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["minion.key"]


def test_a_secret_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "minion.key"
    write_secret(str(path), b"old")

    def no_space(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StartupError, match=r"cannot be written \(No space left on device\)"):
        write_secret(str(path), b"new")
    assert read_secret(str(path)) == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["minion.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "minion.key"
    write_secret(str(path), b"secret")
    path.chmod(mode)
    with pytest.raises(StartupError, match=rf"others may read \(mode {mode:04o}\).*`chmod 600"):
        read_secret(str(path))


@as_root
def test_a_secret_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "minion.key"
    write_secret(str(path), b"secret")
    os.chown(path, 12345, 12345)
    with pytest.raises(StartupError, match="belongs to user 12345"):
        read_secret(str(path))


def test_a_secret_is_not_read_through_a_symbolic_link(tmp_path: Path) -> None:
    write_secret(str(tmp_path / "real"), b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StartupError, match="symbolic link"):
        read_secret(str(tmp_path / "link"))


def test_a_pipe_in_place_of_a_secret_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(StartupError, match="not a plain file"):
        read_secret(str(tmp_path / "fifo"))


def test_a_secret_longer_than_the_limit_is_refused(tmp_path: Path) -> None:
    write_secret(str(tmp_path / "key"), bytes(SECRET_MAX))
    assert read_secret(str(tmp_path / "key")) == bytes(SECRET_MAX)
    write_secret(str(tmp_path / "key"), bytes(SECRET_MAX + 1))
    with pytest.raises(StartupError, match="longer than 65536 bytes"):
        read_secret(str(tmp_path / "key"))


def test_missing_parents_can_be_passed_by_others_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        private_dir(str(tmp_path / "var" / "lib" / "mine"), os.geteuid(), os.getegid())
    finally:
        os.umask(before)
    modes = [(tmp_path / "var" / name).stat().st_mode & 0o777 for name in ("", "lib", "lib/mine")]
    assert modes == [0o755, 0o755, 0o700]


@as_root
def test_a_link_user_that_is_missing_is_a_sentence_with_both_ways_out() -> None:
    with pytest.raises(
        StartupError,
        match=r"no user 'no-such-user': create it with `useradd --system --no-create-home no-such-user`, "
        r"or set `link_user: nobody`, which gives up the protection of a separate user",
    ):
        accounts_of(MasterConfig(user="nobody", link_user="no-such-user"))


@as_root
def test_a_link_process_never_becomes_root_where_the_others_do_not() -> None:
    with pytest.raises(StartupError, match="link_user is root, which would give the process"):
        accounts_of(MasterConfig(user="nobody", link_user="root"))
    accounts = accounts_of(MasterConfig(user="nobody", link_user="daemon"))
    assert [account.name for account in accounts] == ["nobody", "daemon"]
