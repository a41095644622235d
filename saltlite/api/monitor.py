"""The endpoints about the API itself: /stats, /metrics, /openapi.json."""

from __future__ import annotations

import time

from saltlite import __version__
from saltlite.api.endpoint import Endpoint
from saltlite.api.openapi import document


class _Watched(Endpoint):
    """What the two endpoints with figures share: whoever may see them."""

    async def let_in(self) -> None:
        """Raises LoginError without a token that is good, unless figures are for everybody."""
        if not self.office.config.stats_disable_auth:
            await self.office.link.call(self.token(), "whoami")

    def gauges(self) -> dict[str, float]:
        """What there is now."""
        return {
            "connections": len(self.office.connections),
            "event_watchers": self.office.feeds.watchers,
            "uptime_seconds": time.time() - self.office.metrics.started_at,
        }


class Stats(_Watched):
    """/stats: figures as a value."""

    async def get(self) -> None:
        """Counts of requests by endpoint and status."""
        await self.let_in()
        metrics = self.office.metrics
        requests: dict[str, dict[str, int]] = {}
        for (endpoint, _method, status), count in sorted(metrics.requests.items()):
            row = requests.setdefault(endpoint, {})
            row[str(status)] = row.get(str(status), 0) + count
        self.answer({"saltlite-api": {"version": __version__, "requests": requests, **self.gauges()}})


class Prometheus(_Watched):
    """/metrics: figures for Prometheus."""

    def streams(self) -> bool:
        """The format is that of Prometheus, whatever Accept says."""
        return True

    async def get(self) -> None:
        """Counters, a histogram of durations, gauges."""
        await self.let_in()
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(self.office.metrics.exposed(self.gauges()))


class Openapi(Endpoint):
    """/openapi.json: what there is, for programs."""

    def get(self) -> None:
        """The document, to everybody."""
        self.answer(document())
