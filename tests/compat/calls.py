"""Functions of Salt's own modules, called through a master and a minion, and what the minion then takes of memory.

    SALTLITE_COMPAT_PYTHON -m tests.compat.calls     prints a table and figures as JSON

for a Python that has both Salt and saltlite. Nothing that is called changes the machine.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.measure import pss_mib, rounded
from tests.support.fleet import Fleet, children_of, title

CALLS = [
    "test.ping", "test.version", "test.arg a b=1", "cmd.run id", "cmd.run_all id", "cmd.retcode true",
    "pkg.list_pkgs", "pkg.version bash", "pkg.latest_version bash", "pkg.list_repos", "disk.usage", "disk.blkid",
    "file.stats /etc/hosts", "file.get_hash /etc/hosts", "file.read /etc/hosts", "file.find /etc/apt",
    "status.loadavg", "status.meminfo", "status.uptime", "network.interfaces", "network.ip_addrs", "user.info root",
    "user.list_users", "group.info root", "shadow.info root", "ssh.host_keys private=False", "hashutil.digest abc",
    "saltutil.running", "saltutil.is_running test.*", "grains.item os", "config.get id", "service.get_all",
    "service.status ssh", "sys.list_modules test", "sys.doc timezone.get_zone", "sys.argspec timezone.get_zone",
    "archive.list {tar}", "pillar.get x", "environ.get PATH", "ps.top", "cp.list_master", "mount.active",
    "random.get_str", "slsutil.renderer string=text default_renderer=yaml", "match.glob *", "hosts.list_hosts",
    "alternatives.auto editor", "pip.list", "git.version", "temp.dir", "locale.list_avail",
    "sysctl.get kernel.hostname", "x509.get_pem_entries /etc/no*", "data.items", "http.query {url}",
    "xml.get_value {xml} .//a", "state.show_top", "mine.get * x", "schedule.list", "event.fire {{}} x",
    "apache.version", "ufw.version", "timezone.get_zone", "kmod.lsmod", "iptables.version", "cron.list_tab root",
]  # fmt: skip
"""Section by section what Salt's users call; behind the last dozen the machine lacks what they need."""


def main() -> None:
    """Start two fleets, call, and print."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        figures = {"off": _figures(Path(folder) / "off", salt_compat="off")}
        figures["auto"] = _figures(Path(folder) / "auto", salt_compat="auto", calls=CALLS)
    rows = figures["auto"].pop("rows")
    for row in rows:
        print(f"{row['retcode']:3d} {row['ms']:6d} ms  {row['call']:<44.44} {row['return']:.100}", file=sys.stderr)
    print(json.dumps(figures | {"rows": rows}, indent=1))


def _figures(folder: Path, *, calls: list[str] = [], **options: str) -> dict[str, Any]:  # noqa: B006 - never changed
    folder.mkdir()
    (folder / "x.xml").write_text("<r><a>text</a></r>")
    with contextlib.closing(Fleet(folder)) as fleet:
        fleet.start_master()
        fleet.join("m", module_dirs=[], **options)
        pid = fleet.daemons["m"].pid
        fleet.cli("*", "test.ping")
        time.sleep(2)  # grains are found, reported and forgotten
        figures: dict[str, Any] = {"job_server_mib": _job_server(pid), "whole_minion_mib": _whole(fleet)}
        places = {"tar": f"{folder}/x.tar", "xml": f"{folder}/x.xml", "url": "http://127.0.0.1:9/"}
        fleet.cli("*", "cmd.run", f"tar cf {folder}/x.tar -C {folder} x.xml")
        figures["rows"] = [_called(fleet, call.format(**places)) for call in calls]
        figures["job_server_after_mib"] = _job_server(pid)
        figures["salt_in_job_server"] = "/salt/" in Path(f"/proc/{pid}/maps").read_text()
    return figures


def _called(fleet: Fleet, call: str) -> dict[str, Any]:
    began = time.perf_counter()
    said = fleet.cli("*", *call.split(), "--out", "json")
    ms = round((time.perf_counter() - began) * 1000)
    value = json.loads(said.out).get("m", said.err) if said.out.strip() else said.err
    return {"call": call, "retcode": said.code, "ms": ms, "return": json.dumps(value)}


def _job_server(pid: int) -> float:
    """MiB of its own: its share of libraries depends on who else runs Python."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return rounded(next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024)


def _whole(fleet: Fleet) -> dict[str, float]:
    return {
        title(pid): rounded(size) for pid in children_of(fleet.daemons["m"].pid) for size in pss_mib([pid]).values()
    }


if __name__ == "__main__":
    main()
