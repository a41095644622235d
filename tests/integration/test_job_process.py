"""The process of a job, forked for real: what it leaves, what it says, where its log lines go."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.loader.encode import decode_return
from saltlite.loader.index import build_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import (
    AGAIN,
    DONE,
    HELD_RESULT_MAX,
    LAST,
    WRITTEN,
    JobContext,
    JobProcess,
    JobSpec,
    fork_waiting,
    read_report,
)
from saltlite.minion.jobs.process_pool import SPARES_MAX, ForkServer, PreforkPool, start_fork_server
from saltlite.minion.jobs.rehearsal import TIMES
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.job import TargetState
from saltlite.platform import logs
from saltlite.platform.files import PosixFolder
from saltlite.platform.reactor import Reactor
from tests.support.fleet import wait_until

JID = "20260131235959123456"
MODULE = '''
import logging, os, resource
log = logging.getLogger(__name__)

def fill(size):
    """No file of this process may have another byte: for it the disk is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return "x" * size

def warn():
    for _ in range(3):
        log.warning("something is odd")
    return True

def descriptors():
    found = {}
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            pass
    return found

def babble():
    for fd, what in descriptors().items():
        if fd > 2 and what.startswith("socket"):
            os.write(fd, b"!\\0\\0\\0\\4junk")
    os._exit(0)
