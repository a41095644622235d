"""The console of a fleet of ten thousand: lists and pages, as one JSON document:
`python -m tests.bench.bench_console [MINIONS]`.

Not run by pytest. The minions are simulated on the real wire; master and API are the real daemons, and the browser is
Chromium. A list is measured from the request to the last byte, on a connection that is open, and by the CPU of API and
master, which other work on the machine changes least. A page is measured by the browser: until its first paint, until
its data is there, and in bytes of files and answers that it loads without a cache.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import time
import urllib.parse
from typing import Any

from saltlite.master.store.banks import LocalBanks
from saltlite.targeting.banks import GRAINS
from tests.bench.bench_fleet import accept_simulated, launch_crowd
from tests.bench.fleet import BenchFleet, free_port, wait_until
from tests.bench.measure import Figure, Others, cpu_s, machine, pss_mib, rounded
from tests.bench.swarm import minion_name
from tests.support.api import PASSWORD, user_file
from tests.support.browser import Browser, browser
from tests.support.fleet import answers

MINIONS = 10_000
ROUNDS = 20
PAINTS = 3
PAGE = 100
NODEGROUPS = {"webs": "G@roles:web and sim-*[02468]"}
OSES = ("Debian", "Ubuntu", "Rocky")
LISTS: dict[str, dict[str, str]] = {
    "first page": {},
    "up": {"state": "up"},
    "away": {"state": "away"},
    "never seen": {"state": "never"},
    "glob": {"tgt": "*77*"},
    "list": {"tgt": ",".join(minion_name(number) for number in range(0, PAGE, 2)), "tgt_type": "list"},
    "pcre": {"tgt": "sim-.*[37]{2}", "tgt_type": "pcre"},
    "grain": {"tgt": "os:Debian", "tgt_type": "grain"},
    "grain pattern": {"tgt": "osrelease:1*", "tgt_type": "grain"},
    "network": {"tgt": "10.0.3.0/24", "tgt_type": "ipcidr"},
    "nodegroup": {"tgt": "webs", "tgt_type": "nodegroup"},
    "compound": {"tgt": "G@os:Debian and not sim-00* or L@sim-00001,sim-00002", "tgt_type": "compound"},
    "compound, up": {"tgt": "G@os:Rocky and E@sim-.*7", "tgt_type": "compound", "state": "up", "sort": "-last_seen"},
    "nothing": {"tgt": "nowhere"},
    **{f"by {order}": {"sort": order} for order in ("-id", "state", "-last_seen", "version", "address", "resources")},
    "last page": {"sort": "id", "offset": "{last}"},
}
"""Every kind of filter, and every order."""
KEY_LISTS: dict[str, dict[str, str]] = {
    "keys": {},
    "keys, accepted": {"state": "accepted"},
    "keys by a part of the id": {"search": "77"},
    **{f"keys by {order}": {"sort": order} for order in ("-id", "fingerprint", "address", "-first_seen")},
    "last page of keys": {"offset": "{last}"},
}
PAGES = (
    "", "machines", "machines?state=up&sort=-version", "machines?search=G%40os%3ADebian&type=compound", "machines/{id}",
    "jobs", "jobs/{jid}", "keys", "run?tgt=*&fun=test.ping", "packages?name=x&jid={jid}", "resources", "events",
    "access",
)  # fmt: skip

FIGURES = {
    "list_ms": Figure("ms", 80, "-"),
    "list_cpu": Figure("ms of CPU of API and master", 80, "-"),
    "list_kb": Figure("kB", 60, "-"),
    "overview_ms": Figure("ms", 200, "-"),
    "job_ms": Figure("ms: one job of all minions with its outputs", 1000, "-"),
    "paint_s": Figure("s until the browser paints", 1.0, "-"),
    "page_s": Figure("s until the data is there", 1.0, "-"),
    "page_kb": Figure("kB of files and answers", 300, "-"),
    "api_pss": Figure("MiB", 150, "-"),
}


class Caller:
    """One connection to the API, logged in."""

    def __init__(self, port: int) -> None:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=60)
        body = json.dumps({"eauth": "file", "username": "admin", "password": PASSWORD})
        self._connection.request("POST", "/login", body, {"Content-Type": "application/json"})
        self.token = json.load(self._connection.getresponse())["return"][0]["token"]

    def get(self, path: str) -> tuple[float, bytes]:
        """Milliseconds, and the body."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"X-Auth-Token": self.token})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
        return (time.perf_counter() - began) * 1000, body


def start(fleet: BenchFleet, minions: int, *, never: int) -> int:
    """Start master, API, and minions with grains, of which so many never come; the port of the API."""
    users = user_file(fleet.folder / "users", "admin")
    granted = {"file": {"admin": [".*", "@runner", "@wheel", "@jobs", "@event"]}}
    fleet.start_master(handshakes_per_address=10_000, auth_file=users, external_auth=granted, nodegroups=NODEGROUPS)
    accept_simulated(fleet.store_path, minions)
    banks = LocalBanks(fleet.cache_path)
    for number in range(minions):
        banks.bank(GRAINS).put(minion_name(number), _grains(number))
    banks.close()
    port = free_port()
    fleet.start_api(port)
    wait_until(lambda: answers(port), "the API answers")
    launch_crowd(fleet, minions - never)
    return port


