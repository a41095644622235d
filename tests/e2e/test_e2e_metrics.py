"""Figures of the fleet for Prometheus: who may read them, and whether a real Prometheus reads each of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from saltlite.api.metrics import fleet_metrics
from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.fleet import Fleet, free_port, wait_until

pytestmark = pytest.mark.e2e

CONF = Path(__file__).parents[2] / "conf"
RULES = yaml.safe_load((CONF / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
PANELS = json.loads((CONF / "grafana-dashboard.json").read_text())["panels"]
EXPRESSIONS = [*(rule["expr"] for rule in RULES), *(one["expr"] for panel in PANELS for one in panel["targets"])]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("metrics")) as both:
        yield both


def test_figures_of_the_fleet_need_the_right_to_its_status(served: tuple[Fleet, str]) -> None:
    admin, fred = Api(served[1]).log_in("admin"), Api(served[1]).log_in("fred")
    assert 'saltlite_minions{state="up"} 2' in admin.get("/metrics").body
    body = fred.get("/metrics").body
    assert "saltlite_api_requests_total" in body
    assert "saltlite_minions" not in body
    stranger = Api(served[1])
    assert stranger.get("/metrics", Authorization=f"Bearer {admin.token}").status == 200
    assert stranger.get("/metrics", Authorization=f"Basic {admin.token}").status == 401


def test_names_that_minions_chose_stay_inside_their_label() -> None:
    store = dict.fromkeys(("size", "limit", "file", "log", "seq"), 1)
    resources = {"types": {'x"} 1\nsaltlite_up 0 #\\': {"count": 3}}, "refused": 0, "incomplete": False}
    queues: dict[str, Any] = {"targets": {}, "minions_away_with_jobs": 0}
    status = {"store": store, "queues": queues, "resources": resources, "counts": {}, "readers": {}, "link": None}
    text = fleet_metrics({**status, "master": {"started_at": 1.0}})
    assert 'saltlite_resources{type="x_} 1_saltlite_up 0 #_"} 3\n' in text
    assert "saltlite_link_up 0\n" in text
    assert all(re.fullmatch(r"# .*|saltlite_\w+(\{\w+=\"[^\"]*\"\})? [0-9.e+-]+", line) for line in text.splitlines())


@pytest.fixture(scope="module")
def prometheus(served: tuple[Fleet, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that reads the figures every second, with the rules that ship."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    job = {
        "job_name": "saltlite",
        "scheme": "https",
        "tls_config": {"insecure_skip_verify": True},
        "authorization": {"credentials": Api(served[1]).log_in("admin").token},
        "static_configs": [{"targets": [urllib.parse.urlsplit(served[1]).netloc]}],
    }
    times = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    whole = {"global": times, "rule_files": [str(CONF / "prometheus-alerts.yml")], "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(whole))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def asked(address: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def test_a_prometheus_reads_the_figures_and_takes_the_rules(prometheus: str) -> None:
    def scraped() -> bool:
        try:
            return bool(asked(prometheus, "query", query="saltlite_minions")["result"])
        except OSError:
            return False

    wait_until(scraped, "Prometheus has read the figures")
    known = set(asked(prometheus, "label/__name__/values"))
    used = {name for expr in EXPRESSIONS for name in re.findall(r"\bsaltlite_\w+", expr)}
    # These have a row only where there is something to count, or where masters share their store.
    rare = {
        "saltlite_reader_lag_seconds", "saltlite_resources", "saltlite_open_targets",
        "saltlite_link_frames_refused_total", "saltlite_masters_up", "saltlite_masters_differences",
        "saltlite_masters_certificate_until_seconds", "saltlite_master_has_lease",
    }  # fmt: skip
    assert used - known <= rare
    for expr in EXPRESSIONS:
        asked(prometheus, "query", query=expr, time=str(time.time()))
    [group] = asked(prometheus, "rules")["groups"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in RULES]

    def evaluated() -> bool:
        rules = asked(prometheus, "rules")["groups"][0]["rules"]
        return all(rule["health"] == "ok" for rule in rules)

    wait_until(evaluated, "each rule was evaluated")


def test_without_a_login_they_are_for_the_api_s_own_user_and_stay_when_the_master_is_down(
    served: tuple[Fleet, str],
) -> None:
    fleet, url = served
    open_to_all = Api(fleet.start_api(stats_disable_auth=True))
    assert 'saltlite_minions{state="up"} 2' in open_to_all.get("/metrics").body
    admin = Api(url).log_in("admin")
    fleet.daemons["master"].kill_whole()
    # The login cannot be checked without the master; what needs none stays.
    assert admin.get("/metrics").status == 503
    wait_until(lambda: "saltlite_master_up 0" in open_to_all.get("/metrics").body, "the kept figures are too old")
    assert "saltlite_api_requests_total" in open_to_all.get("/metrics").body
