"""What a reader of the log sees."""

from __future__ import annotations

import contextvars
import json
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.errors import StartupError
from saltlite.platform import logs
from saltlite.platform.logs import FileSink, LineHandler, Repeats, configure, log_context, set_log_context

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "log" / "master"
    configure("info", log_file=str(path), stderr_fd=None)
    return path


log = logging.getLogger("saltlite.test")


def fail(text: str) -> None:
    raise ValueError(text)


def test_a_line_has_time_level_name_and_text(log_file: Path) -> None:
    log.warning("the %s is full", "queue")
    assert re.fullmatch(rf"{STAMP} WARNING saltlite\.test the queue is full\n", log_file.read_text())


def test_the_context_of_nested_blocks_is_in_the_line_and_gone_after_them(log_file: Path) -> None:
    with log_context(jid="20261121033001000000"):
        with log_context(id="web1"):
            log.info("inside")
        log.info("between")
    log.info("outside")
    lines = [line.split(" ", 3)[3] for line in log_file.read_text().splitlines()]
    assert lines == [
        "[jid=20261121033001000000 id=web1] inside",
        "[jid=20261121033001000000] between",
        "outside",
    ]


def test_the_context_of_a_process_is_in_every_line_from_then_on(log_file: Path) -> None:
    def work() -> None:
        set_log_context(id="web1")
        with log_context(jid="20261121033001000000"):
            log.info("of a job")
        log.info("of the minion")

    contextvars.copy_context().run(work)  # as in a process of its own
    lines = [line.split(" ", 3)[3] for line in log_file.read_text().splitlines()]
    assert lines == ["[id=web1 jid=20261121033001000000] of a job", "[id=web1] of the minion"]


def test_control_characters_cannot_forge_a_line(log_file: Path) -> None:
    with log_context(id="web1\n2026 forged"):
        log.info("a\nb\x1b[31mc\u2028d")
    text = log_file.read_text()
    assert text.count("\n") == 1
    assert r"[id=web1\n2026 forged] a\nb\x1b[31mc\x2028d" in text


def test_a_traceback_is_shown_indented(log_file: Path) -> None:
    try:
        fail("broken\nin two lines")
    except ValueError:
        log.exception("it failed")
    first, *rest = log_file.read_text().splitlines()
    assert first.endswith("ERROR saltlite.test it failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert rest[-1] == "  in two lines"
    assert all(line.startswith("  ") for line in rest)


def test_sigusr1_writes_where_each_thread_is_and_the_process_goes_on(log_file: Path) -> None:
    leave = threading.Event()
    waiting = threading.Thread(target=leave.wait, name="the-other-one")
    waiting.start()
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        leave.set()
        waiting.join()
    first, *rest = log_file.read_text().splitlines()
    assert first.endswith(f"SIGUSR1: the stacks of process {os.getpid()}")
    text = "\n".join(rest)
    assert "  Thread the-other-one:\n" in text
    assert "in test_sigusr1_writes_where_each_thread_is_and_the_process_goes_on" in text


def test_lines_below_the_level_are_left_out(log_file: Path) -> None:
    log.debug("unseen")
    log.info("seen")
    assert "unseen" not in log_file.read_text()


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [("trace", 5, 4), ("profile", 15, 14), ("all", 1, None), ("garbage", 1, None), ("quiet", 1000, 50)],
)
def test_the_level_names_of_salt_are_known(tmp_path: Path, name: str, shown: int, hidden: int | None) -> None:
    path = tmp_path / "log"
    configure(name, log_file=str(path), stderr_fd=None)
    log.log(shown, "shown")
    if hidden is not None:
        log.log(hidden, "hidden")
    assert path.read_text().count("\n") == 1
    assert "shown" in path.read_text()


def test_an_unknown_level_is_a_sentence() -> None:
    with pytest.raises(StartupError, match="log_level 'loud' is not known: use one of quiet, critical"):
        configure("loud")


def test_a_repeated_line_is_written_once_and_its_count_when_the_log_closes(log_file: Path) -> None:
    for _ in range(4):
        log.warning("disk is slow")
    log.warning("another")
    configure("info", stderr_fd=None)
    texts = [line.split(" ", 3)[3] for line in log_file.read_text().splitlines()]
    assert texts == ["disk is slow", "another", "disk is slow (repeated 3 times)"]


def line(text: str) -> logs.LogLine:
    return logs.LogLine(logging.INFO, "t", text)


def test_repeats_are_reported_when_the_window_is_over() -> None:
    repeats, slow = Repeats(), line("disk is slow")
    assert repeats.see(slow, 0.0) == (True, [])
    assert repeats.see(slow, 10.0) == (False, [])
    assert repeats.see(slow, 29.9) == (False, [])
    assert repeats.see(slow, 30.0) == (True, [(slow, 2)])
    assert repeats.see(slow, 31.0) == (False, [])


