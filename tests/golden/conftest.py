"""Texts that people and scripts see, compared with files. `pytest tests/golden --rewrite-golden` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with `NAME.txt` beside the test."""
    folder = Path(request.path).parent

    def compare(name: str, text: str) -> None:
        path = folder / f"{name}.txt"
        if request.config.getoption("--rewrite-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest tests/golden --rewrite-golden and look at it"
        assert text == path.read_text(encoding="utf-8")

    return compare
