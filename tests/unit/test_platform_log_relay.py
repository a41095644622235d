"""The log of a process that may not touch the log file."""

from __future__ import annotations

import json
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


def packed(message: str) -> bytes:
    return logs.LogLine(logging.INFO, "t", message).packed()


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
        forged = "harmless\n2026-11-21T03:30:01.123Z INFO auth root logged in\x1b[2J"
        fields = [["id", "web1\nx"], ["level", "debug"], ["time", "0"], ["message", "m"]]
        os.write(2, json.dumps([30, "saltlite.x\n2026", forged, fields, ["more\nlines"]]).encode())

    parent.child(work)
    assert parent.lines() == [
        "WARNING saltlite.x\\n2026 [id=web1\\nx] harmless\\n2026-11-21T03:30:01.123Z INFO auth root logged in\\x1b[2J",
        "  more\\nlines",
    ]


def test_lines_of_the_child_have_their_fields_in_a_log_of_json(parent: Parent) -> None:
    logs.configure("info", log_file=str(parent.path), stderr_fd=None, form="json")

    def work() -> None:
        with logs.log_context(jid="1", id="web1"):
            logging.getLogger("saltlite.x").error("one")

    parent.child(work)
    (line,) = map(json.loads, parent.path.read_text().splitlines())
    assert {**line, "time": ""} == {
        "time": "", "level": "error", "logger": "saltlite.x", "jid": "1", "id": "web1", "message": "one",
    }  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        b"Fatal Python error",
        b"[99999, 1, 2, 3, 4]",
        b"-1 x",
        b"\xff\xfe",
        b" x",
        b'[20, "x", "y", [1], []]',
        b"[" * 9000,
    ],
)
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
    parent.child(lambda: write(*(packed(str(number)) for number in range(50))))
    assert parent.lines() == [f"INFO t {number}" for number in range(10)]
    clock[0] += 1.0
    parent.child(lambda: write(packed("last")))
    assert parent.lines()[10:] == ["ERROR saltlite.platform.logs 40 lines of master link were too many", "INFO t last"]


def test_a_long_traceback_is_cut(parent: Parent) -> None:
    parent.child(lambda: write(logs.LogLine(logging.INFO, "t", "m", (), ["x" * 100] * 1000).packed()))
    first, *rest = parent.lines()
    assert (first, 0 < len(rest) < 1000) == ("INFO t m", True)


def test_a_long_line_is_cut(parent: Parent) -> None:
    parent.child(lambda: logging.getLogger("t").info("x" * 2 * LINE_MAX))
    (line,) = parent.lines()
    assert len(line) < LINE_MAX
