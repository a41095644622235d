"""Salt's own modules through master and minion, with a stand-in for Salt that is installed beside saltlite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet
from tests.support.modules import PACKAGE, write

pytestmark = pytest.mark.e2e

WORDS = "said while it is loaded"

MODULES = {
    "salt/modules/zz": f"""
        import os
        from salt.exceptions import CommandExecutionError
        print("{WORDS}")
        def where(): return os.getpid(), os.getppid(), __opts__["hash_type"], __grains__["zz"]
        def fails(why): raise CommandExecutionError(why)
        """,
    "salt/modules/broken": "import sys\nsys.exit(3)",
    "salt/modules/test": "def only_salts(): return 1",
    "salt/modules/smi": "def only_salts(): return __salt__['test.ping']()",
    "salt/grains/zz": "def f(): return {'zz': 'from salt', 'os': 'from salt'}",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A minion that takes Salt's modules and one that does not."""
    site = write(tmp_path_factory.mktemp("site"), {**PACKAGE, **MODULES})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
        fleet = Fleet(tmp_path_factory.mktemp("fleet"))
        try:
            fleet.start_master()
            fleet.join("auto")
            fleet.join("off", salt_compat="off")
            yield fleet
        finally:
            fleet.close()


def test_a_function_of_salt_runs_in_the_process_of_its_job(fleet: Fleet) -> None:
    said = fleet.cli("--out", "json", "auto", "zz.where")
    pid, parent, hash_type, grain = said.json()["auto"]
    assert (said.code, hash_type, grain) == (0, "sha256", "from salt")
    assert parent == fleet.daemons["auto"].pid
    assert pid != parent


def test_each_job_loads_it_anew_for_no_daemon_ever_has(fleet: Fleet) -> None:
    daemon = fleet.daemons["auto"]
    before = daemon.log().count(WORDS)
    assert fleet.cli("auto", "test.ping").code == 0
    assert daemon.log().count(WORDS) == before
    for number in (1, 2):
        assert fleet.cli("auto", "zz.where").code == 0
        assert daemon.log().count(WORDS) == before + number
    assert (fleet.root("auto") / "var/cache/saltlite/minion/index/salt-modules").exists()


def test_off_is_off(fleet: Fleet) -> None:
    said = fleet.cli("--out", "json", "off", "zz.where")
    assert said.code == 2
    assert "none of the targeted minions has 'zz.where'" in said.err
    assert fleet.cli("--out", "json", "off", "grains.get", "zz").json() == {"off": ""}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["zz.fails", "because"], "ERROR: because"),
        (["zz.where", "too", "many"], "Passed invalid arguments to zz.where: too many positional arguments"),
        (["broken.f"], "'broken' could not be imported: SystemExit: 3 (broken.py, line 2)"),
        (["test.only_salts"], "'test.only_salts' is not available. (Salt has it; its own module 'test' is never"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_as_for_any_other_module(fleet: Fleet, words: list[str], text: str) -> None:
    said = fleet.cli("--out", "json", "auto", *words)
    assert said.code == 4
    assert said.json()["auto"].startswith(text)


def test_grains_and_functions_of_ours_come_first(fleet: Fleet) -> None:
    assert fleet.cli("--out", "json", "auto", "grains.get", "os").json()["auto"] != "from salt"
    assert fleet.cli("--out", "json", "auto", "smi.only_salts").json() == {"auto": True}
