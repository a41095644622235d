"""The pages of the documentation: their commands run on a small fleet, and print what the pages say.

The tutorial and the page of the Python client are about the fleet of `saltlite demo`. All other pages share one fleet:
the minions web1, web2, db1 and gate1, which manages resources, and the API. Its modules `pkg` and `service` change
nothing. A block that cannot run says why in its first line: ```console not-run: REASON.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.verbs.help import DOCS, titles
from saltlite.testing.plugins import load_plugins
from tests.support.fleet import Fleet, wait_until, write_config
from tests.support.transcripts import Shell, blocks, reasons, steps

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
OF_A_CLONE = 'saltlite() { "$SALTLITE" -c fleet/master "$@"; }'
"""What the tutorial types with a path into the clone."""
PROGRAM = """#!/bin/sh
exec {program} -c {config} "$@"
"""
OF_THE_DEMO = ("tutorial", "python-client")
OTHERS = [ROOT / "README.md", *(Path(DOCS) / f"{name}.md" for name in titles() if name not in OF_THE_DEMO)]
NOT_RUN = 30
"""How many blocks of all pages are not run. One more needs a reason that no fleet of a test could remove."""

MASTER = {
    "auth_file": "{folder}/master/auth",
    "external_auth": {
        "file": {"gina": [".*", "@runner", "@wheel", "@jobs"], "ci": [{"web*": ["test.ping", "service.restart"]}]}
    },
    "publisher_acl": {"nobody": [{"web*": ["pkg.*"]}]},
    "nodegroups": {"lab": "L@web1,gate1"},
    "peer_run": {"web.*": ["manage.up", {"jobs.lookup_jid": {"args": ["[0-9]+"]}}]},
    "peer": {"web.*": ["test.ping", {"db*": ["service.status"]}]},
}
PILLAR = {"top.sls": "base:\n  gate1: [lab]\n", "lab.sls": "resources: {dummy: {count: 20, prefix: x-}}\n"}
MODULES = {
    "pkg": '''
__risk__ = {"upgrade": "upgrade-all", "remove": "remove"}

def install(name, version=None):
    """Install a package."""
    return {name: {"old": "", "new": "1.24.0"}}

def remove(name):
    """Remove a package."""
    return {}

def upgrade(test=False):
    """Upgrade all packages."""
    return {}

def version(name):
    """The version of a package."""
    return "1.24.0"

def list_pkgs():
    """The packages and their versions."""
    return {"nginx": "1.24.0", "openssl": "3.0.14"}

list_installed = list_pkgs
''',
    "service": '''
def restart(name):
    """Restart a service."""
    return True

stop = start = restart

def status(name):
    """Whether a service runs."""
    return True
''',
}


@pytest.fixture
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a running fleet in `fleet`; a short path, because of the sockets in it."""
    folder = tmp_path_factory.mktemp("d")
    words = [sys.executable, "-m", "saltlite", "demo", "--dir", str(folder / "fleet")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        assert any("Ctrl-C stops the fleet" in line for line in process.stderr)
        yield folder
        process.terminate()


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    """What the other pages are about."""
    for kind, text in MODULES.items():
        path = fleet.folder / f"modules/{kind}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"""Changes nothing."""\n{text}')
    pillar = fleet.root("master") / "srv/pillar"
    pillar.mkdir(parents=True)
    for name, text in PILLAR.items():
        (pillar / name).write_text(text)
    options = json.loads(json.dumps(MASTER).replace("{folder}", str(fleet.folder)))
    (fleet.folder / "master/auth").touch(mode=0o600)  # no user; without the file `saltlite doctor` finds fault
    fleet.start_master(**options)
    fleet.join("web1", "web2", "db1", "gate1", module_dirs=[str(fleet.folder)])
    for name in ("web3", "web4"):  # their keys wait for an operator
        fleet.start_minion(name, fleet=fleet.fleet_id(), module_dirs=[str(fleet.folder)])
    write_config(fleet.folder / "salt", "master", {"timeout": 10, "fileserver_backend": ["git"]})
    return fleet


def programs(fleet: Fleet, api: str) -> dict[str, str]:
    """The environment of a shell whose programs act on the fleet."""
    folder = fleet.folder / "bin"
    folder.mkdir()
    for name in ("saltlite", "saltlite-run", "saltlite-key", "saltlite-cp", "saltlite-call"):
        config = fleet.folder / ("web1" if name == "saltlite-call" else "master")
        (folder / name).write_text(PROGRAM.format(program=BIN / name, config=config))
        (folder / name).chmod(0o755)
    path = f"{folder}:{BIN}:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**fleet.environment(), "PATH": path, "HOME": str(fleet.folder), "API": api}


def settled(fleet: Fleet) -> None:
    """Wait until all accepted minions are up."""
    with fleet.client() as client:
        wait_until(lambda: all(row["state"] == "up" for row in client.call("minions")["minions"]), "minions are up")


@pytest.mark.timeout(600)  # 140 commands on one fleet take 40 s of CPU; none of them may take longer than COMMAND_S
def test_the_commands_of_the_pages_print_what_the_pages_say(fleet: Fleet) -> None:
    environment = programs(fleet, fleet.start_api())
    root, logins = fleet.root("master"), fleet.folder / "master/auth"
    places = {
        "https://localhost:8000": environment["API"],
        r"(?<=-connect )localhost:8000": environment["API"].removeprefix("https://"),
        "/etc/saltlite/": f"{fleet.folder}/master/",
        "/etc/salt(?!lite)": f"{fleet.folder}/salt",
        r"(?<!\S)/srv/": f"{root}/srv/",
        r"\b20261121043952177301\b": "$(saltlite job list | awk 'NR == 2 {print $1}')",
    }
    differences = []
    for path in OTHERS:
        work = fleet.folder / "work" / path.stem
        work.mkdir(parents=True)
        for name in ("password", "ci-password"):
            (work / name).write_text("secret")
        if path.stem == "access-control":
            logins.unlink()  # the page makes it, with two users and the mode that logins need
        settled(fleet)
        with Shell(work, environment) as shell:
            for step in steps(path):
                command = step.command
                for pattern, here in places.items():
                    command = re.sub(pattern, here, command)
                if difference := step.differs(shell, command, str(root)):
                    differences.append(f"{path.stem}: {difference}")
    assert not differences, "\n\n".join(differences)
    assert [line.partition(":")[0] for line in logins.read_text().splitlines()] == ["gina", "ci"]
    assert (root / "srv/pillar/top.sls").read_text() == "base:\n  db1: [lamps]\n  gate1: [lab]\n"


def test_the_examples_run(shared: Fleet, tmp_path: Path) -> None:
    examples, folder = Path(DOCS) / "examples", shared.folder / "master"
    program = [sys.executable, str(examples / "rolling_restart.py")]

    def restart(target: str, service: str) -> subprocess.CompletedProcess[str]:
        words = [*program, target, service, str(folder)]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    done = restart("a", "no-such-service")
    assert (done.returncode, done.stdout[:19]) == (4, "a: service.restart "), done.stderr
    assert restart("nobody", "nginx").returncode == 3
    shared.daemons["b"].stop()
    wait_until(lambda: shared.absences() == {"b": "the minion was stopped"}, "b is away")
    done = restart("*", "no-such-service")
    assert (done.returncode, done.stdout) == (5, "b: not connected (the minion was stopped)\n"), done.stderr
    shared.restart_minion("b")
    shared.wait_up("b")
    (tmp_path / "_modules").mkdir()
    (tmp_path / "_runners").mkdir()
    shutil.copy(examples / "certificates.py", tmp_path / "_modules")
    shutil.copy(examples / "stale.py", tmp_path / "_runners")
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ed25519",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=a",
        "-keyout",
        "key",
    ]
    subprocess.run([*made, "-keyout", "a.key", "-out", "a.pem"], cwd=tmp_path, check=True, capture_output=True)
    modules = load_plugins(tmp_path)
    assert modules["certificates.days_left"](str(tmp_path / "*.pem")) == {str(tmp_path / "a.pem"): 29}
    rows = [{"id": f"web{days}", "state": "away", "last_seen": time.time() - days * 86400} for days in (40, 29, 31)]
    rows.append({"id": "new", "state": "never", "last_seen": None})
    rows.append({"id": "old", "state": "up", "last_seen": 0.0})

    class Client:
        def call(self, _verb: str, *, state: str) -> dict[str, Any]:
            return {"minions": [row for row in rows if row["state"] == state]}

    stale = load_plugins(tmp_path, "runners", __client__=Client())["stale.minions"]
    assert stale() == {"away": ["web31", "web40"], "forget": "saltlite key delete web31 web40"}
    assert stale(days=50) == {"away": [], "forget": ""}
    assert sorted(path.name for path in examples.glob("*.py")) == ["certificates.py", "rolling_restart.py", "stale.py"]


def test_the_commands_of_the_tutorial_and_the_client_print_what_the_pages_say(demo: Path) -> None:
    differences = []
    with Shell(demo, {"SALTLITE": str(BIN / "saltlite")}) as shell:
        shell.run(OF_A_CLONE)
        for name in OF_THE_DEMO:
            for step in steps(Path(DOCS) / f"{name}.md"):
                if not step.command.startswith("saltlite() {"):
                    differences.append(step.differs(shell, step.command))
    assert not any(differences), "\n\n".join(filter(None, differences))
    program = "\n".join(blocks(Path(DOCS) / "python-client.md", "python"))
    program = program.replace('"/etc/saltlite"', f'"{demo}/fleet/master"')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["demo-1 Linux", "demo-2 Linux", "demo-3 Linux"]
    assert "'args': [1]" in lines[3]
    assert sorted(lines[4:7]) == ["demo-1 ok ", "demo-2 ok ", "demo-3 ok "]
    assert lines[7].startswith("2 none of the targeted minions has 'pkg.instal'; did you mean pkg.install?")


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    pages = [ROOT / "README.md", ROOT / ".github/CONTRIBUTING.md", *Path(DOCS).glob("*.md")]
    found = [f"{page.name}: {reason}" for page in pages for reason in reasons(page)]
    assert len(found) == NOT_RUN, "\n".join(found)
    named = [test for reason in found for test in re.findall(r"tests/\S+", reason)]
    assert [test for test in named if not (ROOT / test).exists()] == []
