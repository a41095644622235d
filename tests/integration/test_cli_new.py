"""`saltlite new`: the files that it writes load, have no fault, and pass their test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.main import main
from saltlite.cli.verbs.new import FILES

KINDS = sorted(FILES)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_passes_its_test_and_has_no_fault(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", kind, "shelf", "--dir", str(tmp_path), "--out", "json"]) == exitcodes.OK
    files = json.loads(capsys.readouterr().out)["files"]
    assert sorted(files) == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert "NAME" not in "".join(Path(path).read_text() for path in files)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "daemons")])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", files[-1]],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert main(["lint", *(path for path in files if "/tests/" not in path)]) == exitcodes.OK
    assert ": 0 errors, 0 warnings, 0 notes" in capsys.readouterr().out


def test_the_next_steps_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "module", "shelf", "--dir", str(tmp_path)])
    shown = capsys.readouterr().out
    assert f"test it: pytest {tmp_path}/tests/test_module_shelf.py" in shown
    assert "saltlite '*' saltutil.sync_modules" in shown


def test_no_file_is_overwritten_and_none_is_written_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_modules").mkdir()
    (tmp_path / "_modules/shelf.py").write_text("mine")
    assert main(["new", "module", "shelf", "--dir", str(tmp_path)]) == exitcodes.USAGE
    assert "shelf.py exists: nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*.py")] == ["shelf.py"]
    assert (tmp_path / "_modules/shelf.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "say a kind (module, resource, executor, driver, runner) and a name"),
        (["module"], "and a name"),
        (["state", "shelf"], "say a kind"),
        (["module", "Shelf"], "'Shelf' is not a valid plug-in name"),
        (["module", "../shelf"], "is not a valid plug-in name"),
        (["module", "a" * 41], "is not a valid plug-in name"),
    ],
)
def test_what_is_no_plug_in_is_refused_with_a_sentence(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *words, "--dir", str(tmp_path)]) == exitcodes.USAGE
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["new", "runner", "shelf", "--dir", str(tmp_path / "file")]) == exitcodes.USAGE
    assert "cannot be written: Not a directory" in capsys.readouterr().err
