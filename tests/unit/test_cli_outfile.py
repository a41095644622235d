"""`--out-file`: the file is whole, or it is what it was before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from saltlite.cli.out_file import OutFile
from saltlite.errors import SaltliteError


def interrupted(path: str) -> None:
    """Ctrl-C in the middle of the output."""
    with OutFile(path) as stream:
        stream.write("half")
        raise KeyboardInterrupt


def test_the_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with OutFile(str(path)) as stream:
        stream.write("é\n")
        stream.flush()
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("before", [None, "old"])
def test_an_interrupted_command_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "out"
    if before is not None:
        path.write_text(before)
    with pytest.raises(KeyboardInterrupt):
        interrupted(str(path))
    assert [(name, (tmp_path / name).read_text()) for name in os.listdir(tmp_path)] == (
        [] if before is None else [("out", "old")]
    )


def test_a_replaced_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    with OutFile(str(link)) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("new", 0o640)


def test_what_is_no_file_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with OutFile(str(path)) as stream:
        stream.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_full_disk_is_one_sentence() -> None:
    with (
        pytest.raises(SaltliteError, match="--out-file /dev/full cannot be written: No space left"),
        OutFile("/dev/full") as stream,
    ):
        stream.write("x")


def test_a_file_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SaltliteError, match="cannot be written: No such file or directory"):
        OutFile(str(tmp_path / "none" / "out")).__enter__()


@pytest.mark.skipif(
    os.geteuid() != 0 or Path("/proc/sys/fs/protected_symlinks").read_text().strip() != "1",
    reason="only root can leave a link of somebody else, and the kernel has to refuse it",
)
def test_a_link_that_somebody_else_left_in_a_shared_folder_is_not_followed(tmp_path: Path) -> None:
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_text("precious")
    (shared / "out").symlink_to(victim)
    os.lchown(shared / "out", 65534, 65534)
    with pytest.raises(SaltliteError, match="Permission denied"), OutFile(str(shared / "out")):
        pytest.fail("it was opened")
    assert victim.read_text() == "precious"