def test_the_oldest_line_is_forgotten_when_too_many_are_remembered() -> None:
    repeats, first = Repeats(), line("first")
    repeats.see(first, 0.0)
    repeats.see(first, 0.0)
    for number in range(logs.REPEATS_KEPT - 1):
        assert repeats.see(line(f"line {number}"), 1.0) == (True, [])
    assert repeats.see(line("one more"), 1.0) == (True, [(first, 1)])
    assert repeats.see(first, 1.0)[0]


def test_a_renamed_log_file_is_followed_by_a_new_one(log_file: Path) -> None:
    log.info("before")
    log_file.rename(log_file.with_suffix(".1"))
    log.info("after")
    assert "before" in log_file.with_suffix(".1").read_text()
    assert "after" in log_file.read_text()
    assert "before" not in log_file.read_text()


def test_a_log_file_is_not_for_strangers(log_file: Path) -> None:
    assert log_file.stat().st_mode & 0o007 == 0


def test_a_log_file_in_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match=r"cannot be written .*set `log_file`"):
        configure("info", log_file=str(tmp_path / "file" / "log"))


def test_the_text_that_somebody_made_of_a_traceback_is_shown_in_its_place(log_file: Path) -> None:
    record = logging.LogRecord("saltlite.test", logging.ERROR, "f", 1, "it failed", (), None)
    record.exc_text = "Traceback:\n  with ***"
    log.handle(record)
    assert log_file.read_text().splitlines()[1:] == ["  Traceback:", "    with ***"]


def test_a_log_of_json_has_an_object_on_each_line(tmp_path: Path) -> None:
    configure("info", log_file=str(tmp_path / "log"), stderr_fd=None, form="json")
    with log_context(jid="20260101000000000000", id="web1", time="forged"):
        log.warning('say "%s"', "a\nb")
    try:
        fail("x")
    except ValueError:
        log.exception("worse")
    first, second = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert re.fullmatch(STAMP, first.pop("time"))
    assert first == {
        "level": "warning", "logger": "saltlite.test", "jid": "20260101000000000000", "id": "web1",
        "message": 'say "a\\nb"',
    }  # fmt: skip
    assert second["traceback"].splitlines()[-1] == "ValueError: x"


def test_the_journal_gets_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    found = os.fstat(writing)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    monkeypatch.setattr(logs, "JOURNAL_SOCKET", str(tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        configure("info", stderr_fd=writing)
        with log_context(jid="1", id="web1"):
            log.warning("slow")
        fields = journal.recv(4096).decode().splitlines()
        try:
            fail("x")
        except ValueError:
            log.exception("worse")
        data = journal.recv(4096)
    os.close(reading)
    os.close(writing)
    assert {"PRIORITY=4", "SALTLITE_JID=1", "SALTLITE_ID=web1", "SALTLITE_LOGGER=saltlite.test"} < set(fields)
    assert fields[-1] == "MESSAGE=slow"
    # A value of several lines has its length in front of it.
    value = data.partition(b"MESSAGE\n")[2]
    size = int.from_bytes(value[:8], "little")
    assert value[8:][:size].decode().splitlines()[-1] == "ValueError: x"
    assert value[8 + size :] == b"\n"


def test_the_journal_gets_a_priority_on_every_line_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "JOURNAL_SOCKET", "/nonexistent")
    reading, writing = os.pipe()
    found = os.fstat(writing)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    configure("debug", stderr_fd=writing)
    log.error("bad")
    log.debug("detail")
    try:
        fail("x")
    except ValueError:
        log.critical("worse", exc_info=True)
    lines = os.read(reading, 65536).decode().splitlines()
    os.close(reading)
    os.close(writing)
    assert lines[:2] == ["<3>ERROR saltlite.test bad", "<7>DEBUG saltlite.test detail"]
    assert len(lines) > 4
    assert all(line.startswith("<2>") for line in lines[2:])


def test_a_plain_stderr_gets_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")
    configure("info", stderr_fd=writing)
    log.info("hello")
    text = os.read(reading, 65536).decode()
    os.close(reading)
    os.close(writing)
    assert re.fullmatch(rf"{STAMP} INFO saltlite\.test hello\n", text)


def test_lines_that_could_not_be_written_are_counted_in_the_next_one_that_can(tmp_path: Path) -> None:
    path = tmp_path / "log"
    sink = FileSink(str(path))
    handler = LineHandler([sink])
    writable, sink.fd = sink.fd, os.open("/dev/full", os.O_WRONLY)
    handler.emit(record("one"))
    handler.emit(record("two"))
    os.close(sink.fd)
    sink.fd = writable
    handler.emit(record("three"))
    handler.close()
    texts = [line.split(" ", 1)[1] for line in path.read_text().splitlines()]
    assert texts == [
        "ERROR saltlite.platform.logs 2 log lines could not be written before this one",
        "WARNING saltlite.test three",
    ]


def test_a_wrong_format_string_does_not_stop_the_daemon(tmp_path: Path) -> None:
    handler = LineHandler([FileSink(str(tmp_path / "log"))])
    handler.emit(record("%d apples", "many"))
    handler.close()
    text = (tmp_path / "log").read_text()
    assert "a log line of caller.py:7 has a bad format" in text


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("saltlite.test", logging.WARNING, "caller.py", 7, message, args, None)
