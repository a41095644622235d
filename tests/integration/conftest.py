"""Fixtures of several files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.platform import logs
from tests.support.deploy_target import program, sshd_of_targets, target
from tests.support.postgres_store import dsn, opened, server
from tests.support.resource_server import make_rig

__all__ = ["dsn", "make_rig", "opened", "program", "server", "sshd_of_targets", "target"]


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """The log of this process, from the level info on."""
    logs.configure("info", log_file=str(tmp_path / "log"), stderr_fd=None)
    yield tmp_path / "log"
    logs.configure("quiet", stderr_fd=None)
