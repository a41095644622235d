"""Token buckets, metrics and the OpenAPI document of the API."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from cryptography import x509

from saltlite.api import app, openapi
from saltlite.api.metrics import Metrics
from saltlite.api.rate_limiter import KNOWN_MAX, RateLimiter
from saltlite.api.tls import self_signed

ROOT = Path(__file__).parents[2]


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    pace = RateLimiter(2, 3)
    assert [pace.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert pace.take("a", 0.5) == 0.0


def test_one_address_does_not_slow_down_another() -> None:
    pace = RateLimiter(1, 1)
    pace.take("a", 0.0)
    assert pace.take("b", 0.0) == 0.0


def test_what_is_given_back_may_be_taken_again_and_no_more_than_the_burst() -> None:
    pace = RateLimiter(1, 2)
    for _ in range(5):
        assert pace.take("a", 0.0) == 0.0
        pace.give_back("a")
    pace.give_back("a")
    assert [pace.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]


def test_a_clock_that_stands_still_gives_nothing() -> None:
    pace = RateLimiter(1, 1)
    pace.take("a", 5.0)
    assert pace.take("a", 5.0) > 0


def test_addresses_are_forgotten_in_the_end() -> None:
    pace = RateLimiter(1, 1)
    for number in range(KNOWN_MAX + 1):
        pace.take(str(number), 0.0)
    assert pace.take("0", 0.0) == 0.0
    assert pace.take(str(KNOWN_MAX), 0.0) > 0.0


def test_requests_are_counted_by_endpoint_method_and_status() -> None:
    metrics = Metrics()
    metrics.answered("root", "POST", 200, 0.003)
    metrics.answered("root", "EVIL\n", 405, 100.0)
    text = metrics.exposed({"event_watchers": 2})
    assert 'saltlite_api_requests_total{endpoint="root",method="other",status="405"} 1' in text
    assert 'saltlite_api_request_seconds_bucket{endpoint="root",le="0.005"} 1' in text
    assert 'saltlite_api_request_seconds_bucket{endpoint="root",le="+Inf"} 2' in text
    assert "saltlite_api_event_watchers 2\n" in text


def test_the_checked_in_openapi_document_is_the_one_that_is_answered() -> None:
    checked_in = json.loads((ROOT / "saltlite/api/openapi.json").read_text())
    assert checked_in == openapi.document(), "run `python -m saltlite.api.openapi > saltlite/api/openapi.json`"


def test_every_path_but_the_websocket_is_in_the_openapi_document() -> None:
    served = {pattern.partition("(")[0].replace("\\", "").rstrip("/") or "/" for pattern in app.PATHS}
    described = {path.partition("{")[0].rstrip("/") or "/" for path in openapi.document()["paths"]}
    assert served - described == {"/ws"}


def test_a_self_signed_certificate_is_for_this_host_and_loopback() -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = x509.load_pem_x509_certificate(self_signed("box", now))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["box", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
