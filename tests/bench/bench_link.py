"""Rates of the network link on loopback, as JSON: `python tests/bench/bench_link.py`; not run by pytest.

Server and clients are two processes. Frames are of session kind (no look-up of the peer), 200 B and 100 kB.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial

import zmq

from saltlite.platform.link import SendResult
from saltlite.platform.process import raise_open_files
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import listen_tcp
from saltlite.platform.zmq_link import DealerLink, RouterLink, context

ONE_WAY = {200: 100_000, 100_000: 10_000}
ROUND_TRIPS = 5_000
CONNECTS = 1_000
RETRY_S = 0.0005
DATA = b"\x02\x04"


def forked(work: Callable[[int], object]) -> tuple[int, int]:
    """Run `work(port)` in a child; (pid, descriptor to write the port to)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        work(struct.unpack(">I", os.read(reading, 4))[0])
        os._exit(0)
    os.close(reading)
    return pid, writing


def send_all(reactor: Reactor, link: DealerLink, frame: bytes, count: int) -> None:
    """Send `count` frames, coming back when the link is full."""

    def push() -> None:
        nonlocal count
        while count:
            if link.send(frame) is not SendResult.OK:
                reactor.call_later(RETRY_S, push)
                return
            count -= 1

    push()


def one_way(size: int, count: int) -> Callable[[int], None]:
    def work(port: int) -> None:
        reactor = Reactor()
        link = DealerLink(
            reactor,
            lambda: send_all(reactor, link, DATA + bytes(size - 2), count),
            lambda _frame: None,
            lambda _reason: reactor.stop(),
        )
        link.open(f"127.0.0.1:{port}")
        reactor.run()

    return work


def round_trips(size: int) -> Callable[[int], None]:
    def work(port: int) -> None:
        reactor = Reactor()
        times: list[float] = []
        sent = 0.0

        def ask() -> None:
            nonlocal sent
            sent = time.perf_counter()
            link.send(DATA + bytes(size - 2))

        def answered(_frame: bytes) -> None:
            times.append(time.perf_counter() - sent)
            if len(times) < ROUND_TRIPS:
                ask()
            else:
                link.send(b"\x02\x02" + struct.pack(">d", statistics.median(times)))

        link = DealerLink(reactor, ask, answered, lambda _reason: reactor.stop())
        link.open(f"127.0.0.1:{port}")
        reactor.run()

    return work


def storm(port: int) -> None:
    raise_open_files(CONNECTS * 4 + 200)
    context().set(zmq.MAX_SOCKETS, CONNECTS * 3 + 100)
    reactor = Reactor()
    links: list[DealerLink] = []

    def opened() -> DealerLink:
        def up() -> None:
            link.send(b"\x02\x01" + bytes(48))

        link = DealerLink(reactor, up, lambda _frame: None, lambda _reason: reactor.stop())
        return link

    for _ in range(CONNECTS):
        links.append(opened())
        links[-1].open(f"127.0.0.1:{port}")
    reactor.run()


def serve(
    work: Callable[[int], object], on_frame: Callable[[RouterLink, Reactor, bytes, bytes], None]
) -> tuple[float, float]:
    """Serve one child until `on_frame` stops the reactor; (seconds since the first frame, CPU seconds)."""
    pid, writing = forked(work)
    reactor = Reactor()
    began = 0.0

    def frame(route: bytes, _connection: int, _address: str, data: bytes) -> None:
        nonlocal began
        began = began or time.perf_counter()
        on_frame(link, reactor, route, data)

    with listen_tcp("127.0.0.1", 0) as listener:
        link = RouterLink(reactor, listener, frame, lambda _connection: None)
        os.write(writing, struct.pack(">I", listener.getsockname()[1]))
        before = resource.getrusage(resource.RUSAGE_SELF)
        reactor.call_later(60, reactor.stop)
        reactor.run()
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        link.close()
    os.close(writing)
    os.waitpid(pid, 0)
    reactor.close()
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def isolated(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Run one measurement in a process of its own, because ZeroMQ must not be used before a fork."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(measure()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        result: dict[str, float] = json.load(pipe)
    os.waitpid(pid, 0)
    return result


def measure_one_way(size: int, count: int) -> dict[str, float]:
    seen = 0

    def on_frame(_link: RouterLink, reactor: Reactor, _route: bytes, _data: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            reactor.stop()

    seconds, cpu = serve(one_way(size, count), on_frame)
    return {"frames_per_s": round(seen / seconds), "server_cpu_us_per_frame": round(cpu / seen * 1e6, 2)}


def measure_round_trip(size: int) -> dict[str, float]:
    median = 0.0

    def on_frame(link: RouterLink, reactor: Reactor, route: bytes, data: bytes) -> None:
        nonlocal median
        if data.startswith(DATA):
            link.send(route, data)
        else:
            (median,) = struct.unpack(">d", data[2:])
            reactor.stop()

    serve(round_trips(size), on_frame)
    return {"p50_us": round(median * 1e6, 1)}


def measure_storm() -> dict[str, float]:
    raise_open_files(CONNECTS * 2 + 200)
    seen = 0

    def on_frame(_link: RouterLink, reactor: Reactor, _route: bytes, _data: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == CONNECTS:
            reactor.stop()

    seconds, cpu = serve(storm, on_frame)
    return {"connects": seen, "seconds": round(seconds, 3), "server_cpu_ms_each": round(cpu / seen * 1e3, 3)}


def main() -> None:
    result: dict[str, object] = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "libzmq": zmq.zmq_version()}
    }
    for size, count in ONE_WAY.items():
        result[f"one_way_{size}_b"] = isolated(partial(measure_one_way, size, count))
        result[f"round_trip_{size}_b"] = isolated(partial(measure_round_trip, size))
    result["connect_storm"] = isolated(measure_storm)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
