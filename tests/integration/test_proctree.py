"""Signals that reach all that a process has started, sessions of their own included; with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from saltlite.platform.process import ProcessTree, adopt_orphans

# Starts: a child in the group, one in a session of its own, and one whose parent ended at once (a daemon).
FAMILY = """
import os, subprocess, sys, time
here = subprocess.Popen(["sleep", "300"])
away = subprocess.Popen(["sleep", "300"], start_new_session=True)
half = os.fork()
if half == 0:
    os.setsid()
    daemon = subprocess.Popen(["sleep", "300"])
    print(here.pid, away.pid, daemon.pid, flush=True)
    os._exit(0)
os.waitpid(half, 0)
time.sleep(300)
"""
IGNORES = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(300)"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*pids: int, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while any(map(alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def leader(code: str) -> subprocess.Popen[str]:
    """A process as that of a job is: it leads a session, and orphans below it are its own."""

    def prepare() -> None:
        os.setsid()
        adopt_orphans()

    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, preexec_fn=prepare)  # noqa: PLW1509 - no threads here


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    process = leader(FAMILY)
    assert process.stdout is not None
    below = [int(word) for word in process.stdout.readline().split()]
    yield process, below
    for pid in [process.pid, *below]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_children_that_left_the_group_and_daemons(
    family: tuple[subprocess.Popen[str], list[int]], signum: int
) -> None:
    process, below = family
    assert len({os.getpgid(pid) for pid in below}) == 3
    ProcessTree(process.pid).signal(signum)
    assert process.wait(60) == -signum
    assert gone(*below)


def test_what_ignored_being_asked_is_found_again_when_its_ancestor_is_gone() -> None:
    code = f"""
import subprocess, sys, time
stray = subprocess.Popen([sys.executable, "-c", {IGNORES!r}], stdout=subprocess.PIPE, start_new_session=True)
stray.stdout.readline()
print(stray.pid, flush=True)
time.sleep(300)
"""
    process = leader(code)
    assert process.stdout is not None
    stray = int(process.stdout.readline())
    tree = ProcessTree(process.pid)
    tree.signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    assert alive(stray)
    tree.signal(signal.SIGKILL)
    assert gone(stray)
    process.stdout.close()


def test_a_process_beside_the_tree_is_left_alone(family: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, _below = family
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        ProcessTree(process.pid).signal(signal.SIGKILL)
        process.wait(60)
        assert other.poll() is None
        other.kill()


def test_a_tree_that_is_gone_is_no_error() -> None:
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
    ProcessTree(process.pid).signal(signal.SIGKILL)
