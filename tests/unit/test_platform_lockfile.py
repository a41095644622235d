"""One daemon a folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from saltlite.errors import StartupError
from saltlite.platform.daemon import InstanceLock


def lock(path: Path) -> InstanceLock:
    return InstanceLock(str(path), program="saltlite-master", root_dir="/srv/fleet")


def test_a_second_daemon_is_told_who_is_there_and_what_to_do(tmp_path: Path) -> None:
    first = lock(tmp_path / "lock")
    sentence = rf"another saltlite-master \(pid {os.getpid()}\) already runs on root_dir /srv/fleet: stop it"
    with pytest.raises(StartupError, match=sentence):
        lock(tmp_path / "lock")
    first.close()


def test_the_lock_is_free_when_its_holder_closed_it(tmp_path: Path) -> None:
    lock(tmp_path / "lock").close()
    second = lock(tmp_path / "lock")
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    second.close()


def test_the_lock_is_free_when_its_holder_was_killed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        lock(tmp_path / "lock")
        os.write(writing, b"locked")
        signal.pause()
    assert os.read(reading, 10) == b"locked"
    with pytest.raises(StartupError, match=rf"pid {pid}\b"):
        lock(tmp_path / "lock")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lock(tmp_path / "lock").close()
    os.close(reading)
    os.close(writing)


def test_a_child_that_closes_its_copy_leaves_the_parent_locked(tmp_path: Path) -> None:
    held = lock(tmp_path / "lock")
    pid = os.fork()
    if pid == 0:
        held.close()
        os._exit(0)
    os.waitpid(pid, 0)
    with pytest.raises(StartupError, match="already runs"):
        lock(tmp_path / "lock")
    held.close()


def test_a_child_that_closed_its_copy_does_not_keep_the_lock_of_a_dead_parent(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        held = lock(tmp_path / "lock")
        child = os.fork()
        if child == 0:
            held.close()
            os.write(writing, os.getpid().to_bytes(4, "big"))
            signal.pause()
        os.read(reading, 0)
        signal.pause()
    child = int.from_bytes(os.read(reading, 4), "big")
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    lock(tmp_path / "lock").close()
    os.kill(child, signal.SIGKILL)
    os.close(reading)
    os.close(writing)


def test_a_lock_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"lock file .* cannot be opened .*`root_dir`"):
        lock(tmp_path / "missing" / "lock")


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartupError, match="cannot be opened"):
        lock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
