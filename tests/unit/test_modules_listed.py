"""The execution modules that the documents name are those that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import saltlite
from saltlite.loader.index import build_index
from saltlite.loader.search_path import search_layers

PACKAGE = Path(saltlite.__file__).parent
SHIPPED = sorted({name for file in build_index(search_layers({})).files for name in file.claims})


def between(path: Path, start: str, end: str) -> str:
    return path.read_text().partition(start)[2].partition(end)[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            between(PACKAGE / "docs" / "modules.md", "## What ships\n", "\n## ").partition("\n\n|")[2], id="docs"
        ),
        pytest.param(between(PACKAGE / "CHANGELOG.md", "- Execution modules with", "\n- "), id="CHANGELOG"),
    ],
)
def test_every_module_that_ships_is_named_and_no_other(text: str) -> None:
    assert sorted(re.findall(r"`([a-z0-9_]+)`", text)) == SHIPPED
