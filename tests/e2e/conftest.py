"""Fleets for tests: one that the whole run shares and nobody breaks, and fresh ones for the others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A master and the minions `a` and `b`, up. Tests leave it as it was."""
    fleet = Fleet(tmp_path_factory.mktemp("shared"))
    try:
        fleet.start_master()
        fleet.join("a", "b")
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of the test's own, with nothing started."""
    fleet = Fleet(tmp_path)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user may enter. pytest's are root's only, and all that run at once have the one above them
    in common: who opened it for a while would close it to others."""
    with tempfile.TemporaryDirectory(prefix="saltlite-e2e-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        for fleet in Fleet.running:
            report.sections.append(("daemons of the fleet", fleet.logs()))
    return report  # type: ignore[return-value]
