"""Fixture F as real daemons: three minions, and eight resources of two types, each of which traces its calls.

    ma    dummy:dummy-01 dummy:dummy-02 dummy:web-9 probe:p1 probe:p2 probe:shared
    mb    dummy:dummy-11 dummy:shared
    mc    none

`trace.mark PATH` on whatever it is appends one line to PATH, the minion's id or the resource's SRN, and returns it.
The type `probe` comes to the minions as one's own types do, from `_resources`; the type `dummy` is the shipped one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.fleet import Fleet, wait_until

DUMMIES_OF_MA = ("dummy:dummy-01", "dummy:dummy-02", "dummy:web-9")
DUMMIES = (*DUMMIES_OF_MA, "dummy:dummy-11", "dummy:shared")
PROBES = ("probe:p1", "probe:p2", "probe:shared")
OF_MA = (*DUMMIES_OF_MA, *PROBES)
RESOURCES = (*DUMMIES, *PROBES)
MINIONS = ("ma", "mb", "mc")
EVERYTHING = (*MINIONS, *RESOURCES)

NODEGROUPS = {"ng_res": "T@dummy:dummy-01", "edge": "L@mb,mc", "mixed": "N@edge or T@probe:p?"}

DECLARED: Mapping[str, Mapping[str, Any]] = {
    "ma": {"dummy": {"resource_ids": ["dummy-01", "dummy-02", "web-9"]}, "probe": ["p1", "p2", "shared"]},
    "mb": {"dummy": {"resource_ids": ["dummy-11", "shared"]}},
    "mc": {},
}

PROBE = """
def init(opts):
    if __pillar__.get("probe_init") == "fails":
        raise RuntimeError("the probes' bus is not there")
    _note("init")
    __context__["probe.ready"] = True

def initialized():
    return "probe.ready" in __context__

def discover(opts):
    _note("discover")
    return __pillar__[opts["resource_pillar_key"]]["probe"]

def grains():
    _note("grains " + __resource__["id"])
    if __resource__["id"] in __pillar__.get("probe_mute", ()):
        raise RuntimeError("no grains today")
    return {"role": "probe", "rid": __resource__["id"]}

def shutdown(opts):
    _note("shutdown")
    __context__.pop("probe.ready", None)

def _note(text):
    path = __pillar__.get("probe_notes")
    if path:
        with open(path, "a", encoding="utf-8") as notes:
            notes.write(text + "\\n")
"""

SLOTS = {
    "trace": """
import time

def mark(path, seconds=0):
    name = "{type}:" + __resource__["id"]
    with open(path, "a", encoding="utf-8") as trace:
        trace.write(name + "\\n")
    time.sleep(seconds)
    return name
""",
    "test": """
import subprocess
import time

def program(path, seconds):
    "Reach the device by a program, whose pid is in PATH."
    with subprocess.Popen(["sleep", str(seconds)]) as program:
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(program.pid))
        return program.wait()

def ping():
    return True

def sleep(length):
    time.sleep(float(length))
    return True

def identity(seconds=0):
    before = [__resource__["id"], __grains__.get("rid")]
    time.sleep(seconds)
    return before + [__resource__["id"], __grains__.get("rid"), __opts__["id"]]

def through_the_minion():
    return __minion__["test.echo"]("by " + __opts__["id"])

def retcode(code):
    __context__["retcode"] = code
    return code
""",
}

ON_MINIONS = """
def mark(path, seconds=0):
    import time
    with open(path, "a", encoding="utf-8") as trace:
        trace.write(__opts__["id"] + "\\n")
    time.sleep(seconds)
    return __opts__["id"]
"""


class Site:
    """A fleet whose minions `declare` resources in their pillar."""

    def __init__(self, fleet: Fleet, *minions: str, **options: Any) -> None:
        """Start master and minions, sync the type `probe`, wait for what DECLARED says; `options` are the minions'."""
        self.fleet = fleet
        self._options = options
        self._marks = 0
        self.own = fleet.folder / "own"
        write(self.own / "modules/trace.py", ON_MINIONS)
        write(self.own / "resources/dummy/modules/trace.py", SLOTS["trace"].replace("{type}", "dummy"))
        types = fleet.root("master") / "srv/salt/_resources"
        write(types / "probe/__init__.py", PROBE)
        for name, text in SLOTS.items():
            write(types / f"probe/modules/{name}.py", text.replace("{type}", "probe"))
        tops = "".join(f"  {name}: [of_{name}]\n" for name in minions)
        write(self.pillar / "top.sls", f"base:\n{tops}")
        for name in minions:
            self.declare(name, DECLARED[name])
        fleet.start_master(nodegroups=NODEGROUPS)
        self.join(*minions)

    @property
    def pillar(self) -> Path:
        """The folder of the master's pillar."""
        return self.fleet.root("master") / "srv/pillar"

    def join(self, *minions: str) -> None:
        """Start minions that a token lets in, and wait for their resources."""
        for name in minions:
            grains = {"site": "lab", "who": name}
            self.fleet.join(name, grains=grains, module_dirs=[str(self.own)], **self._options)
        self.run("-L", ",".join(minions), "saltutil.sync_resources")
        wanted = {
            f"{kind}:{name}": minion
            for minion in minions
            for kind, ids in DECLARED[minion].items()
            for name in (ids["resource_ids"] if isinstance(ids, dict) else ids)
        }
        wait_until(lambda: wanted.items() <= self.owners().items(), f"registered: {wanted}")

    def declare(self, minion: str, types: Mapping[str, Any], **more: Any) -> None:
        """What the pillar of a minion says from its next refresh on."""
        text = json.dumps({"role": f"{minion}-db", "resources": types, **more})
        write(self.pillar / f"of_{minion}.sls", text)

    def refresh(self, minion: str) -> None:
        """Have a minion fetch its pillar, and register what follows from it; what it does not find any more goes."""
        assert self.run(minion, "saltutil.refresh_pillar") == {minion: True}
        with self.fleet.client() as client:
            rows = client.call("resource_list", minion=minion)["resources"]
            if any(row["stale_since"] is not None for row in rows):
                client.call("resource_confirm", minion=minion)

    def owners(self) -> dict[str, str]:
        """SRN -> managing minion, of all that are registered."""
        with self.fleet.client() as client:
            return {row["srn"]: row["minion"] for row in client.call("resource_list")["resources"]}

    def run(self, *words: str) -> dict[str, Any]:
        """label -> value; the exit code is 0."""
        said = self.fleet.cli("--out", "json", *words)
        assert said.code == 0, said
        returned: dict[str, Any] = said.json()
        return returned

    def trace(self) -> Path:
        """A file for `trace.mark` that no call has written to yet."""
        self._marks += 1
        path = self.fleet.folder / f"trace-{self._marks}"
        path.touch()
        return path


def write(path: Path, text: str) -> None:
    """A file with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
