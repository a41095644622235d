"""What every test run knows, whichever folder it starts from."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS_OF_FLEETS = frozenset({"e2e", "faults"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background ignores SIGINT, and hands that on to every command that it tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # `pytest -n 2` runs what starts daemons in one process, one after the other, and everything else beside it, file by
    # file: two fleets at once would have to share processors with what the tests of the one or the other wait for.
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        group = "fleets" if folder in FOLDERS_OF_FLEETS else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True)
def same_log_for_everyone() -> Iterator[None]:
    """Commands that run in the test's own process set up the log as if it were theirs: put it back."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own, as pytest's, but with a name that leaves room below it.

    Linux allows 107 bytes for the path of a Unix socket. pytest names the folder after the test, and `pytest -n`
    puts a folder more above it: what is left would not do for the default `sock_dir` below a `root_dir`.
    """
    return tmp_path_factory.mktemp("t")
