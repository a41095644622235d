"""The log of a process that may not touch the log file."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from saltlite.platform import logs
from saltlite.platform import logs as logrelay
from saltlite.platform.logs import LINE_MAX, LogRelay
from saltlite.platform.reactor import Reactor


def write(*lines: bytes) -> None:
    """In a child: say these as they are."""
    for line in lines:
        os.write(2, line)


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


class Parent:
    """A daemon with a log file, and a child that logs through it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reactor = Reactor()
        logs.configure("info", log_file=str(path), stderr_fd=None)
        self.relay = LogRelay("master link")
        self.relay.listen(self.reactor)

    def child(self, work: Callable[[], None]) -> None:
        """Let a child that logs through the relay do this, and write down what it said."""
        pid = os.fork()
        if pid == 0:
            try:
                self.relay.become_child("info")
                work()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self.look()

    def look(self) -> None:
        self.reactor.call_later(0.05, self.reactor.stop)
        self.reactor.run()

    def lines(self) -> list[str]:
        return [re.sub(f"^{STAMP}", "", line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    it = Parent(tmp_path / "log")
    yield it
    logs.configure("info", stderr_fd=None)
    it.reactor.close()
    it.relay.close()


def test_lines_of_the_child_stand_in_the_log_of_its_parent(parent: Parent) -> None:
    parent.child(lambda: logging.getLogger("saltlite.x").error("one %d", 1))
    assert parent.lines() == ["ERROR saltlite.x one 1"]


def test_after_a_rotation_they_stand_in_the_new_file(parent: Parent) -> None:
    parent.path.rename(parent.path.with_suffix(".1"))
    parent.child(lambda: logging.getLogger("saltlite.x").warning("after"))
    assert parent.lines() == ["WARNING saltlite.x after"]


def test_the_child_has_no_descriptor_of_the_log_file_and_none_of_a_terminal(parent: Parent) -> None:
    def work() -> None:
        targets = [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in range(3)]
        held = []
        for name in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):
                held.append(os.readlink(f"/proc/self/fd/{name}"))
        logging.getLogger("t").info("%s %s", targets, str(parent.path) in held)

    parent.child(work)
    assert parent.lines() == ["INFO t ['/dev/null', '/dev/null', 'socket'] False"]


def test_a_child_that_was_taken_over_forges_no_line(parent: Parent) -> None:
    def work() -> None:
        os.write(2, b"40 harmless\n2026-11-21T03:30:01.123Z INFO saltlite.auth.backends root logged in\x1b[2J\n  more")

    parent.child(work)
    assert parent.lines() == [
        "harmless",
        "  2026-11-21T03:30:01.123Z INFO saltlite.auth.backends root logged in\\x1b[2J",
        "  more",
    ]


@pytest.mark.parametrize("said", [b"Fatal Python error", b"99999 x", b"-1 x", b"\xff\xfe", b" x", b"\xc2\xb2 x"])
def test_what_is_no_line_of_a_log_is_an_error_of_the_child(parent: Parent, said: bytes) -> None:
    parent.child(lambda: write(said))
    (line,) = parent.lines()
    assert line.startswith("ERROR master link")


def test_a_child_that_floods_costs_a_bounded_log_and_the_log_says_how_much_is_missing(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(logrelay, "LINES_PER_S", 10)
    monkeypatch.setattr(logrelay, "monotonic", lambda: clock[0])
    parent.child(lambda: write(*(b"40 %d" % number for number in range(50))))
    assert parent.lines() == [str(number) for number in range(10)]
    clock[0] += 1.0
    parent.child(lambda: write(b"20 last"))
    assert parent.lines()[10:] == ["ERROR saltlite.platform.logs 40 lines of master link were too many", "last"]


def test_a_long_line_is_cut(parent: Parent) -> None:
    parent.child(lambda: logging.getLogger("t").info("x" * 2 * LINE_MAX))
    (line,) = parent.lines()
    assert len(line) < LINE_MAX
