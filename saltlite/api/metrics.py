"""The text that /metrics answers: figures of this API, and of the master and its fleet.

This is 100 lines of ours, because the API is one process and the master's figures come with one request; the library
`prometheus_client` would add a dependency for half of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from saltlite.model.events import count_after

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the histogram of durations."""
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class Metrics:
    """Counters of this process since its start, for /stats and /metrics."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By endpoint, method and status."""
        self._durations: dict[str, list[int]] = {}
        self._microseconds: dict[str, int] = {}

    def answered(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.requests[endpoint, method if method in _METHODS else "other", status] += 1
        row = self._durations.setdefault(endpoint, [0] * (len(BOUNDS_S) + 1))
        row[next((place for place, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))] += 1
        self._microseconds[endpoint] = self._microseconds.get(endpoint, 0) + int(seconds * 1e6)

    def exposed(self, gauges: Mapping[str, float]) -> str:
        """The text format of Prometheus, version 0.0.4; names of `gauges` have no prefix."""
        lines = [
            "# HELP saltlite_api_requests_total Requests that were answered.",
            "# TYPE saltlite_api_requests_total counter",
        ]
        for (endpoint, method, status), count in sorted(self.requests.items()):
            labels = f'endpoint="{endpoint}",method="{method}",status="{status}"'
            lines.append(f"saltlite_api_requests_total{{{labels}}} {count}")
        lines += [
            "# HELP saltlite_api_request_seconds How long requests took.",
            "# TYPE saltlite_api_request_seconds histogram",
        ]
        for endpoint, row in sorted(self._durations.items()):
            lines += self._histogram(endpoint, row)
        for name, value in sorted(gauges.items()):
            lines += [f"# TYPE saltlite_api_{name} gauge", f"saltlite_api_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, endpoint: str, row: list[int]) -> list[str]:
        name, label, passed = "saltlite_api_request_seconds", f'endpoint="{endpoint}"', 0
        lines = []
        for bound, count in zip((*BOUNDS_S, "+Inf"), row, strict=True):
            passed += count
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {passed}')
        lines.append(f"{name}_sum{{{label}}} {self._microseconds[endpoint] / 1e6:g}")
        lines.append(f"{name}_count{{{label}}} {passed}")
        return lines


_AWAY = "minions_away_with_jobs"


def fleet_metrics(status: Mapping[str, Any] | None) -> str:
    """What the master answers to the verb `status`, in the text format of Prometheus; None if it does not answer."""
    up = "\n".join(_metric("master_up", "1 if the master answers.", "", status is not None)) + "\n"
    if status is None:
        return up
    store, queues, resources, link = status["store"], status["queues"], status["resources"], status["link"]
    rows = [
        *_metric("minions", "Minions by state; pending ones wait for their key.", "state", status["counts"]),
        *_metric("minions_away_with_jobs", "Minions that are away and have jobs.", "", queues[_AWAY]),
        *_metric("open_targets", "Targets of jobs that have not ended, by state.", "state", queues["targets"]),
        *_metric("resources", "Registered resources by type.", "type", _counts(resources["types"])),
        *_metric("resource_registrations_refused", "Minions with a refused registration.", "", resources["refused"]),
        *_metric("resources_incomplete", "1 if lost rows were not registered again.", "", resources["incomplete"]),
        *_metric("store_bytes", "Bytes of the store in use.", "", store["size"]),
        *_metric("store_limit_bytes", "Bytes that the store may use.", "", store["limit"]),
        *_metric("store_file_bytes", "Bytes of the store's file.", "", store["file"]),
        *_metric("store_log_bytes", "Bytes of the store's write-ahead log.", "", store["log"]),
        *_metric("events_total", "Events since the store was made, or a standby promoted.", "", _events(store["seq"])),
        *_metric("reader_behind_events", "Events that a reader has not read.", "reader", _each(status, "behind")),
        *_metric("reader_lag_seconds", "How long the first of them has waited.", "reader", _each(status, "lag_s")),
        *_metric("master_start_time_seconds", "When the master started.", "", status["master"]["started_at"]),
        *_metric("link_up", "1 if the link process answers.", "", link is not None),
    ]
    if "masters" in status:
        has_lease = {row["name"]: row["state"] in ("up", "draining") for row in status["masters"]}
        sessions = {row["name"]: row["sessions"] for row in status["masters"]}
        rows += [
            *_metric("masters_up", "1 for each master that shares the store and has a lease.", "master", has_lease),
            *_metric(
                "masters_certificate_until_seconds",
                "When the certificate of each master expires, in seconds since 1970; 0 for a damaged one.",
                "master",
                {row["name"]: row["certificate_until"] or 0 for row in status["masters"]},
            ),
            *_metric("masters_sessions", "Sessions of minions by master.", "master", sessions),
            *_metric("masters_differences", "Differences between the masters.", "", len(status["differences"])),
        ]
    if link is not None:
        if "lease" in link:
            rows += _metric("master_has_lease", "1 while this master may act: its lease is renewed.", "", link["lease"])
        rows += [
            *_metric("link_sessions", "Sessions of minions.", "", link["sessions"]),
            *_metric("link_unauthenticated", "Connections without a session.", "", link["unauthenticated"]),
            *_metric("link_deliveries", "Deliveries that minions have not acknowledged.", "", link["deliveries"]),
            *_metric("link_uncommitted_reports", "Reports that wait for a commit.", "", link["uncommitted"]),
            *_metric("link_lag_seconds", "How long the oldest of them waits.", "", link["lag_s"]),
            *_metric("link_handshakes_total", "Handshakes that were completed.", "", link["handshakes"]),
            *_metric("link_handshakes_begun_total", "Handshakes that were begun.", "", link["handshakes_begun"]),
            *_metric("link_postponed_total", "Minions told to come again later.", "", link["handshakes_postponed"]),
            *_metric("link_frames_refused_total", "Refused frames by reason.", "reason", link["refused"]),
        ]
    return up + "\n".join(rows) + "\n"


def _events(seq: int) -> int:
    # A promotion is a restart of the counter, which rate() knows of.
    return count_after(0, seq)


def _counts(types: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {kind: row["count"] for kind, row in types.items()}


def _each(status: Mapping[str, Any], field: str) -> dict[str, float]:
    return {name: row[field] for name, row in status["readers"].items()}


def _metric(name: str, text: str, label: str, value: float | Mapping[str, float]) -> Iterable[str]:
    """The lines of one metric: a counter if its name ends with _total, else a gauge."""
    yield f"# HELP saltlite_{name} {text}"
    yield f"# TYPE saltlite_{name} {'counter' if name.endswith('_total') else 'gauge'}"
    if isinstance(value, Mapping):
        for key, one in sorted(value.items()):
            yield f'saltlite_{name}{{{label}="{_escaped(key)}"}} {float(one or 0):.15g}'
    else:
        yield f"saltlite_{name} {float(value):.15g}"


def _escaped(text: str) -> str:
    # Names of types and reasons come from minions.
    return "".join(letter if letter.isprintable() and letter not in '\\"' else "_" for letter in text)[:100]
