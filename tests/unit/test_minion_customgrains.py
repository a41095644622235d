"""Grains of people's own: all functions of all files, each at its own risk."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from saltlite.minion import custom_grains as customgrains
from saltlite.minion.custom_grains import custom_grains


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "grains").mkdir()
    return tmp_path / "grains"


def found(folder: Path, **known: Any) -> dict[str, Any]:
    grains: dict[str, Any] = {}
    for piece in custom_grains({"extension_modules": str(folder.parent), "id": "web1"}, known):
        grains.update(piece)
    return grains


def test_every_function_gives_its_grains_and_sees_those_before_it(folder: Path) -> None:
    (folder / "a.py").write_text(
        "def one():\n    return {'one': __grains__['kernel'], 'x': 1}\n\ndef _no():\n    return {'no': 1}\n"
    )
    (folder / "b.py").write_text(
        "def two(grains):\n    return {'two': grains['one'] + '2', 'x': __grains__['x'] + 1}\n"
    )
    assert found(folder, kernel="Linux") == {"one": "Linux", "two": "Linux2", "x": 2}


def test_without_files_of_their_own_nothing_is_found(folder: Path) -> None:
    assert found(folder, kernel="Linux") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def bad():\n    raise ValueError('no rack')\n", "bad.py:2"),
        ("def bad():\n    raise SystemExit(3)\n", "bad.py:2"),
        ("def bad():\n    return 7\n", "returned int"),
        ("def bad(:\n", "bad.py"),
        ("import no_such_library\n\ndef bad():\n    return {}\n", "no_such_library"),
        ("def bad():\n    while True:\n        pass\n", "did not end"),
        (
            "def bad():\n    while True:\n        try:\n            while True: pass\n        except Exception: pass\n",
            "did not end",
        ),
    ],
)
def test_a_bad_grain_costs_itself_and_is_logged_with_its_place(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr(customgrains, "FUNCTION_S", 0.05)
    (folder / "bad.py").write_text(text)
    (folder / "good.py").write_text("def good():\n    return {'rack': 'r7'}\n")
    before = signal.getsignal(signal.SIGALRM)
    with caplog.at_level(logging.WARNING):
        assert found(folder) == {"rack": "r7"}
    assert said in caplog.text
    assert signal.getsignal(signal.SIGALRM) is before
