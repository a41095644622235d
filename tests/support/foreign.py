"""Files that were written for Salt, which `.ci/foreign` downloads. They are not part of saltlite."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / ".ci" / "out" / "foreign"


def folder_of(kind: str) -> Path:
    """The folder of the `clouds` or `modules`; without it, the test is skipped."""
    folder = _FOLDER / kind
    if not folder.is_dir():
        pytest.skip("files of Salt's are not here: .ci/foreign downloads them")
    return folder
