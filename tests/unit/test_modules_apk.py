"""`pkg` of Alpine Linux: one call a file, with the command lines that it has to make and what apk prints for them.

No distribution that these tests run on has apk, so what it prints was put together by hand: from its sources, its
documentation, and sessions that people have published.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _packages

INDEX = build_index(search_layers({}))
GRAINS = {"os": "Alpine", "os_family": "Alpine", "osarch": "x86_64"}
CASES = sorted((Path(__file__).parents[1] / "data/apk").glob("*.json"))


class Scripted:
    """Answers each command line with what stands in the file for it, in that order."""

    def __init__(self, root: Path, case: Mapping[str, Any]) -> None:
        self.root = root
        self.database = root / case.get("place", "lib/apk/db") / "installed"
        self.runs = list(case.get("runs", ()))
        self.database.parent.mkdir(parents=True)
        self.database.write_text("\n".join(case["installed"]))

    def __call__(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        now = self.runs.pop(0)
        rooted = ["--root", str(self.root)] if now["argv"][0] != "version" else []
        assert argv == ["apk", "--no-progress", *rooted, *now["argv"]]
        if "installed" in now:
            self.database.write_text("\n".join(now["installed"]))
        said = ["\n".join(now.get(stream, ())) for stream in ("stdout", "stderr")]
        return subprocess.CompletedProcess(argv, now.get("code", 0), *said)


@pytest.fixture(autouse=True)
def apk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name, so that the module loads; it fails when it is run."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apk").write_text("#!/bin/sh\necho 'nobody has to run this' >&2\nexit 1\n")
    (tmp_path / "bin/apk").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call it with everything that its interface promises held against what it returns."""
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_call_runs_what_it_has_to_and_gives_what_follows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = json.loads(path.read_text())
    scripted = Scripted(tmp_path / "root", case)
    monkeypatch.setattr(_packages, "run", scripted)
    kwargs = dict(case.get("kwargs", {}))
    if case.get("rooted", True):
        kwargs["root"] = str(tmp_path / "root")
    outcome = run(case["fun"], *case.get("args", ()), **kwargs)
    assert (outcome.value, outcome.retcode) == (case["value"], case.get("retcode", 0))
    assert scripted.runs == []


@pytest.mark.parametrize("name", ["--root=/", "-U", "a b", "a;id", "a\nb", "a\0b", "ä", "a'b", "../x", "*"])
@pytest.mark.parametrize("fun", ["install", "remove", "purge", "upgrade", "latest_version", "file_dict"])
def test_what_is_no_name_is_refused_before_anything_runs(fun: str, name: str) -> None:
    outcome = run(f"pkg.{fun}", name)
    assert (outcome.retcode, "is not the name of a package" in outcome.value) == (1, True)


@pytest.mark.parametrize("place", ["-x", "relative", "/nowhere/at/all", "/a\nb"])
def test_what_is_no_root_is_refused(place: str) -> None:
    assert run("pkg.list_pkgs", root=place).retcode == 1


def test_a_missing_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    said = run("pkg.list_pkgs", root=str(tmp_path)).value
    assert (
        said == f"ERROR: The apk database cannot be read: No such file or directory ({tmp_path}/lib/apk/db/installed)."
    )


def test_the_provider_keeps_to_its_interface() -> None:
    report = run("smi.conformance", "pkg").value["pkg"]
    assert (report["provider"], report["errors"], report["warnings"]) == ("apkpkg", 0, 0)
    assert {name for name, one in report["functions"].items() if one["state"] == "not_implemented"} == set()
