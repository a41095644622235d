"""What the HTTP API takes: `python tests/bench/bench_api.py` prints its figures as JSON.

A master, a minion and the API as daemons of this machine, and TLS all the way. Requests run `test.ping` with a token,
over connections that are kept; the watchers of events are connections of this process.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.api_client import Api, user_file  # noqa: E402 - the path above is needed for it
from tests.bench import measure  # noqa: E402 - as above
from tests.e2e.fleet import Fleet  # noqa: E402 - as above

FIGURES = {
    "one_client": measure.Figure("requests/s", 100, "5", at_least=True),
    "eight_clients": measure.Figure("requests/s", 150, "7", at_least=True),
    "refused_token": measure.Figure("ms of CPU, API and master", 2, "not measured"),
    "idle_watchers": measure.Figure("MiB of the API with 1,000 watchers of events", 100, "123 idle"),
    "event_to_all": measure.Figure("s until 1,000 watchers have an event", 1, "not measured"),
}
ROUNDS = 3
SECONDS = 3.0
WATCHERS = 1000
WATCH_S = 60
"""All of it; a machine that needs longer has not met the figure."""
REFUSED = 500
BODY = json.dumps({"client": "local", "tgt": "*", "fun": "test.ping"})
EXPECTED = {"return": [{"web1": True}]}


def connection(api: Api) -> http.client.HTTPSConnection:
    """One that is kept."""
    place = urllib.parse.urlsplit(api.url)
    return http.client.HTTPSConnection(place.hostname or "", place.port, context=api.tls, timeout=30)


def post(there: http.client.HTTPSConnection, token: str) -> Any:
    """One job."""
    there.request("POST", "/", BODY, {"X-Auth-Token": token, "Content-Type": "application/json"})
    return json.loads(there.getresponse().read())


def rate(api: Api, clients: int) -> float:
    """Jobs a second of so many clients."""
    counts = [0] * clients
    until = time.monotonic() + SECONDS

    def client(place: int) -> None:
        there = connection(api)
        while time.monotonic() < until:
            assert post(there, api.token) == EXPECTED
            counts[place] += 1
        there.close()

    threads = [threading.Thread(target=client, args=(place,)) for place in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def refused_ms(api: Api, pids: list[int]) -> float:
    """CPU milliseconds for one request with a token that is none."""
    there = connection(api)
    before = measure.cpu_s(pids)
    for _ in range(REFUSED):
        assert post(there, "0" * 64)["status"] == 401
    there.close()
    return (measure.cpu_s(pids) - before) / REFUSED * 1000


async def watch(api: Api, pid: int) -> tuple[float, float]:
    """MiB of the API with WATCHERS connections that watch, and how long an event takes to all of them."""
    place = urllib.parse.urlsplit(api.url)
    head = f"GET /events HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {api.token}\r\n\r\n".encode()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    rows = []
    for _ in range(WATCHERS):
        reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=tls, limit=4096)
        writer.write(head)
        rows.append((reader, writer))
    for reader, _writer in rows:
        await reader.readuntil(b"retry: 400\n\n")
    mib = sum(measure.pss_mib([pid]).values())
    began = time.monotonic()
    said = await asyncio.to_thread(api.post, "/hook/bench", {"some": "thing"})
    assert said.status == 200, said
    await asyncio.gather(*(reader.readuntil(b"salt/netapi/hook/bench") for reader, _writer in rows))
    seconds = time.monotonic() - began
    for _reader, writer in rows:
        writer.close()
    return mib, seconds


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        fleet = Fleet(Path(name))
        try:
            users = user_file(Path(name) / "users", "fred")
            fleet.start_master(auth_file=users, external_auth={"file": {"fred": ["test.*", "@event"]}})
            fleet.join("web1")
            url = fleet.start_api(requests_per_address=100_000)
            api = Api(url).log_in("fred")
            pid = next(daemon.pid for key, daemon in fleet.daemons.items() if key.startswith("api"))
            rate(api, 2)
            samples: dict[str, list[float]] = {"one_client": [], "eight_clients": [], "refused_token": []}
            masters = fleet.daemons["master"].children("MWorker")
            for _ in range(ROUNDS):
                samples["one_client"].append(rate(api, 1))
                samples["eight_clients"].append(rate(api, 8))
                samples["refused_token"].append(refused_ms(api, [pid, *masters]))
            mib, seconds = asyncio.run(asyncio.wait_for(watch(api, pid), WATCH_S))
            samples |= {"idle_watchers": [mib], "event_to_all": [seconds]}
        finally:
            fleet.close()
    figures = {key: FIGURES[key].report(values) for key, values in samples.items()}
    print(json.dumps({"machine": measure.machine(), "figures": figures}, indent=2))


if __name__ == "__main__":
    main()