def _grains(number: int) -> dict[str, Any]:
    return {
        "id": minion_name(number),
        "os": OSES[number % len(OSES)],
        "osrelease": f"{number % 20}",
        "roles": ["web", "db"][number % 2 :],
        "ipv4": [f"10.0.{number >> 8}.{number & 255}"],
        "serialnumber": f"SN-{number * 7919:012X}",
    }


def console(fleet: BenchFleet, minions: int) -> dict[str, Any]:
    """All figures, on a fleet of which nothing runs yet."""
    port = start(fleet, minions, never=minions // 50)
    with fleet.client() as client:
        jid = client.cmd_async("*", "test.ping")
        wait_until(lambda: not client.call("job_show", jid=jid)["job"]["outcomes"].get("ok", 0) < minions // 2, "a job")
    caller = Caller(port)
    lists: dict[str, Any] = {}
    for name, fields in {**LISTS, **KEY_LISTS}.items():
        noun = "keys" if name in KEY_LISTS else "minions"
        order = {} if name in KEY_LISTS else {"sort": "id"}
        query = urllib.parse.urlencode({**order, "limit": PAGE, **fields}).replace("%7Blast%7D", str(minions - PAGE))
        path = f"/fleet/{noun}?{query}"
        # On a loaded machine some of the simulated minions may be away.
        if name != "away" and (json.loads(caller.get(path)[1])["total"] == 0) != (name == "nothing"):
            raise RuntimeError(f"{name} selects something else than it should")
        before = _cpu_s(fleet)
        rounds = [caller.get(path) for _ in range(ROUNDS)]
        lists[name] = [took for took, _ in rounds], (_cpu_s(fleet) - before) / ROUNDS * 1000, len(rounds[0][1]) / 1000
    overview = [caller.get("/fleet")[0] for _ in range(ROUNDS)]
    job = [caller.get(f"/fleet/jobs/{jid}")[0] for _ in range(PAINTS)]
    pages = _pages(f"https://127.0.0.1:{port}", {"id": minion_name(0), "jid": jid})
    return {
        "list_ms": {name: FIGURES["list_ms"].report(times) for name, (times, _, _) in lists.items()},
        "list_cpu": {name: FIGURES["list_cpu"].report([spent]) for name, (_, spent, _) in lists.items()},
        "list_kb": FIGURES["list_kb"].report([size for _, _, size in lists.values()]),
        "overview_ms": FIGURES["overview_ms"].report(overview),
        "job_ms": FIGURES["job_ms"].report(job),
        **{
            name: {page or "overview": FIGURES[name].report(samples[name]) for page, samples in pages.items()}
            for name in ("paint_s", "page_s", "page_kb")
        },
        "api_pss": FIGURES["api_pss"].report([sum(pss_mib(fleet.pids("api")).values())]),
    }


def _cpu_s(fleet: BenchFleet) -> float:
    return cpu_s([*fleet.pids("api"), *fleet.pids("master")])


_LOADED = """
const rows = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return [paint ? paint.startTime / 1000 : -1, rows.reduce((sum, row) => sum + row.encodedBodySize, 0) / 1000];
"""


def _pages(url: str, names: dict[str, str]) -> dict[str, dict[str, list[float]]]:
    """Seconds to the paint and to the data of each page, in a browser that has the files of the console, and its kB."""
    found: dict[str, dict[str, list[float]]] = {page: {"paint_s": [], "page_s": [], "page_kb": []} for page in PAGES}
    with browser(url) as window:
        window.open("")
        window.log_in("admin")
        window.one("h2", "Master")
        for _ in range(PAINTS):
            for page, samples in found.items():
                took, paint, size = _page(window, page.format(**names))
                samples["page_s"].append(took)
                samples["paint_s"].append(paint)
                samples["page_kb"].append(size)
    return found


def _page(window: Browser, page: str) -> tuple[float, float, float]:
    window.driver.get("about:blank")
    began = time.perf_counter()
    window.open(page)
    window.until(lambda: window.all("main h1") and not window.all("main p.dim[role=status]"), page)
    took = rounded(time.perf_counter() - began)
    paint, size = window.driver.execute_script(_LOADED)
    return took, rounded(paint), rounded(size)


def main(words: list[str]) -> int:
    """Print the document; the exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    minions = int(words[0]) if words else MINIONS
    others = Others()
    with BenchFleet() as fleet:
        report = console(fleet, minions)
        document = {"machine": machine(), "minions": minions, "others_percent": others.share_percent(), **report}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
