"""What every test run knows, whichever folder it starts from."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import resource
import signal
import stat
import subprocess
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # the package ships no type information
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # as above
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # as above

from saltlite.loader import index
from saltlite.loader.index import ModuleFile
from saltlite.loader.search_path import SHIPPED

hypothesis.settings.register_profile("no-deadline", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("no-deadline")  # how long an example takes depends on what else the machine does

ROOT = Path(__file__).parent.parent
FLEETS = ("tests/e2e/", "tests/faults/", "tests/integration/", "tests/golden/", "tests/simulation/", "tests/fuzz/")
"""Folders whose tests start processes or take long: they run after all others."""
LONGEST = (
    "tests/e2e/test_e2e_console.py",
    "tests/faults/test_faults_points.py",
    "tests/simulation/test_simulation_seeds.py",
    "tests/e2e/test_e2e_executor_ends.py",
    "tests/simulation/test_simulation_masters.py",
    "tests/e2e/test_e2e_doctor.py",
    "tests/e2e/test_e2e_rights_matrix.py",
    "tests/integration/test_postgres_store.py",
    "tests/integration/test_postgres_connection.py",
    "tests/integration/test_module_pip.py",
    "tests/integration/test_cloud_deploy.py",
    "tests/e2e/test_e2e_startup.py",
    "tests/simulation/test_simulation_mutants.py",
    "tests/integration/test_cloud_ec2.py",
    "tests/integration/test_packages.py",
    "tests/e2e/test_e2e_api_schema.py",
    "tests/e2e/test_e2e_install.py",
    "tests/e2e/test_e2e_several_masters_faults.py",
    "tests/e2e/test_e2e_cloud_saltify.py",
)
"""Of these, the files that take longest, by a ledger. They begin first: else three workers wait at the end for one."""
CLONE_NEWNET = 0x40000000
"""Of <sched.h>."""
SLOWEST = 50
"""Tests that the ledger names with their duration."""


def _read_shipped_files_once() -> None:
    """The index of what ships is where hundreds of tests begin, and what 20 files of tests build while they are
    collected: each of its files is read once in a process."""
    read, known = index._scanned, dict[ModuleFile, ModuleFile]()

    def remembered(blank: ModuleFile) -> ModuleFile:
        if blank.layer != SHIPPED:
            return read(blank)
        if blank not in known:
            known[blank] = read(blank)
        return known[blank]

    index._scanned = remembered


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files instead of comparing")
    # To be given as --ledger=FILE: pytest takes an existing file behind a word that it does not know yet for a test.
    parser.addoption("--ledger", metavar="FILE", help="write durations, failures, skips and quarantined tests as JSON")


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background ignores SIGINT, and hands that on to every command that it tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTEST_ADDOPTS", None)  # for this run only, not for those that tests start
    # Each of the thousands of processes that tests start would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    gc.disable()  # until all is collected
    _read_shipped_files_once()
    ledger = config.getoption("--ledger")
    if ledger and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ledger(Path(ledger)))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the first test: a checkout that other users cannot reach is refused, because as root tests become other
    users; and what a killed run left of machines is removed, because it would be in the way of new ones."""
    hidden = [folder for folder in (ROOT, *ROOT.parents) if not folder.stat().st_mode & stat.S_IXOTH]
    if os.geteuid() == 0 and hidden:
        pytest.exit(f"tests run programs of {ROOT} as other users, who cannot enter {hidden[0]}: clone elsewhere", 4)
    if not hasattr(session.config, "workerinput") and any(name.startswith("slm") for name in _interfaces()):
        from tests.support.machine import end_stale_machines

        end_stale_machines()


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not go through 300 MB again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _interfaces() -> list[str]:
    return os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []


class Cpu:
    """CPU time of this process and of the children that it has waited for."""

    def __init__(self) -> None:
        self._used_s = 0.0

    def since_last_call(self) -> float:
        """Seconds since the last call."""
        before = self._used_s
        usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self._used_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return self._used_s - before


CPU = Cpu()
CPU_S = "cpu_s"
"""The property of a report that holds the CPU time of one phase of a test."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test marked `quarantine(cause)` runs, and its failure is reported with the cause, but does not fail the run."""
    report = yield
    report.user_properties.append((CPU_S, CPU.since_last_call()))
    mark = item.get_closest_marker("quarantine")
    if mark is not None:
        (cause,) = mark.args  # a mark without a cause is an error
        if report.failed:
            report.outcome, report.wasxfail = "skipped", f"quarantined: {cause}"
    return report


