"""Module files that misbehave while they are loaded: the reason is told, and the others work."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader import failure
from saltlite.loader.call import call
from saltlite.loader.index import build_index
from tests.support.modules import loader_over, write

GOOD = {"good": "def f(): return 1"}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that a test can wait for, and that a busy machine does not reach before the first line of the file."""
    assert failure.LOAD_SECONDS == 30
    monkeypatch.setattr(failure, "LOAD_SECONDS", 0.5)
    monkeypatch.setattr(failure, "_REPEAT_SECONDS", 0.1)


def said(folder: Path, fun: str = "m.f") -> Any:
    loader = loader_over(write(folder, GOOD))
    outcome = call(loader, fun, (), {})
    assert call(loader, "good.f", (), {}).value == 1
    return outcome.value


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("while True: pass", "'m' could not be imported: its body: it did not end within 0.5 s (m.py, line 1)"),
        (
            "import time\ntime.sleep(60)",
            "'m' could not be imported: its body: it did not end within 0.5 s (m.py, line 2)",
        ),
        (
            "while True:\n    try:\n        while True: pass\n    except Exception: pass",
            "'m' could not be imported: its body: it did not end within 0.5 s (m.py, line 3)",
        ),
        (
            "def __init__(opts):\n    while True: pass",
            "'m' was not loaded: __init__: it did not end within 0.5 s (m.py, line 2)",
        ),
        (
            "def __virtual__():\n    while True: pass",
            (
                "'m' __virtual__ returned False: Exception raised when processing __virtual__: "
                "it did not end within 0.5 s (m.py, line 2)"
            ),
        ),
    ],
)
def test_what_never_ends_is_ended(tmp_path: Path, source: str, text: str) -> None:
    write(tmp_path, {"m": source})
    assert said(tmp_path) == text


@pytest.mark.usefixtures("short")
def test_a_body_that_swallows_the_alarm_once_hears_it_again(tmp_path: Path) -> None:
    write(tmp_path, {"m": "import time\ntry:\n    time.sleep(60)\nexcept BaseException: pass\ntime.sleep(60)"})
    assert said(tmp_path).endswith("(m.py, line 5)")


@pytest.mark.usefixtures("short")
def test_a_file_that_another_one_asks_for_has_its_own_time(tmp_path: Path) -> None:
    write(tmp_path, {
        "m": "LOADED = 'slow.f' in __salt__\ndef f(): return LOADED",
        "slow": "while True: pass",
    })  # fmt: skip
    assert said(tmp_path) is False


def test_the_alarm_of_somebody_else_is_left_as_it_was(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        assert said(write(tmp_path, {"m": "def f(): return 2"})) == 2
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 490
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_modules_can_be_loaded_in_a_thread(tmp_path: Path) -> None:
    loader, values = loader_over(write(tmp_path, GOOD)), list[Any]()
    thread = threading.Thread(target=lambda: values.append(loader["good.f"]()))
    thread.start()
    thread.join(60)
    assert values == [1]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("raise SystemExit(3)", "'m' could not be imported: SystemExit: 3 (m.py, line 1)"),
        ("raise GeneratorExit", "'m' could not be imported: GeneratorExit:  (m.py, line 1)"),
        (
            "class Own(BaseException): pass\nraise Own('x')",
            "'m' could not be imported: Own: x (m.py, line 2)",
        ),
        (
            "class Own(Exception):\n    def __str__(self): raise ValueError\nraise Own",
            "'m' could not be imported: Own: (its text cannot be made) (m.py, line 3)",
        ),
    ],
)
def test_whatever_a_body_raises_only_omits_it(tmp_path: Path, source: str, text: str) -> None:
    write(tmp_path, {"m": source})
    assert said(tmp_path) == text


def test_bytes_that_are_not_utf_8_are_said(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_bytes(b"x = '\xff\xfe'\ndef f(): return x\n")
    assert said(tmp_path).startswith("'m' could not be imported: SyntaxError: (unicode error) 'utf-8' codec")


def test_a_file_may_declare_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_bytes(b"# -*- coding: latin-1 -*-\ndef f(): return '\xe4'\n")
    assert said(tmp_path) == "ä"


def test_a_syntax_error_is_logged_once_however_often_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"m": "def broken(:"})
    loader = loader_over(write(tmp_path, GOOD))
    index = build_index(loader.index.layers, loader.index)
    for _ in range(3):
        call(loader, "m.f", (), {})
    assert index is loader.index
    assert len([record for record in caplog.records if "'m' could not be imported" in record.message]) == 1


def test_a_fault_that_was_mended_is_gone(tmp_path: Path) -> None:
    index = loader_over(write(tmp_path, {"m": "def broken(:"})).index
    write(tmp_path, {"m": "def f(): return 'mended'"})
    assert build_index(index.layers, index).function_names() == ["m.f"]


def test_loggers_of_modules_know_salts_levels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = """
        import logging
        log = logging.getLogger("a_module")
        for level in ("garbage", "trace", "profile"):
            getattr(log, level)("said at %s", level)
        def f(): return 1
        """
    write(tmp_path, {"m": source})
    with caplog.at_level(5, logger="a_module"):
        assert said(tmp_path) == 1
    assert [(record.levelno, record.getMessage(), record.filename) for record in caplog.records] == [
        (5, "said at trace", "m.py"),
        (15, "said at profile", "m.py"),
    ]
    assert logging.getLogger("a_module").level in (0, logging.NOTSET)
