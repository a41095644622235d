"""The console of a fleet of ten thousand: lists and pages, as one JSON document:
`python -m tests.bench.bench_console [MINIONS]`.

Not run by pytest. The minions are simulated on the real wire; master and API are the real daemons, and the browser is
Chromium. A list is measured from the request to the last byte, on a connection that is open.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import time
from typing import Any

from tests.bench.bench_fleet import accept_simulated, launch_swarm
from tests.bench.fleet import BenchFleet, free_port, wait_until
from tests.bench.measure import Figure, Others, machine, pss_mib, rounded
from tests.support.api import PASSWORD, user_file
from tests.support.browser import browser
from tests.support.fleet import answers

MINIONS = 10_000
ROUNDS = 20
PAGES = ("", "machines", "machines?state=up&sort=-version", "jobs", "keys?state=pending", "run?tgt=*&fun=test.ping")
LISTS = {
    "first page": "limit=100",
    "sorted by version": "sort=-version&limit=100",
    "last page": "sort=id&limit=100&offset={last}",
    "a part of the id": "tgt=*77*&limit=100",
    "by grain": "tgt=G%40id%3Asim*7&tgt_type=compound&limit=100",
    "nothing": "tgt=nowhere&limit=100",
}

FIGURES = {
    "list_ms": Figure("ms", 80, "-"),
    "list_kb": Figure("kB", 60, "-"),
    "overview_ms": Figure("ms", 200, "-"),
    "page_s": Figure("s", 1.0, "-"),
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
        self._token = json.load(self._connection.getresponse())["return"][0]["token"]

    def get(self, path: str) -> tuple[float, bytes]:
        """Milliseconds, and the body."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"X-Auth-Token": self._token})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
        return (time.perf_counter() - began) * 1000, body


def console(fleet: BenchFleet, minions: int) -> dict[str, Any]:
    """All figures, on a fleet of which nothing runs yet."""
    users = user_file(fleet.folder / "users", "admin")
    granted = {"file": {"admin": [".*", "@runner", "@wheel", "@jobs", "@event"]}}
    fleet.start_master(handshakes_per_address=10_000, auth_file=users, external_auth=granted)
    accept_simulated(fleet.store_path, minions)
    port = free_port()
    fleet.start_api(port)
    wait_until(lambda: answers(port), "the API answers")
    launch_swarm(fleet, "crowd", range(minions))()
    caller = Caller(port)
    times: dict[str, list[float]] = {name: [] for name in LISTS}
    sizes: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, query in LISTS.items():
            took, body = caller.get(f"/fleet/minions?{query.format(last=minions - 100)}")
            times[name].append(took)
            sizes[name] = len(body) / 1000
    overview = [caller.get("/fleet")[0] for _ in range(ROUNDS)]
    pages = _pages(f"https://127.0.0.1:{port}")
    return {
        "list_ms": {name: FIGURES["list_ms"].report(samples) for name, samples in times.items()},
        "list_kb": FIGURES["list_kb"].report(list(sizes.values())),
        "overview_ms": FIGURES["overview_ms"].report(overview),
        "page_s": {page or "overview": FIGURES["page_s"].report(samples) for page, samples in pages.items()},
        "api_pss": FIGURES["api_pss"].report([sum(pss_mib(fleet.pids("api")).values())]),
    }


def _pages(url: str) -> dict[str, list[float]]:
    """Seconds from the address to the page with its data, in a browser that has the files of the console."""
    found: dict[str, list[float]] = {page: [] for page in PAGES}
    with browser(url) as window:
        window.open("")
        window.log_in("admin")
        window.one("h2", "Master")
        for _ in range(3):
            for page, samples in found.items():
                window.driver.get("about:blank")
                began = time.perf_counter()
                window.open(page)
                window.until(lambda: window.all("main h1") and not window.all("main p.dim[role=status]"), page)
                samples.append(rounded(time.perf_counter() - began))
    return found


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
