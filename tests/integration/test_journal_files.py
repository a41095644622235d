"""Journal and spool on a real file system: kills, limits of the disk, rights, and forked writers."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.errors import JournalError
from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import JournalStep, Record, SpoolEntry
from saltlite.model.job import TargetState
from saltlite.platform.files import PosixFolder

JID = "20260131235959123456"
LATER = "20260131235959123457"

# Appends until it is killed; says each jid only after the sync of its record.
APPENDER = """
import os, sys
from saltlite.platform.files import PosixFolder
from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.protocol.effects import JournalStep, Record
journal = DiskJournal(PosixFolder(sys.argv[1]), entropy=os.urandom)
number = len(journal.open())
while True:
    jid = f"{number:020d}"
    fields = {"body": os.urandom(2000), "sig": b"s", "proof": [], "wall_ms": 0, "deliver_ms": 0}
    journal.append([Record(JournalStep.RECEIVED, jid, fields)])
    journal.append([Record(JournalStep.STARTED, jid, {"pid": 1, "ticks": 1, "wall_ms": 1})])
    journal.sync()
    os.write(1, (jid + "\\n").encode())
    if number % 20 == 0:
        journal.compact(0)
    number += 1
"""

SPOOLER = """
import sys, os
from saltlite.platform.files import PosixFolder
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.job import TargetState
spool = DiskSpool(PosixFolder(sys.argv[1]))
spool.open()
number = len(spool.jids())
while True:
    jid = f"{number:020d}"
    spool.write(jid, SpoolEntry(TargetState.RETURNED, 0, jid.encode() * 200, 1, 1))
    os.write(1, (jid + "\\n").encode())
    number += 1
"""


def result(body: bytes = b"\xc3") -> SpoolEntry:
    return SpoolEntry(TargetState.RETURNED, 0, body, 1, 2)


def received(jid: str, body: bytes = b"body") -> Record:
    return Record(JournalStep.RECEIVED, jid, {"body": body, "sig": b"", "proof": [], "wall_ms": 1, "deliver_ms": 1})


def reported_until_killed(script: str, folder: Path, *, lines: int) -> list[str]:
    """Run the script, kill -9 it after so many lines; every line that it wrote."""
    command = [sys.executable, "-c", script, str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        said = [child.stdout.readline().strip() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        return said + child.stdout.read().split()


def test_every_record_that_was_synced_is_there_after_kill_9(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(4):
        said += reported_until_killed(APPENDER, tmp_path, lines=30)
        journal = DiskJournal(PosixFolder(str(tmp_path)), entropy=os.urandom)
        entries = {str(entry.jid): entry for entry in journal.open()}
        assert {jid: entries[jid].step for jid in said} == dict.fromkeys(said, JournalStep.STARTED)
        journal.close()


def test_every_result_that_was_written_is_there_after_kill_9(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(3):
        said += reported_until_killed(SPOOLER, tmp_path, lines=15)
        spool = DiskSpool(PosixFolder(str(tmp_path)))
        spool.open()
        assert set(said) <= set(spool.jids())
        assert [spool.read(jid).body for jid in said] == [jid.encode() * 200 for jid in said]
        assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


def test_the_process_of_a_job_writes_through_the_spool_that_was_opened_before_the_fork(
    tmp_path: Path,
) -> None:
    spool = DiskSpool(PosixFolder(str(tmp_path / "spool")))
    spool.open()
    pid = os.fork()
    if pid == 0:
        written = spool.write(JID, result(b"from the job"))
        os._exit(0 if written else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (spool.noticed(JID), spool.usage()[0], spool.read(JID).body) == (True, 1, b"from the job")


def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "var" / "data"
    DiskJournal(PosixFolder(str(data)), entropy=os.urandom).open()
    DiskSpool(PosixFolder(str(data / "spool"))).write(JID, result())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [data, *data.rglob("*")]}
    assert modes == {"data": 0o700, "spool": 0o700, "journal": 0o600, f"{JID}.ret": 0o600}


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(JournalError, match=r"others may write into .*chown.*chmod go-w"):
        PosixFolder(str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(JournalError, match="give it to the user with id 0"):
        PosixFolder(str(tmp_path))


def test_a_file_in_place_of_the_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(JournalError, match="data cannot be used: File exists"):
        PosixFolder(str(tmp_path / "data"))


def test_links_in_place_of_folder_or_files_are_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(0o700)
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(JournalError, match="link cannot be used"):
        PosixFolder(str(tmp_path / "link"))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (real / "journal").symlink_to(victim)
    (real / f"{JID}.tmp").symlink_to(victim)
    with pytest.raises(JournalError, match="journal cannot be opened"):
        DiskJournal(PosixFolder(str(real)), entropy=os.urandom).open()
    DiskSpool(PosixFolder(str(real))).write(JID, result())
    assert victim.read_text() == "mine"


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow above `size`, in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_half_a_record_that_the_disk_took_is_removed_at_once(tmp_path: Path) -> None:
    journal = DiskJournal(PosixFolder(str(tmp_path)), entropy=os.urandom)
    journal.open()
    journal.append([received(JID)])
    size = (tmp_path / "journal").stat().st_size
    with no_file_above(size + 50), pytest.raises(JournalError, match="cannot be written: File too large"):
        journal.append([received(LATER, bytes(5000))])
    assert (tmp_path / "journal").stat().st_size == size
    journal.append([received(LATER)])
    journal.sync()
    journal.close()
    again = DiskJournal(PosixFolder(str(tmp_path)), entropy=os.urandom)
    assert ([entry.jid for entry in again.open()], again.repaired) == ([JID, LATER], "")
    again.close()


def test_a_result_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    spool = DiskSpool(PosixFolder(str(tmp_path)))
    with no_file_above(1000), pytest.raises(JournalError, match="File too large; make room"):
        spool.write(JID, result(bytes(5000)))
    assert os.listdir(tmp_path) == []


def refusing(number: int) -> Callable[[int], None]:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_disk_that_fails_a_sync_ends_the_journal_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = DiskJournal(PosixFolder(str(tmp_path)), entropy=os.urandom)
    journal.open()
    journal.append([received(JID)])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", refusing(errno.EIO))
        with pytest.raises(JournalError, match="Input/output error"):
            journal.sync()
    with pytest.raises(JournalError, match=r"Input/output error.*start the minion again"):
        journal.append([received(LATER)])
    journal.close()


def test_the_files_of_a_million_random_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(os.urandom(1_000_000))
    with pytest.raises(JournalError, match="does not begin as a journal does"):
        DiskJournal(PosixFolder(str(tmp_path)), entropy=os.urandom).open()
    (tmp_path / f"{JID}.ret").write_bytes(os.urandom(1_000_000))
    with pytest.raises(JournalError, match=f"damaged.*{JID}.bad"):
        DiskSpool(PosixFolder(str(tmp_path))).read(JID)


def test_journal_and_spool_load_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; import saltlite.minion.jobs.journal, saltlite.minion.jobs.spool, saltlite.platform.files; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.split())
    assert "msgpack" in loaded
    assert not loaded & {"asyncio", "cryptography", "logging", "socket", "tornado", "yaml", "zmq"}
