"""Logins and what a refused token costs: `python tests/bench/bench_auth.py` prints the figures as JSON. Needs root.

A real master with the backend `file` (Argon2id, 19 MiB, two passes). CPU is that of all processes of the master, by
the number of requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from saltlite.client.local import LocalClient  # noqa: E402 - the path above is needed for it
from saltlite.errors import LoginError  # noqa: E402 - as above
from tests.bench.measure import Figure, machine  # noqa: E402 - as above
from tests.support.fleet import Fleet, children_of  # noqa: E402 - as above

LOGINS, REQUESTS, ROUNDS, CLIENTS = 40, 1000, 5, 4
LOGIN = Figure("logins/s", 20, "about 19 from one client and 14 from eight, without hashing", at_least=True)
REFUSED = Figure("ms of CPU", 2.0, "not measured")
CHECKED = Figure("ms", 1.0, "not measured")


def cpu_s(pids: list[int]) -> float:
    """User and system time of these processes."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def logins_s(fleet: Fleet, clients: int) -> float:
    """Logins a second with so many clients at once."""

    def some() -> None:
        with fleet.client() as client:
            for _ in range(LOGINS // clients):
                client.token = ""
                client.log_in("file", "fred", "secret", keep=True)

    threads = [threading.Thread(target=some) for _ in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return LOGINS / (time.monotonic() - began)


def refused_ms(client: LocalClient, pids: list[int]) -> float:
    """CPU of the master for one request with a token that is none."""
    client.token = "0" * 64
    began = cpu_s(pids)
    for _ in range(REQUESTS):
        try:
            client.call("whoami")
        except LoginError:
            continue
        raise AssertionError("it was taken for a token")
    return (cpu_s(pids) - began) * 1000 / REQUESTS


def checked_ms(client: LocalClient) -> float:
    """The time of one request with a good token, as its client has it."""
    began = time.monotonic()
    for _ in range(REQUESTS):
        client.call("whoami")
    return (time.monotonic() - began) * 1000 / REQUESTS


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        entry = [sys.executable, "-m", "saltlite", "auth", "entry", "fred", "--password-fd", "0"]
        made = subprocess.run(entry, input="secret\n", capture_output=True, text=True, check=True)
        entries = Path(folder) / "entries"
        entries.touch(mode=0o600)
        entries.write_text(made.stdout)
        fleet = Fleet(Path(folder))
        try:
            master = fleet.start_master(external_auth={"file": {"fred": ["test.*"]}}, auth_file=str(entries))
            pids = children_of(master.pid)
            with fleet.client() as client:
                client.log_in("file", "fred", "secret", keep=True)
                result = {
                    "machine": machine(),
                    "request_with_token": CHECKED.report([checked_ms(client) for _ in range(ROUNDS)]),
                    "refused_token": REFUSED.report([refused_ms(client, pids) for _ in range(ROUNDS)]),
                    "logins_of_one_client": LOGIN.report([logins_s(fleet, 1) for _ in range(ROUNDS)]),
                    f"logins_of_{CLIENTS}_clients": LOGIN.report([logins_s(fleet, CLIENTS) for _ in range(ROUNDS)]),
                }
        finally:
            fleet.close()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
