"""What the API counts about itself, for /stats and /metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the histogram of durations."""
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class Metrics:
    """Counters since the start."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By endpoint, method and status."""
        self._durations: dict[str, list[int]] = {}
        self._microseconds: dict[str, int] = {}

    def answered(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        self.requests[endpoint, method if method in _METHODS else "other", status] += 1
        row = self._durations.setdefault(endpoint, [0] * (len(BOUNDS_S) + 1))
        row[next((place for place, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))] += 1
        self._microseconds[endpoint] = self._microseconds.get(endpoint, 0) + int(seconds * 1e6)

    def exposed(self, gauges: Mapping[str, float]) -> str:
        """The text format of Prometheus, version 0.0.4; `gauges` are named without their prefix."""
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
