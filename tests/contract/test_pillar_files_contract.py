"""What the compiler of pillar may expect of files, on disk and in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import RenderError
from saltlite.pillar.compiler import MemoryPillarFiles, PillarFiles
from saltlite.pillar.files import DiskPillarFiles

Make = Callable[[Mapping[str, Mapping[str, Any]]], PillarFiles]


@pytest.fixture(params=["memory", "disk"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def on_disk(files: Mapping[str, Mapping[str, Any]]) -> PillarFiles:
        for env, paths in files.items():
            for path, data in paths.items():
                (tmp_path / env / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / env / path).write_text(json.dumps(data))
        return DiskPillarFiles({env: [str(tmp_path / env)] for env in files})

    return MemoryPillarFiles if request.param == "memory" else on_disk


def test_environments_keep_their_order(make: Make) -> None:
    assert list(make({"dev": {"a.sls": 1}, "base": {"a.sls": 1}}).envs()) == ["dev", "base"]


def test_files_are_found_by_their_path_in_their_environment(make: Make) -> None:
    files = make({"base": {"a/b.sls": {"x": 1}, "c.sls": {}}, "dev": {"d.sls": {}}})
    assert files.has("base", "a/b.sls")
    assert not files.has("base", "d.sls")
    assert not files.has("prod", "c.sls")
    assert list(files.names("base")) == ["a/b.sls", "c.sls"]
    assert files.render("base", "a/b.sls", {}) == {"x": 1}


def test_a_file_that_is_not_there_is_an_error_with_its_name(make: Make) -> None:
    with pytest.raises(RenderError, match=r"gone\.sls"):
        make({"base": {}}).render("base", "gone.sls", {})


def test_what_is_done_with_the_data_of_a_file_does_not_change_the_file(make: Make) -> None:
    files = make({"base": {"a.sls": {"list": [1]}}})
    files.render("base", "a.sls", {})["list"].append(2)
    assert files.render("base", "a.sls", {}) == {"list": [1]}
