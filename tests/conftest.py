"""What every test run knows, whichever folder it starts from."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # the package ships no type information
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # as above
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # as above

from saltlite.loader import index
from saltlite.loader.index import ModuleFile
from saltlite.loader.search_path import SHIPPED

FLEETS = ("tests/e2e/", "tests/faults/", "tests/integration/test_module_pkg.py")
"""What starts daemons, and what takes the lock of this machine's package database, as some of them do."""


@pytest.fixture(scope="session", autouse=True)
def shipped_files_are_read_once() -> Iterator[None]:
    """The index of what ships is where hundreds of tests begin: each of its files is read once in a process."""
    read, known = index._scanned, dict[ModuleFile, ModuleFile]()

    def remembered(blank: ModuleFile) -> ModuleFile:
        if blank.layer != SHIPPED:
            return read(blank)
        if blank not in known:
            known[blank] = read(blank)
        return known[blank]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_scanned", remembered)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background ignores SIGINT, and hands that on to every command that it tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class FleetsApart(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """`pytest -n 2`: what starts daemons in one process, everything else beside it, file by file.

    Fleets wait more than they compute, so one of them has a processor almost for itself while the other process
    computes. When that has nothing else left it takes fleets too, the last ones first.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        fleets = [path for path in self.workqueue if path.startswith(FLEETS)]
        others = [path for path in self.workqueue if not path.startswith(FLEETS)]
        has_fleets = node is self.nodes[0]
        wanted = (fleets or others)[0] if has_fleets else (others or fleets[::-1])[0]
        self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FleetsApart:
    return FleetsApart(config, log)


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
