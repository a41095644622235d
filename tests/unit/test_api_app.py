"""Metrics, the OpenAPI document and certificates of the API."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
from pathlib import Path

import pytest
from cryptography import x509

from saltlite.api import app, endpoints, openapi
from saltlite.api.app import self_signed
from saltlite.api.documentation import Documentation
from saltlite.api.metrics import Metrics
from saltlite.config.api import ApiConfig
from saltlite.platform import supervision

ROOT = Path(__file__).parents[2]


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
    checked_in = json.loads((ROOT / "tests/golden/openapi.json").read_text())
    assert checked_in == openapi.document(), "run `python -m saltlite.api.openapi > tests/golden/openapi.json`"


def test_every_path_but_the_websocket_and_those_of_browsers_and_shells_is_in_the_openapi_document() -> None:
    served = {pattern.partition("(")[0].replace("\\", "").rstrip("/") or "/" for pattern in endpoints.PATHS}
    described = {path.partition("{")[0].rstrip("/") or "/" for path in openapi.document()["paths"]}
    assert served - described == {"/ws", "/console", "/install"}


@pytest.mark.parametrize("is_service", [True, False])
def test_a_service_makes_the_reference_when_it_starts_so_that_nobody_waits_for_it(
    is_service: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def begin(self: Documentation) -> None:
        begun.append(self)

    monkeypatch.setattr(Documentation, "begin", begin)
    monkeypatch.setattr(supervision, "notify", lambda _lines: is_service)

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(app._serve(ApiConfig(sock_dir=str(tmp_path)), str(tmp_path), [], None, stop))
    assert len(begun) == is_service


def test_a_self_signed_certificate_is_for_this_host_and_loopback() -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = x509.load_pem_x509_certificate(self_signed("box", now))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["box", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
