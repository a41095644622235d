"""From which folders code is run with the rights of the person at the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saltlite.errors import RefusedError
from saltlite.platform.privileges import require_trusted


def test_a_folder_of_ones_own_and_one_that_is_not_there_are_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    require_trusted([str(tmp_path), str(tmp_path / "later")])


@pytest.mark.parametrize("mode", [0o757, 0o777, 0o1777])
def test_a_folder_that_anybody_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(RefusedError, match="others may write to"):
        require_trusted([str(tmp_path)])


def test_a_folder_in_it_counts_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "runners").mkdir()
    (tmp_path / "runners").chmod(0o777)
    with pytest.raises(RefusedError, match=r"others may write to .+/runners"):
        require_trusted([str(tmp_path)])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(RefusedError, match="belongs to user 65534"):
        require_trusted([str(tmp_path)])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to a group that is not its own")
def test_a_folder_that_a_foreign_group_may_write_to_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 0, 65534)
    tmp_path.chmod(0o775)
    with pytest.raises(RefusedError, match="others may write to"):
        require_trusted([str(tmp_path)])