'''


@pytest.fixture
def surroundings(tmp_path: Path) -> JobContext:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/odd.py").write_text(MODULE)
    opts = {"module_dirs": [str(tmp_path)]}
    index = build_index(search_layers(opts))
    returns = Returns("web1", 1 << 20, str(tmp_path / "kept"), 1 << 20)
    return JobContext(opts, {}, lambda: index, str(tmp_path / "spool"), returns, lambda *_: None)


def run(surroundings: JobContext, fun: str, *args: object) -> tuple[bytes, int]:
    """What the process of that job said, and its exit status."""
    process = fork_waiting(surroundings)
    process.go(JobSpec(JID, [(fun, args, {})], "root"))
    said = heard(process)
    status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    process.close()
    return said, status


def heard(process: JobProcess) -> bytes:
    while (said := process.receive()) is None:
        assert select.select([process.socket], [], [], 60)[0], "the process says nothing"
    return said


def test_a_result_is_in_the_spool_when_the_process_says_so(surroundings: JobContext) -> None:
    assert run(surroundings, "test.ping") == (WRITTEN, 0)
    assert DiskSpool(PosixFolder(surroundings.spool_dir)).read(JID).state is TargetState.RETURNED


def test_a_large_result_is_synced_by_its_process_and_a_small_one_is_left_to_the_job_server(
    surroundings: JobContext,
) -> None:
    assert run(surroundings, "test.echo", "x" * HELD_RESULT_MAX) == (DONE, 0)
    spool = DiskSpool(PosixFolder(surroundings.spool_dir))
    assert (spool.jids(), spool.is_synced(JID)) == ([JID], True)
    spool.remove(JID)
    assert run(surroundings, "test.echo", "x") == (WRITTEN, 0)
    assert (spool.jids(), spool.is_synced(JID)) == ([JID], False)


@pytest.mark.parametrize("reusable", [True, False])
def test_a_process_that_is_not_heard_syncs_its_result_itself(
    surroundings: JobContext, monkeypatch: pytest.MonkeyPatch, *, reusable: bool
) -> None:
    synced = Path(surroundings.spool_dir).parent / "synced"
    real = PosixFolder.sync

    def sync(self: PosixFolder) -> None:
        real(self)
        synced.touch()

    monkeypatch.setattr(PosixFolder, "sync", sync)
    process = fork_waiting(surroundings)
    process.reusable = reusable
    process.go(JobSpec(JID, [("test.ping", [], {})], "root"))
    assert heard(process) == WRITTEN
    wait_until(synced.exists, "the process syncs its result")
    process.close()
    os.waitpid(process.pid, 0)


def test_a_process_whose_job_server_is_gone_syncs_its_result_itself(surroundings: JobContext) -> None:
    process = fork_waiting(surroundings)
    process.go(JobSpec(JID, [("test.sleep", [0.1], {})], "root"))
    process.close()
    os.waitpid(process.pid, 0)
    spool = DiskSpool(PosixFolder(surroundings.spool_dir))
    spool.open()
    assert (spool.jids(), spool.is_synced(JID)) == ([JID], True)


@pytest.mark.parametrize("size", [10, HELD_RESULT_MAX - 10])
def test_a_small_result_that_the_disk_does_not_take_is_handed_over_whole(surroundings: JobContext, size: int) -> None:
    said, status = run(surroundings, "odd.fill", size)
    why, entry = read_report(JID, said)
    assert (why, status) == ("File too large", 0)
    assert entry is not None
    assert (entry.state, entry.body[-10:]) == (TargetState.RETURNED, b"x" * 10)


def test_of_a_large_one_only_the_reason_is_said(surroundings: JobContext) -> None:
    said, _status = run(surroundings, "odd.fill", HELD_RESULT_MAX)
    assert read_report(JID, said) == ("File too large", None)


def test_a_process_that_ends_without_a_word_is_heard_as_that(surroundings: JobContext) -> None:
    process = fork_waiting(surroundings)
    os.kill(process.pid, 9)
    os.waitpid(process.pid, 0)
    assert heard(process) == b""
    process.close()


def test_a_function_that_writes_into_the_socket_makes_no_result(surroundings: JobContext) -> None:
    said, _status = run(surroundings, "odd.babble")
    assert said == b"junk"
    with pytest.raises(ValueError, match=r"unpack|report"):
        read_report(JID, said)


def test_lines_that_a_module_logs_carry_minion_and_jid_and_repeats_are_counted(
    surroundings: JobContext, log_file: Path
) -> None:
    with logs.log_context(id="web1"):
        assert run(surroundings, "odd.warn") == (WRITTEN, 0)
    lines = log_file.read_text().splitlines()
    assert [line.partition("[")[2] for line in lines] == [
        f"id=web1 jid={JID}] something is odd",
        f"id=web1 jid={JID}] something is odd (repeated 2 times)",
    ]


def test_a_job_does_not_report_repeats_of_its_minion(surroundings: JobContext, log_file: Path) -> None:
    import logging

    for _ in range(2):
        logging.getLogger("minion").warning("of the minion")
    run(surroundings, "test.ping")
    assert log_file.read_text().count("of the minion") == 1


def test_a_job_has_no_descriptor_of_the_minion_but_log_and_socket(surroundings: JobContext, log_file: Path) -> None:
    with (log_file.parent / "secret").open("w"):
        run(surroundings, "odd.descriptors")
    found = decode_return(DiskSpool(PosixFolder(surroundings.spool_dir)).read(JID).body)
    others = sorted(what.partition(":")[0] for fd, what in found.items() if fd > 2)
    assert others == [str(log_file), surroundings.spool_dir, "socket"]


class Spares:
    """A pool over the processes of these surroundings."""

    def __init__(self, surroundings: JobContext) -> None:
        self.reactor = Reactor()
        self.servers: list[ForkServer] = []
        self.pool = PreforkPool(self.reactor, surroundings, lambda _process: None, self.servers.append)

    def take(self, *, reusable: bool = False) -> JobProcess:
        """The process of a job of `test`, after which another one waits."""
        process = self.pool.take(reusable=reusable)
        self.pool.began(process, "test")
        self.reactor.call_later(0.05, self.reactor.stop)
        self.reactor.run()
        return process


@pytest.fixture
def spares(surroundings: JobContext) -> Iterator[Spares]:
    made = Spares(surroundings)
    yield made
    made.pool.let_go(keep=0)
    made.reactor.close()


def test_a_spare_with_a_module_that_was_loaded_ahead_runs_its_job(surroundings: JobContext, spares: Spares) -> None:
    spares.take().close()
    assert returned(surroundings, spares.pool.take(reusable=False), "test.echo", "text") == "text"


def test_a_spare_from_before_modules_changed_gets_no_job(
    surroundings: JobContext, spares: Spares, tmp_path: Path
) -> None:
    spares.take().close()
    (tmp_path / "modules/new.py").write_text("def f():\n    return 'new'\n")
    changed = build_index(search_layers(surroundings.opts))
    surroundings.index = lambda: changed
    assert returned(surroundings, spares.pool.take(reusable=False), "new.f") == "new"


def test_a_job_whose_process_cannot_read_its_state_runs_and_is_the_last_one(
    surroundings: JobContext, spares: Spares, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_args: object) -> None:
        raise PermissionError

    monkeypatch.setattr("saltlite.minion.jobs.job_process.ProcessState", unreadable)
    # Its end is waited for.
    assert returned(surroundings, spares.pool.take(reusable=True), "test.echo", "text") == "text"


def returned(surroundings: JobContext, process: JobProcess, fun: str, *args: object) -> object:
    """What that function returned in that process."""
    process.go(JobSpec(JID, [(fun, args, {})], "root"))
    assert heard(process) == WRITTEN
    if process.exit_status() is None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)
    process.close()
    return decode_return(DiskSpool(PosixFolder(surroundings.spool_dir)).read(JID).body)


@pytest.mark.parametrize("declared", [False, True])
def test_a_process_that_looked_up_a_function_with_its_own_process_runs_no_other_job(
    surroundings: JobContext, *, declared: bool
) -> None:
    surroundings.loader().needs_own_process = declared
    process = fork_waiting(surroundings)
    process.reusable = True
    process.go(JobSpec(JID, [("test.ping", [], {})], "root"))
    assert heard(process) == WRITTEN
    assert heard(process) == (LAST if declared else AGAIN)
    process.close()
    os.waitpid(process.pid, 0)


# -- The fork server

TELL = """
import os, signal, sys
with open(os.path.join(os.path.dirname(__file__), "bodies"), "a") as file:
    file.write(f"{os.getpid()}\\n")
def state():
    return {
        "pid": os.getpid(), "leads": os.getsid(0) == os.getpid() == os.getpgid(0), "parent": os.getppid(),
        "default": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
        "title": open("/proc/self/comm").read().strip(),
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd")
                              if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")),
    }
def loaded():
    return [name for name in sys.modules if name.startswith("saltlite.loaded.rehearsal")]
"""


@pytest.fixture
def fork_server(surroundings: JobContext, tmp_path: Path) -> Iterator[ForkServer]:
    (tmp_path / "modules/tell.py").write_text(TELL)
    index = build_index(search_layers(surroundings.opts))
    surroundings.index = lambda: index
    surroundings.loader()
    server = start_fork_server(surroundings)
    assert server.hear()
    # The job server would fork without it after FORK_SERVER_ANSWER_S; under load that is too short for these tests.
    server.socket.settimeout(60)
    yield server
    server.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(server.pid, 0)


def test_a_process_of_the_fork_server_is_as_one_that_the_minion_forks(
    surroundings: JobContext, fork_server: ForkServer, log_file: Path
) -> None:
    fork_server.load_ahead("tell")
    (process,) = fork_server.fork(1)
    state = returned(surroundings, process, "tell.state")
    assert isinstance(state, dict)
    assert (state.pop("pid"), state.pop("parent")) == (process.pid, fork_server.pid)
    assert state == {
        "leads": True,
        "default": True,
        "title": "saltlite-job",
        "descriptors": [surroundings.spool_dir, "socket"],
    }


def test_the_fork_server_runs_no_code_of_a_custom_module(
    surroundings: JobContext, fork_server: ForkServer, tmp_path: Path
) -> None:
    fork_server.load_ahead("tell")
    for process in fork_server.fork(3):
        returned(surroundings, process, "tell.state")
        (DiskSpool(PosixFolder(surroundings.spool_dir))).remove(JID)
    bodies = (tmp_path / "modules/bodies").read_text().split()
    assert len(set(bodies)) == 3
    assert str(fork_server.pid) not in bodies


def test_a_rehearsal_goes_the_whole_way_and_leaves_nothing(
    surroundings: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DiskSpool.write

    def write(spool: DiskSpool, jid: str, result: SpoolEntry, *, sync: bool = True) -> bool:
        with (tmp_path / "written").open("a") as file:
            file.write(f"{jid} {result.code} {decode_return(result.body)}\n")
        return real(spool, jid, result, sync=sync)

    monkeypatch.setattr(DiskSpool, "write", write)
    (tmp_path / "modules/tell.py").write_text(TELL)
    index = build_index(search_layers(surroundings.opts))
    surroundings.index = lambda: index
    server = start_fork_server(surroundings)
    assert server.hear()
    assert (tmp_path / "written").read_text().splitlines() == [f"{'0' * 20} 0 True"] * TIMES
    assert not os.listdir(surroundings.spool_dir)
    server.load_ahead("tell")
    assert returned(surroundings, server.fork(1)[0], "tell.loaded") == []
    server.close()
    os.waitpid(server.pid, 0)


def test_a_rehearsal_is_not_missed_where_the_disk_takes_no_file(
    surroundings: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    (tmp_path / "modules/tell.py").write_text(TELL)
    index = build_index(search_layers(surroundings.opts))
    surroundings.index = lambda: index
    surroundings.loader()
    monkeypatch.setattr("os.makedirs", refuse)
    server = start_fork_server(surroundings)
    assert server.hear()
    assert returned(surroundings, server.fork(1)[0], "test.echo", "text") == "text"
    server.close()
    os.waitpid(server.pid, 0)


def test_processes_that_end_at_once_do_not_end_their_fork_server(
    surroundings: JobContext, fork_server: ForkServer
) -> None:
    for _ in range(12):
        for process in fork_server.fork(SPARES_MAX):
            process.close()
    assert returned(surroundings, fork_server.fork(1)[0], "test.echo", "text") == "text"


def test_a_fork_server_reaps_its_processes_while_nothing_is_asked_of_it(fork_server: ForkServer) -> None:
    (process,) = fork_server.fork(1)
    process.close()
    wait_until(lambda: not os.path.exists(f"/proc/{process.pid}"), "the process is reaped")


def test_a_module_that_changes_after_it_was_compiled_ahead_runs_as_it_is_now(
    surroundings: JobContext, fork_server: ForkServer, tmp_path: Path
) -> None:
    fork_server.load_ahead("tell")
    fork_server.fork(1)[0].close()  # its answer comes after the compilation
    (tmp_path / "modules/tell.py").write_text("def state():\n    return 'changed'\n")
    assert returned(surroundings, fork_server.fork(1)[0], "tell.state") == "changed"


def test_the_fork_server_tells_how_a_process_was_killed(fork_server: ForkServer) -> None:
    killed, other = fork_server.fork(2)
    exits = os.pidfd_open(killed.pid)
    os.kill(killed.pid, signal.SIGKILL)
    assert select.select([exits], [], [], 60)[0]
    os.close(exits)
    assert killed.exit_status() == -signal.SIGKILL
    assert killed.exit_status() is None
    assert other.exit_status() is None
    killed.close()
    other.close()


def test_processes_of_a_fork_server_that_ended_run_their_jobs(
    surroundings: JobContext, fork_server: ForkServer
) -> None:
    (process,) = fork_server.fork(1)
    fork_server.close()
    os.waitpid(fork_server.pid, 0)
    assert returned(surroundings, process, "test.echo", "text") == "text"


def test_a_fork_server_that_was_stopped_is_not_waited_for(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_server.socket.settimeout(0.2)
    os.kill(fork_server.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        fork_server.fork(1)
    os.kill(fork_server.pid, signal.SIGKILL)
