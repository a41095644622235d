"""`saltlite backup` and `restore`: what was backed up comes back, and what goes wrong changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.main import main
from saltlite.config.load import load_master
from saltlite.master.backup import archive, program
from saltlite.master.processes import identity
from saltlite.master.store.sqlite import SqliteStore
from saltlite.master.store.sqlite.snapshot import copy_store
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import InstanceLock
from saltlite.platform.privileges import private_dir
from tests.faults.disks import fill, small_disk
from tests.support.fleet import ME
from tests.support.keys import NOW
from tests.support.store import key

PASSPHRASE = "correct horse battery"


class MasterMachine:
    """A machine with the files of a master, which does not run."""

    def __init__(self, folder: Path, *, empty: bool = False) -> None:
        self.config_dir = folder / "conf"
        self.root = folder / "root"
        if empty:
            folder.mkdir()
            return
        self.config_dir.mkdir(parents=True)
        self.write_options()
        (self.config_dir / "master.d").mkdir()
        (self.config_dir / "master.d" / "more.conf").write_text("worker_threads: 3\n")
        config = load_master(str(self.config_dir)).config
        for path in (config.pki_dir, config.data_dir):
            private_dir(path, os.geteuid(), os.getegid())
        identity.ensure_identity(config.pki_dir, "m", NOW, 0)
        store = SqliteStore(str(self.store))
        with store.write() as writer:
            writer.put_key(key(MinionId("web1")))
        store.close()
        (self.data / "hooks.json").write_text('{"cursor": 7}')

    def write_options(self) -> None:
        (self.config_dir / "master").write_text(
            f"root_dir: {self.root}\nuser: {ME}\nlink_user: {ME}\nauth_file: {self.config_dir}/logins\n"
        )
        (self.config_dir / "logins").write_text("alice:hash\n")

    @property
    def data(self) -> Path:
        return self.root / "var/lib/saltlite/master"

    @property
    def store(self) -> Path:
        return self.data / "store.sqlite"

    @property
    def pki(self) -> Path:
        return self.root / "etc/saltlite/pki/master"

    def files(self) -> dict[str, bytes]:
        """Everything that is there, but for what SQLite makes beside a store that is open."""
        found = (path for top in (self.config_dir, self.root) for path in top.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if not path.name.startswith("store.sqlite-")}

    def accepted(self) -> list[str]:
        store = SqliteStore(str(self.store))
        try:
            return list(store.accepted_ids())
        finally:
            store.close()

    def run(self, *words: str | Path) -> int:
        return main(["-c", str(self.config_dir), *map(str, words)])


@pytest.fixture
def machine(tmp_path: Path) -> MasterMachine:
    return MasterMachine(tmp_path / "old")


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    path = tmp_path / "passphrase"
    path.write_text(f"{PASSPHRASE}\n")
    return path


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("saltlite: ")) == ("", 1, True), err
    return err


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_restore_on_an_empty_machine_has_everything(
    tmp_path: Path, machine: MasterMachine, passphrase: Path, encrypted: bool
) -> None:
    options = ["--passphrase-file", str(passphrase)] if encrypted else []
    before, backup = machine.files(), tmp_path / "backup"
    assert machine.run("backup", backup, *options) == 0
    assert backup.stat().st_mode & 0o777 == 0o600
    assert (b"SQLite format 3" in backup.read_bytes()) is not encrypted
    (tmp_path / "old").rename(tmp_path / "lost")
    assert main(["restore", "-c", str(machine.config_dir), str(backup), *options]) == 0
    after = machine.files()
    changing = {str(machine.store), f"{machine.store}.lock", str(machine.data / "lock")}
    assert {p: c for p, c in after.items() if p not in changing} == {
        p: c for p, c in before.items() if p not in changing
    }
    assert machine.accepted() == ["web1"]
    assert [path.name for path in tmp_path.rglob("*restore-*")] == []


def test_the_configuration_of_the_new_machine_can_stay(tmp_path: Path, machine: MasterMachine) -> None:
    backup, there = tmp_path / "backup", MasterMachine(tmp_path / "new", empty=True)
    assert machine.run("backup", backup) == 0
    there.config_dir.mkdir()
    there.write_options()
    options = there.files()
    assert there.run("restore", backup, "--keep-options") == 0
    assert {path: there.files()[path] for path in options} == options
    assert there.accepted() == ["web1"]
    assert (there.pki / "fleet.key").read_bytes() == (machine.pki / "fleet.key").read_bytes()


def test_a_master_that_is_here_is_put_aside_only_on_request_and_kept(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "backup"
    assert machine.run("backup", backup) == 0
    store = SqliteStore(str(machine.store))
    with store.write() as writer:
        writer.put_key(key(MinionId("later"), n=1))
    store.close()
    before = machine.files()
    capsys.readouterr()
    assert machine.run("restore", backup) == 2
    assert "there is a master here already" in one_sentence(capsys)
    assert machine.files() == before
    assert machine.run("restore", backup, "--replace") == 0
    assert machine.accepted() == ["web1"]
    aside = [line.removeprefix("put aside: ") for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(Path(path).name.partition(".before-")[0] for path in aside) == [
        "logins", "master", "master", "master", "master.d",
    ]  # fmt: skip
    assert all(Path(path).exists() for path in aside)


def test_a_running_master_is_not_replaced(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "backup"
    assert machine.run("backup", backup) == 0
    lock = InstanceLock(str(machine.data / "lock"), program="saltlite-master", root_dir=str(machine.root))
    capsys.readouterr()
    try:
        assert machine.run("restore", backup, "--replace") == 6
        assert "the master runs here: stop it first" in one_sentence(capsys)
    finally:
        lock.close()


def altered(whole: bytes) -> Iterator[bytes]:
    """Files that are not what was backed up: each block and its edges, the end missing, something added."""
    places = [whole.index(b"\n") + offset for offset in (1, 3, 5, 200)]
    for at in (*places, len(whole) // 2, len(whole) - 40, len(whole) - 1):
        yield whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    for length in (0, 10, places[1], len(whole) // 2, len(whole) - 1):
        yield whole[:length]
    yield whole + b"x"


@pytest.mark.parametrize("encrypted", [False, True])
def test_an_altered_file_is_one_sentence_and_nothing_is_restored(
    tmp_path: Path,
    machine: MasterMachine,
    passphrase: Path,
    encrypted: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive, "SCRYPT_N", 2**10)  # the key is derived for each file, and its cost is not the point
    options = ["--passphrase-file", str(passphrase)] if encrypted else []
    backup = tmp_path / "backup"
    assert machine.run("backup", backup, *options) == 0
    before = machine.files()
    capsys.readouterr()
    for content in altered(backup.read_bytes()):
        backup.write_bytes(content)
        assert machine.run("restore", backup, "--replace", *options) in (1, 6)
        said = one_sentence(capsys)
        assert "nothing was restored" in said or "no backup of saltlite" in said
        assert machine.files() == before


def test_a_wrong_passphrase_and_none_are_refused(
    tmp_path: Path, machine: MasterMachine, passphrase: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup, other = tmp_path / "backup", tmp_path / "other"
    assert machine.run("backup", backup, "--passphrase-file", passphrase) == 0
    before = machine.files()
    capsys.readouterr()
    other.write_text("another passphrase\n")
    assert machine.run("restore", backup, "--replace", "--passphrase-file", other) == 6
    assert "does not open with this passphrase" in one_sentence(capsys)
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, encoding="utf-8") as nothing:
        patch.setattr("sys.stdin", nothing)
        assert machine.run("restore", backup, "--replace") == 2
    assert "--passphrase-file" in one_sentence(capsys)
    assert machine.files() == before
    other.write_text("short\n")
    assert machine.run("backup", tmp_path / "x", "--passphrase-file", other) == 2
    assert "8 characters or more" in one_sentence(capsys)


@pytest.mark.parametrize("newer", ["format", "schema"])
def test_a_backup_of_a_newer_version_is_one_sentence(
    tmp_path: Path,
    machine: MasterMachine,
    newer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    backup = tmp_path / "backup"
    with monkeypatch.context() as patch:
        patch.setattr(archive, "__version__", "99.0")
        patch.setattr(program, "__version__", "99.0")
        if newer == "format":
            patch.setattr(archive, "FORMAT", 2)
        else:
            patch.setattr(program, "copy_store", lambda _path, to: (Path(to).write_bytes(b"?"), 99)[1])
        assert machine.run("backup", backup) == 0
    before = machine.files()
    capsys.readouterr()
    assert machine.run("restore", backup, "--replace") == 1
    assert "was made by saltlite 99.0, which is newer" in one_sentence(capsys)
    assert machine.files() == before


@pytest.mark.parametrize("name", ["../x", "pki/../../x", "pki/a/b", "data/a/b/c", "other", "/etc/x", "named/port"])
def test_a_member_that_no_backup_has_is_not_written(
    tmp_path: Path,
    machine: MasterMachine,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    backup = tmp_path / "backup"
    with monkeypatch.context() as patch:
        patch.setattr(program, "_sources", lambda *_: [(name, str(machine.config_dir / "master"))])
        assert machine.run("backup", backup) == 0
    (tmp_path / "old").rename(tmp_path / "lost")
    machine.config_dir.mkdir(parents=True)
    machine.write_options()
    before = machine.files()
    capsys.readouterr()
    assert machine.run("restore", backup, "--keep-options") == 1
    assert "nothing was restored" in one_sentence(capsys)
    assert machine.files() == before


def test_a_link_in_a_backup_is_refused(tmp_path: Path, machine: MasterMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = program._add_bytes

    def with_link(tar: tarfile.TarFile, name: str, data: bytes) -> None:
        real(tar, name, data)
        link = tarfile.TarInfo("pki/fleet.key")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)

    with monkeypatch.context() as patch:
        patch.setattr(program, "_add_bytes", with_link)
        assert machine.run("backup", tmp_path / "backup") == 0
    before = machine.files()
    assert machine.run("restore", tmp_path / "backup", "--replace") == 1
    assert machine.files() == before


def test_a_full_disk_leaves_the_former_backup_and_no_remains(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.run("backup", tmp_path / "elsewhere") == 0
    size = (tmp_path / "elsewhere").stat().st_size
    capsys.readouterr()
    with small_disk(tmp_path / "small", 2 * 1024 * 1024) as disk:
        backup = disk / "backup"
        backup.write_text("the former one")
        for leave in (4096, size // 2, size + size // 2):  # for nothing, for a part of the copy, of the archive
            fill(disk, leave=leave)
            assert machine.run("backup", backup) == 1
            assert "no space left" in one_sentence(capsys).lower()
            (disk / "filler").unlink()
            assert [path.name for path in disk.iterdir()] == ["backup"]
            assert backup.read_text() == "the former one"


def test_a_full_disk_in_the_middle_of_a_restore_leaves_everything_as_it_was(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "backup"
    assert machine.run("backup", backup) == 0
    (tmp_path / "old").rename(tmp_path / "lost")
    with small_disk(tmp_path / "old", 2 * 1024 * 1024) as disk:
        for leave in (0, 8192, 128 * 1024):
            fill(disk, leave=leave)
            capsys.readouterr()
            assert main(["restore", "-c", str(machine.config_dir), str(backup)]) == 1
            assert "No space left on device" in one_sentence(capsys)
            assert [path for path in disk.rglob("*") if path.is_file()] == [disk / "filler"]
            (disk / "filler").unlink()
        assert main(["restore", "-c", str(machine.config_dir), str(backup)]) == 0
        assert machine.accepted() == ["web1"]


def test_a_rename_that_fails_takes_those_before_it_back(
    tmp_path: Path, machine: MasterMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "backup"
    assert machine.run("backup", backup) == 0
    before = machine.files()
    real = os.rename
    for allowed in range(8):
        calls = iter(range(100))

        def failing(old: str, new: str, allowed: int = allowed, calls: Any = calls) -> None:
            if next(calls) == allowed:
                raise OSError(5, "Input/output error")
            real(old, new)

        with monkeypatch.context() as patch:
            patch.setattr("os.rename", failing)
            assert machine.run("restore", backup, "--replace") == 1
        assert machine.files() == before, allowed


def test_the_copy_is_the_store_at_one_moment_while_others_write(tmp_path: Path, machine: MasterMachine) -> None:
    """A transaction of 50 rows is in the copy whole or not at all."""
    import threading

    stop = threading.Event()

    def write() -> None:
        store, number = SqliteStore(str(machine.store)), 0
        while not stop.is_set():
            with store.write() as writer:
                for one in range(50):
                    writer.put_event(f"salt/test/{number}/{one}", {"text": "x" * 500}, NOW)
            number += 1
        store.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            copy = tmp_path / f"copy-{number}"
            copy.touch()
            copy_store(str(machine.store), str(copy))
            rows = sqlite3.connect(copy).execute("SELECT count(*) FROM events").fetchone()[0]
            assert rows % 50 == 0
    finally:
        stop.set()
        thread.join()


def test_a_damaged_store_is_not_backed_up(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(machine.store.read_bytes())
    content[4096:12288] = os.urandom(8192)
    machine.store.write_bytes(content)
    assert machine.run("backup", tmp_path / "backup") == 1
    assert "damaged" in one_sentence(capsys)
    assert not (tmp_path / "backup").exists()


def test_a_program_can_read_what_was_made(
    tmp_path: Path, machine: MasterMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine.run("backup", tmp_path / "backup", "--out", "json") == 0
    out, err = capsys.readouterr()
    fleet = identity.fleet_files(str(machine.pki)).id
    assert json.loads(out) | {"bytes": 0} == {
        "file": str(tmp_path / "backup"), "bytes": 0, "fleet": fleet, "encrypted": False,
    }  # fmt: skip
    assert "in plain text" in err