class Ledger:
    """Durations and outcomes of a run, written as one JSON document when the run ends.

    Each duration stands beside its CPU time, which says the same on a busy machine as on a quiet one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.time()
        self._tests: defaultdict[str, Spent] = defaultdict(Spent)
        self._named: dict[str, dict[str, str]] = {"failed": {}, "quarantined": {}, "skipped": {}}
        self._passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        cpu_seconds = sum(value for name, value in report.user_properties if name == CPU_S and isinstance(value, float))
        self._tests[report.nodeid].add(report.duration, cpu_seconds)
        self._passed += report.when == "call" and report.passed
        if report.failed:
            self._named["failed"][report.nodeid] = f"{report.when}: {report.longreprtext[-1000:]}"
        elif report.skipped and getattr(report, "wasxfail", "").startswith("quarantined"):
            self._named["quarantined"][report.nodeid] = report.wasxfail
        elif report.skipped:
            self._named["skipped"][report.nodeid] = str(report.longrepr)[-300:]

    def pytest_sessionfinish(self) -> None:
        """Write the document."""
        files: defaultdict[str, Spent] = defaultdict(Spent)
        for nodeid, spent in self._tests.items():
            files[nodeid.split("::", 1)[0]].add(spent.seconds, spent.cpu_seconds)
        document = {
            "began": self._began,
            "seconds": round(time.time() - self._began, 1),
            "cpu_seconds": round(sum(spent.cpu_seconds for spent in files.values()), 1),
            "load": os.getloadavg(),
            "passed": self._passed,
            **self._named,
            "slowest_tests": _longest_first(self._tests, SLOWEST),
            "files": _longest_first(files),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


@dataclass(slots=True)
class Spent:
    """Time that tests took."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, seconds: float, cpu_seconds: float) -> None:
        """Count one phase or one test more."""
        self.seconds += seconds
        self.cpu_seconds += cpu_seconds


def _longest_first(spent: dict[str, Spent], limit: int | None = None) -> dict[str, dict[str, float]]:
    longest = sorted(spent, key=lambda name: spent[name].seconds, reverse=True)[:limit]
    return {
        name: {"seconds": round(spent[name].seconds, 2), "cpu_seconds": round(spent[name].cpu_seconds, 2)}
        for name in longest
    }


class FleetsLast(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """`pytest -n 4`: unit tests first, then what starts daemons, file by file, the longest before the others.

    A run that fails early fails in its first minutes. Files with fleets wait beside each other for half of their time:
    two workers a processor keep it busy.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        queue = self.workqueue
        longest = next((path for path in LONGEST if path in queue), next(iter(queue)))
        chosen = next((path for path in queue if not path.startswith(FLEETS)), longest)
        unit = self.assigned_work[node][chosen] = queue.pop(chosen)
        # xdist looks for each test from the first one of 20,000 on. All workers have collected the same list.
        node.send_runtest_some([self._places[nodeid] for nodeid in unit])

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget the test: xdist counts all that a worker has and had with each test that ends."""
        nodeid = self.registered_collections[node][item_index]
        path = self._split_scope(nodeid)
        units = self.assigned_work[node]
        del units[path][nodeid]
        if not units[path]:
            del units[path]
        self._reschedule(node)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self.collection or ())}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FleetsLast:
    return FleetsLast(config, log)


@pytest.fixture(autouse=True)
def same_log_for_everyone() -> Iterator[None]:
    """Commands that run in the test's own process set up the log as if it were theirs: put it back."""
    root = logging.getLogger()
    level, handlers = root.level, {handler: list(handler.filters) for handler in root.handlers}
    yield
    root.setLevel(level)
    for handler in list(root.handlers):
        if handler in handlers:
            handler.filters[:] = handlers[handler]
        else:
            root.removeHandler(handler)
            handler.close()


@pytest.fixture(scope="module")
def own_network() -> Iterator[None]:
    """A network namespace with a loopback device of its own, for tests that add interfaces to it.

    A browser of another test drops every request when an address appears on its host, as when somebody plugs in a
    cable. What a test starts here is in the namespace, too. It needs root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "no network namespace can be made")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own, as pytest's, but with a name that leaves room below it.

    Linux allows 107 bytes for the path of a Unix socket. pytest names the folder after the test, and `pytest -n`
    puts a folder more above it: what is left would not do for the default `sock_dir` below a `root_dir`.
    """
    return tmp_path_factory.mktemp("t")
